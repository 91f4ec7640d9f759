"""A run is a folder; this is the one place that knows its file names."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from afgrl.data.dataset import Dataset
from afgrl.data.splits import Splits
from afgrl.errors import Interrupted, UserError
from afgrl.graph import Graph
from afgrl.runs import dataset_files, replace
from afgrl.runs.embeddings import read_parquet, write_parquet
from afgrl.runs.environment import current_environment
from afgrl.runs.files import replace_file, save_npy, save_npz
from afgrl.runs.spec import RunSpec

FORMAT = 3  # raise when files change their meaning
# Everything afgrl writes into a run folder, and may therefore remove from it.
OWN_FILES = (
    "config.toml", "environment.json", "history.jsonl", "evaluations.jsonl", "graph.safetensors", "nodes.parquet",
    "splits.npz", "data.json", "preprocessing.json", "checkpoint.pt", "model.safetensors", "model.json", "scores.json",
    "predictions.npz", "clusters.parquet", "clusters.json", "projection-*.npy", "index.faiss", "index.json",
    "model.onnx", "report.html", "trace.jsonl", "map-*.npy",  # the last two: of format 1
    *(f"embeddings{new}.{form}" for new in ("", "-*") for form in ("parquet", "csv", "npy", "npy.ids.txt", "npz")),
)  # fmt: skip
OWN_FOLDERS = ("embeddings.lance", "embeddings-*.lance")
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
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            if not run._is_run():
                raise UserError(f"{str(path)!r} exists and is not a run; choose another folder with --out.")
            if not force:
                choices = "--resume to continue it, --force to replace it, or another --out"
                raise UserError(f"The run {str(path)!r} exists; use {choices}.")
            replace.set_aside(path, run._own_files(), complete=(path / "model.safetensors").is_file())
        replace.make_folder(path)
        return run

    @classmethod
    def open(cls, path: Path) -> Run:
        """An existing run of the current format."""
        run = cls(path)
        if not run._is_run():
            raise UserError(f"{str(path)!r} is not a run (no config.toml of one); create a run with `afgrl fit`.")
        found = run._config().get("format", 1)
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

    def _is_run(self) -> bool:
        """Other programs have a config.toml too."""
        try:
            table = self._config().get("run")
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            return False
        return isinstance(table, dict) and "method" in table

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Restore the replaced run if the new one fails; an interrupted one stays, since it can be resumed."""
        try:
            yield
        except Interrupted:
            raise
        except Exception:
            replace.restore_previous(self.path, self._own_files())
            raise

    def _own_files(self) -> list[Path]:
        """What afgrl wrote; config.toml last, so that a partly moved folder is still recognized as a run."""
        return replace.matching_files(self.path, OWN_FILES, OWN_FOLDERS, last="config.toml")

    # Specification and environment

    def save_spec(self, spec: RunSpec) -> None:
        command = spec.command(self.path / "config.toml")
        lines = [f"# Repeat this run: {command}"] if command and command.isprintable() else []  # a comment is one line
        lines += ["# Use only its settings: afgrl fit SOURCE --config THIS_FILE", f"format = {FORMAT}", ""]
        try:
            text = ("\n".join(lines) + spec.to_toml()).encode()
        except UnicodeEncodeError:
            raise UserError(f"The name of the source is not valid text: {spec.source!r}; rename it.") from None
        self._replace("config.toml", lambda path: path.write_bytes(text))

    def spec(self) -> RunSpec:
        return RunSpec.from_toml(self._config())

    def _config(self) -> dict[str, Any]:
        return tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))

    def save_environment(self, device: torch.device) -> None:
        self._write_json("environment.json", current_environment(device))

    def environment(self) -> dict[str, Any]:
        """Device, versions and commit; empty if they were not recorded."""
        return self._json("environment.json") if (self.path / "environment.json").is_file() else {}

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
        return pq.read_table(self.path / dataset_files.NODES)

    # Training

    def append(self, name: str, record: dict[str, Any]) -> None:
        """Add a line to one of the two logs."""
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        file = self.path / name
        if not file.exists():
            return []
        records = []
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:  # the process was killed while it wrote this line
                break
        return records

    def drop_lines_after(self, epoch: int) -> None:
        """Drop the log lines of epochs that a resumed training run will repeat."""
        for name in (HISTORY, EVALUATIONS):
            if (self.path / name).exists():
                lines = [json.dumps(record) + "\n" for record in self.lines(name) if record["epoch"] <= epoch]
                self._replace(name, partial(Path.write_text, data="".join(lines), encoding="utf-8"))

    def save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._replace("checkpoint.pt", lambda path: torch.save(checkpoint, path))

    def checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        file = self.path / "checkpoint.pt"
        return torch.load(file, map_location=device, weights_only=True) if file.exists() else None

    def save_model(self, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
        """Written last: a run with a model is complete."""
        plain = {
            name: value.detach().cpu().contiguous() for name, value in tensors.items() if isinstance(value, Tensor)
        }
        # Written as bytes: the library would create a file that only its owner may read.
        self._replace("model.safetensors", lambda path: path.write_bytes(save(plain)))
        self._write_json("model.json", description)
        replace.drop_previous(self.path)

    @property
    def is_complete(self) -> bool:
        return (self.path / "model.json").is_file()

    def model(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._need("model.safetensors", NOT_FINISHED)
        try:
            return load_file(self.path / "model.safetensors"), self._json("model.json")
        except (SafetensorError, json.JSONDecodeError) as error:
            raise UserError(f"The model of the run {str(self.path)!r} is damaged: {error}.") from None

    def model_description(self) -> dict[str, Any]:
        """Method, size, settings, epochs and seconds of the training."""
        self._need("model.json", NOT_FINISHED)
        description: dict[str, Any] = self._json("model.json")
        return description

    def drop_large_files(self, *, keep_embedding: bool = False) -> None:
        """Remove what can be computed again by repeating the run: checkpoint, weights, and the embedding."""
        names = ["checkpoint.pt", "model.safetensors", *([] if keep_embedding else ["embeddings.parquet"])]
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    # Results

    def save_embedding(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        write_parquet(self.embedding_file(None, "parquet"), ids, vectors)

    def embedding(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids and their vectors, [n] and [n, d] float32."""
        self._need("embeddings.parquet", NOT_FINISHED)
        return read_parquet(self.embedding_file(None, "parquet"))

    def save_predictions(self, classes: np.ndarray) -> None:
        """The class of each node by each split's classifier, [s, n], of a supervised method."""
        self._replace("predictions.npz", lambda path: save_npz(path, {"classes": classes}, compressed=True))

    def predictions(self) -> np.ndarray | None:
        file = self.path / "predictions.npz"
        return np.load(file)["classes"] if file.exists() else None

    def save_clusters(self, ids: np.ndarray, clusters: np.ndarray, description: dict[str, Any]) -> None:
        table = pa.table({"id": pa.array(ids), "cluster": pa.array(clusters, pa.int32())})
        replace_file(self.clusters_file, lambda path: pq.write_table(table, path))
        self._write_json("clusters.json", description)

    def clusters(self) -> tuple[np.ndarray, dict[str, Any]] | None:
        """The cluster of each node, [n], and the description of the clusters; None before `afgrl cluster`."""
        if not (self.path / "clusters.json").is_file():
            return None
        table = pq.read_table(self.clusters_file)
        return table["cluster"].to_numpy(), self._json("clusters.json")

    def save_projection(self, name: str, points: np.ndarray) -> None:
        """The 2-D projection of that name, [n, 2]."""
        flat = np.ascontiguousarray(points, dtype=np.float32)
        self._replace(f"projection-{name}.npy", lambda path: save_npy(path, flat))

    def projection(self, name: str) -> np.ndarray | None:
        file = self.path / f"projection-{name}.npy"
        return np.load(file, allow_pickle=False) if file.is_file() else None

    def save_scores(self, scores: dict[str, Any]) -> None:
        self._write_json("scores.json", scores)

    @property
    def has_scores(self) -> bool:
        return (self.path / "scores.json").is_file()

    def scores(self) -> dict[str, Any]:
        self._need("scores.json", "create it with `afgrl evaluate`")
        scores: dict[str, Any] = self._json("scores.json")
        return scores

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
    def clusters_file(self) -> Path:
        return self.path / "clusters.parquet"

    def embedding_file(self, name: str | None, form: str) -> Path:
        """Of the run's own nodes, or of the new nodes of that name."""
        return self.path / f"embeddings{f'-{name}' if name else ''}.{form}"

    # Files

    def _need(self, name: str, reason: str) -> None:
        if not (self.path / name).is_file():
            raise UserError(f"The run {str(self.path)!r} has no {name}: {reason}.")

    def _json(self, name: str) -> Any:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def _write_json(self, name: str, value: Any) -> None:
        text = json.dumps(value, indent=1) + "\n"
        self._replace(name, lambda path: path.write_text(text, encoding="utf-8"))

    def _replace(self, name: str, write: Callable[[Path], Any]) -> None:
        replace_file(self.path / name, write)
