"""What was computed from a trained model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from afgrl.runs import dataset_files, results
from afgrl.runs.embeddings import (
    read_ids,
    read_parquet,
    read_vectors,
    vector_groups,
    vector_width,
    write_parquet,
    write_row_groups,
)
from afgrl.runs.files import replace_file, save_npy, save_npz, write_json
from afgrl.runs.lock import writes_run
from afgrl.runs.own_files import note
from afgrl.runs.parts.files import RunFiles
from afgrl.runs.parts.training import NOT_FINISHED
from afgrl.runs.readers import check, n_rows

PARTIAL_SCORES = "scores-partial.json"


class ResultFiles(RunFiles):
    def save_embedding(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        write_parquet(self.embedding_file(None, "parquet"), ids, vectors)

    def save_embedding_groups(self, ids: np.ndarray, groups: Iterable[np.ndarray]) -> None:
        """The same from vectors that come in groups of rows."""
        write_row_groups(self.embedding_file(None, "parquet"), ids, groups)

    def embedding(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids and their vectors, [n] and [n, d] float32."""
        self._need("embeddings.parquet", NOT_FINISHED)
        ids, vectors = read_parquet(self.embedding_file(None, "parquet"))
        self._check_n("embeddings.parquet", len(ids))
        return ids, vectors

    def embedding_ids(self) -> np.ndarray:
        """The ids alone, [n]."""
        self._need("embeddings.parquet", NOT_FINISHED)
        ids = read_ids(self.embedding_file(None, "parquet"))
        self._check_n("embeddings.parquet", len(ids))
        return ids

    def embedding_groups(self) -> Iterator[np.ndarray]:
        """The vectors alone, in groups of rows of which one is in memory at a time: [rows, d] each, read-only."""
        self._need("embeddings.parquet", NOT_FINISHED)
        return vector_groups(self.embedding_file(None, "parquet"))

    def has_vectors(self, vectors: np.ndarray) -> bool:
        """Whether these are its vectors now: since they were read, the run may have been replaced."""
        if not self.embedding_file(None, "parquet").is_file() or self.embedding_shape != vectors.shape:
            return False
        end = 0
        for group in self.embedding_groups():
            begin, end = end, end + len(group)
            if not np.array_equal(group, vectors[begin:end]):
                return False
        return True

    def embedding_rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some nodes, by their row numbers: [len(rows), d]."""
        self._need("embeddings.parquet", NOT_FINISHED)
        return read_vectors(self.embedding_file(None, "parquet"), rows)

    @property
    def embedding_shape(self) -> tuple[int, int]:
        self._need("embeddings.parquet", NOT_FINISHED)
        file = self.embedding_file(None, "parquet")
        n = n_rows(file)
        self._check_n(file.name, n)
        return n, vector_width(file)

    def vectors_fingerprint(self) -> str:
        """A hash of the shape and the values of the vectors."""
        digest = hashlib.blake2b(repr((self.embedding_shape, "<f4")).encode(), digest_size=16)
        for group in self.embedding_groups():
            digest.update(np.ascontiguousarray(group).data)
        return digest.hexdigest()

    def save_predictions(self, classes: np.ndarray) -> None:
        """The class of each node by each split's classifier, [s, n], of a supervised method."""
        self._replace("predictions.npz", lambda path: save_npz(path, {"classes": classes}, compressed=True))

    def predictions(self) -> np.ndarray | None:
        classes = results.read_predictions(self.path / "predictions.npz")
        if classes is not None:
            self._check_n("predictions.npz", classes.shape[1])
            y, _ = dataset_files.load_labels(self.path)
            with self.reading("predictions.npz"):
                check(y is None or 0 <= int(classes.min()) <= int(classes.max()) <= int(y.max()), "a class is unknown")
        return classes

    def save_clusters(self, ids: np.ndarray, clusters: np.ndarray, description: dict[str, Any]) -> None:
        results.write_clusters(self.clusters_file, ids, clusters, description)

    def clusters(self) -> tuple[np.ndarray, dict[str, Any]] | None:
        """The cluster of each trained node, [n], and the description of the clusters; None before `afgrl cluster`."""
        nodes = self.path / dataset_files.NODES
        found = results.read_clusters(self.clusters_file, n_rows(nodes) if nodes.is_file() else None)
        if found is not None:
            self._check_n(self.clusters_file.name, len(found[0]))
        return found

    @writes_run
    def save_projection(self, name: str, points: np.ndarray) -> None:
        """The 2-D projection of that name, [n, 2]."""
        flat = np.ascontiguousarray(points, dtype=np.float32)
        file = self.path / f"projection-{name}.npy"
        self.note_file(file)
        replace_file(file, lambda path: save_npy(path, flat))

    def note_file(self, file: Path) -> None:
        """Before a file of the run is written whose name the user has chosen: it belongs to the run."""
        note(self.path, file)

    def projection(self, name: str) -> np.ndarray | None:
        return results.read_projection(self.path / f"projection-{name}.npy")

    def save_scores(self, scores: dict[str, Any]) -> None:
        write_json(self.path / "scores.json", scores)
        (self.path / PARTIAL_SCORES).unlink(missing_ok=True)

    def save_partial_scores(self, key: list[Any], scores: dict[str, Any]) -> None:
        """The scores of some embeddings, until all are scored; ``key`` has what they follow from."""
        write_json(self.path / PARTIAL_SCORES, {"key": key, "scores": scores})

    def partial_scores(self, key: list[Any]) -> dict[str, Any]:
        """Those of an interrupted evaluation; empty if there are none for this key."""
        return results.read_partial_scores(self.path / PARTIAL_SCORES, key)

    @property
    def has_scores(self) -> bool:
        return (self.path / "scores.json").is_file()

    def scores(self) -> dict[str, Any]:
        self._need("scores.json", "create it with `afgrl evaluate`")
        return results.read_scores(self.path / "scores.json")

    def save_quality(self, answer: dict[str, Any]) -> None:
        """The quality panel."""
        write_json(self.quality_file, answer)

    def quality(self) -> dict[str, Any] | None:
        """The quality panel; None before `afgrl quality`."""
        return results.read_quality(self.quality_file)

    @property
    def quality_file(self) -> Path:
        return self.path / "quality.json"

    @property
    def quality_folder(self) -> Path:
        """Where the further training runs of the quality panel are."""
        return self.path / "quality"

    # Paths of files that other libraries write

    @property
    def index_file(self) -> Path:
        return self.path / "index.faiss"

    @property
    def index_description_file(self) -> Path:
        return self.path / "index.json"

    @property
    def onnx_file(self) -> Path:
        return self.path / "model.onnx"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    @property
    def comparison_file(self) -> Path:
        return self.path / "comparison.html"

    @property
    def clusters_file(self) -> Path:
        return self.path / "clusters.parquet"

    def embedding_file(self, name: str | None, form: str) -> Path:
        """Of the run's own nodes, or of the new nodes of that name."""
        return self.path / f"embeddings{f'-{name}' if name else ''}.{form}"
