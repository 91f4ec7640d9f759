"""A run is a folder; this is the one place that knows its file names."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from afgrl.data.dataset import Dataset
from afgrl.data.leftovers import remove_leftovers
from afgrl.data.splits import Splits
from afgrl.errors import Interrupted, UserError
from afgrl.graph import Graph
from afgrl.ops.collectives import Shards
from afgrl.runs import checkpoints, dataset_files, logs, replace, results
from afgrl.runs.embeddings import (
    read_ids,
    read_parquet,
    read_vectors,
    vector_groups,
    vector_width,
    write_parquet,
    write_row_groups,
)
from afgrl.runs.environment import current_environment
from afgrl.runs.files import StorageError, replace_file, save_npy, save_npz, save_torch, write_json
from afgrl.runs.readers import check, check_record, n_rows, read_record, reading
from afgrl.runs.recognition import CONFIG, HEADER, is_run_folder
from afgrl.runs.spec import RunSpec
from afgrl.runs.tensor_file import read_tensors, write_tensors

FORMAT = 3  # raise when files change their meaning
# Everything afgrl writes into a run folder, and may therefore remove from it.
OWN_FILES = (
    "config.toml", "environment.json", "history.jsonl", "evaluations.jsonl", "graph.safetensors", "nodes.parquet",
    "splits.npz", "data.json", "preprocessing.json", "checkpoint.pt", "model.safetensors", "model.json", "scores.json",
    "predictions.npz", "quality.json", "clusters.parquet", "clusters.json", "projection-*.npy", "index.faiss",
    "index.json", "added-*.parquet", "model.onnx", "report.html", "comparison.html",
    "trace.jsonl", "map-*.npy",  # of format 1
    *(f"embeddings{new}.{form}" for new in ("", "-*") for form in ("parquet", "csv", "npy", "npy.ids.txt", "npz")),
)  # fmt: skip
OWN_FOLDERS = ("embeddings.lance", "embeddings-*.lance", "checkpoint-*", "quality")
HISTORY, EVALUATIONS = "history.jsonl", "evaluations.jsonl"
NOT_FINISHED = "training has not finished; resume it with `afgrl fit … --resume`"


@dataclass(frozen=True)
class Run:
    """One training run and everything computed from it. Files are written to a temporary name and renamed, except
    for the two logs, which grow line by line."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, force: bool = False) -> Run:
        """A new run folder. ``force`` replaces an existing run, once the new one is complete; files that afgrl did not
        write are kept, and a folder that is not a run is never touched."""
        run = cls(path)
        run.clean()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            if not run._is_run():
                raise UserError(f"{str(path)!r} exists and is not a run; choose another folder with --out.")
            if not force:
                choices = "--resume to continue it, --force to replace it, or another --out"
                raise UserError(f"The run {str(path)!r} exists; use {choices}.")
            replace.set_aside(path, run._own_files, complete=run.is_complete)
        replace.make_folder(path)
        return run

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run of the current format."""
        run = cls(path)
        run.clean()
        if not run._is_run() or not (path / CONFIG).is_file():
            raise UserError(f"{str(path)!r} is not a run (no config.toml of one); create a run with `afgrl fit`.")
        config = run._config()
        found = config.get("format", 1)
        with reading(path / CONFIG):
            check(isinstance(config.get("run"), dict), "it has no table [run]")
            check(type(found) is int, f"its format is {found!r}")
        if found != FORMAT:
            made_by = "an older" if found < FORMAT else "a newer"
            raise UserError(
                f"The run {str(path)!r} was made by {made_by} version of afgrl (format {found}, this is {FORMAT}); "
                "train it again with `afgrl fit … --force`."
            )
        return run

    @classmethod
    def create_unused(cls, parent: Path, name: str) -> Run:
        """A new run in ``parent/name``, or in the first of ``name-2``, ``name-3`` … that does not exist."""
        replace.make_folder(parent)
        candidates: Iterator[str] = (f"{name}-{i}" if i > 1 else name for i in range(1, sys.maxsize))
        return next(cls(parent / candidate) for candidate in candidates if replace.claim_folder(parent / candidate))

    def clean(self) -> None:
        """Remove what a killed process left: an unfinished replacement, a replaced run, temporary files."""
        if self._is_run():
            replace.put_back(self.path, self._own_files)
            if self.is_complete:
                replace.drop_previous(self.path)
            remove_leftovers(self.path, _is_own)

    def is_unfinished_save(self) -> bool:
        """Whether this is what is left of saving a model from Python when the process ended before it was complete."""
        if not (self._is_run() and (self.path / CONFIG).is_file()) or self.is_complete or self.has_checkpoint:
            return False
        try:
            return not self.spec().source
        except UserError:
            return False

    def _is_run(self) -> bool:
        return is_run_folder(self.path, _is_own)

    @contextmanager
    def replacing(self, *, resumable: bool = True) -> Iterator[None]:
        """Restore the replaced run if the new one fails; one that was interrupted or lacks disk space stays, since it
        can be resumed, unless ``resumable`` is False."""
        try:
            yield
        except BaseException as error:
            stays = resumable and isinstance(error, (Interrupted, KeyboardInterrupt, StorageError))
            if not (stays and replace.has_begun(self.path)):
                replace.restore_previous(self.path, self._own_files)
            raise

    def _own_files(self) -> list[Path]:
        """What afgrl wrote; config.toml last, so that a partly moved folder is still recognized as a run."""
        return replace.matching_files(self.path, OWN_FILES, OWN_FOLDERS, last=CONFIG)

    # Specification and environment

    def save_spec(self, spec: RunSpec) -> None:
        command = spec.command(self.path / CONFIG)
        lines = [f"# Repeat this run: {command}"] if command and command.isprintable() else []  # a comment is one line
        lines += [HEADER, f"format = {FORMAT}", ""]
        try:
            text = ("\n".join(lines) + spec.to_toml()).encode()
        except UnicodeEncodeError:
            raise UserError(f"The name of the source is not valid text: {spec.source!r}; rename it.") from None
        self._replace(CONFIG, lambda path: path.write_bytes(text))
        replace.begin(self.path)

    def spec(self) -> RunSpec:
        with reading(self.path / CONFIG):
            return RunSpec.from_toml(self._config())

    def _config(self) -> dict[str, Any]:
        with reading(self.path / CONFIG):
            return tomllib.loads((self.path / CONFIG).read_text(encoding="utf-8"))

    def save_environment(self, device: torch.device) -> None:
        write_json(self.path / "environment.json", current_environment(device))

    def environment(self) -> dict[str, Any]:
        """Device, versions and commit; empty if they were not recorded."""
        file = self.path / "environment.json"
        return read_record(file, versions=dict) if file.is_file() else {}

    # Dataset

    def save_dataset(self, dataset: Dataset, *, with_features: bool = True) -> str | None:
        """Copy the dataset into the run. Returns a sentence if its features are too large for that."""
        return dataset_files.save_dataset(self.path, dataset, with_features=with_features)

    def dataset(self, data_dir: str | None = None) -> Dataset:
        """The dataset as the run was trained on it."""
        return dataset_files.load_dataset(self.path, self.spec(), data_dir)

    def edges(self) -> Graph:
        """The graph with a constant feature instead of its own, for what needs only its edges."""
        return dataset_files.load_edges(self.path)

    def labels(self) -> tuple[np.ndarray | None, Splits | None]:
        return dataset_files.load_labels(self.path)

    def data(self) -> dict[str, Any]:
        """What `afgrl check` says about the dataset; empty before it is saved."""
        return dataset_files.read_data(self.path)

    def nodes(self) -> pa.Table:
        """``id`` and the user's columns, in the order of the vectors."""
        return dataset_files.read_nodes(self.path)

    def names(self) -> tuple[str, pa.ChunkedArray] | None:
        """The column of names shown beside the ids, and the names as text, in the order of the vectors."""
        return dataset_files.read_names(self.path)

    # Training

    def append(self, name: str, record: dict[str, Any]) -> None:
        """Add a line to one of the two logs."""
        logs.append_line(self.path / name, record)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return logs.read_lines(self.path / name)

    def drop_lines_after(self, epoch: int) -> None:
        """Drop the log lines of epochs that a resumed training run will repeat."""
        for name in (HISTORY, EVALUATIONS):
            logs.drop_lines_after(self.path / name, epoch)

    def save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._replace("checkpoint.pt", lambda path: save_torch(path, checkpoint))
        checkpoints.drop_folders(self.path)

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / "checkpoint.pt").is_file() or checkpoints.latest_folder(self.path) is not None

    def checkpoint(self, device: torch.device, shards: Shards | None = None) -> dict[str, Any] | None:
        """The last checkpoint, saved by one process or several; with ``shards``, for one of several processes."""
        if folder := checkpoints.latest_folder(self.path):
            from afgrl.train.sharded_checkpoint import load_shards  # loads PyTorch's checkpoint library

            with reading(folder):
                return load_shards(folder, device, shards)
        file = self.path / "checkpoint.pt"
        if not file.exists():
            return None
        with reading(file):
            checkpoint = torch.load(file, map_location=device, weights_only=True)
            check_record(checkpoint, {"step": int, "last": int, "seconds": float})
            return dict(checkpoint)

    def save_model(self, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
        """Written last: a run with a model is complete."""
        plain = {name: value for name, value in tensors.items() if isinstance(value, Tensor)}
        write_tensors(self.path / "model.safetensors", plain)
        write_json(self.path / "model.json", description)
        replace.drop_previous(self.path)

    @property
    def is_complete(self) -> bool:
        return (self.path / "model.json").is_file()

    def model(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._need("model.safetensors", NOT_FINISHED)
        return read_tensors(self.path / "model.safetensors")[0], self.model_description()

    def model_description(self) -> dict[str, Any]:
        """Method, size, settings, epochs and seconds of the training."""
        self._need("model.json", NOT_FINISHED)
        return read_record(
            self.path / "model.json", method=str, n_nodes=int, n_features=int, weighted=bool, epochs=int,
            seconds=(int, float), settings=dict,
        )  # fmt: skip

    def drop_large_files(self, *, keep_embedding: bool = False) -> None:
        """Remove what can be computed again by repeating the run: checkpoint, weights, and the embedding."""
        names = ["checkpoint.pt", "model.safetensors", *([] if keep_embedding else ["embeddings.parquet"])]
        for name in names:
            (self.path / name).unlink(missing_ok=True)
        checkpoints.drop_folders(self.path)

    # Results

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

    def embedding_rows(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some nodes, by their row numbers: [len(rows), d]."""
        self._need("embeddings.parquet", NOT_FINISHED)
        return read_vectors(self.embedding_file(None, "parquet"), rows)

    @property
    def embedding_width(self) -> int:
        self._need("embeddings.parquet", NOT_FINISHED)
        return vector_width(self.embedding_file(None, "parquet"))

    def save_predictions(self, classes: np.ndarray) -> None:
        """The class of each node by each split's classifier, [s, n], of a supervised method."""
        self._replace("predictions.npz", lambda path: save_npz(path, {"classes": classes}, compressed=True))

    def predictions(self) -> np.ndarray | None:
        classes = results.read_predictions(self.path / "predictions.npz")
        if classes is not None:
            self._check_n("predictions.npz", classes.shape[1])
            y, _ = self.labels()
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

    def save_projection(self, name: str, points: np.ndarray) -> None:
        """The 2-D projection of that name, [n, 2]."""
        flat = np.ascontiguousarray(points, dtype=np.float32)
        self._replace(f"projection-{name}.npy", lambda path: save_npy(path, flat))

    def projection(self, name: str) -> np.ndarray | None:
        return results.read_projection(self.path / f"projection-{name}.npy")

    def save_scores(self, scores: dict[str, Any]) -> None:
        write_json(self.path / "scores.json", scores)

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

    # Files

    def reading(self, name: str) -> AbstractContextManager[None]:
        """Around the use of what a file contains: what is wrong with it becomes one sentence about this file."""
        return reading(self.path / name)

    def _need(self, name: str, reason: str) -> None:
        if not (self.path / name).is_file():
            raise UserError(f"The run {str(self.path)!r} has no {name}: {reason}.")

    def _check_n(self, name: str, n: int) -> None:
        """That a file has as many entries as the run has nodes."""
        if (self.path / dataset_files.NODES).is_file():
            expected = n_rows(self.path / dataset_files.NODES)
            with self.reading(name):
                check(n == expected, f"it has {n:,} entries, but the run has {expected:,} nodes")

    def _replace(self, name: str, write: Callable[[Path], Any]) -> None:
        replace_file(self.path / name, write)


def _is_own(name: str) -> bool:
    return replace.matches(name, (*OWN_FILES, *OWN_FOLDERS))
