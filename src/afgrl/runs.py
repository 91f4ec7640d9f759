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

from afgrl import folders
from afgrl.data.splits import Splits
from afgrl.environment import environment
from afgrl.errors import Interrupted, UserError
from afgrl.order import command
from afgrl.vectors import read_parquet, write_parquet
from afgrl.writing import replace_file, save_npy, save_npz

# All that afgrl writes into a run folder, and may therefore remove from it.
OWN_FILES = (
    "config.toml", "environment.json", "history.jsonl", "trace.jsonl", "splits.npz", "checkpoint.pt",
    "model.safetensors", "model.json", "scores.json", "predictions.npz", "nodes.parquet", "data.json",
    "preprocessing.json", "clusters.parquet", "clusters.json", "map-*.npy", "index.faiss", "index.json", "model.onnx",
    "report.html",
    *(f"embeddings{new}.{form}" for new in ("", "-*") for form in ("parquet", "csv", "npy", "npy.ids.txt", "npz")),
)  # fmt: skip
OWN_FOLDERS = ("embeddings.lance", "embeddings-*.lance")


@dataclass(frozen=True)
class Run:
    """A training and all that came of it. Files are written to a temporary name and renamed, but for
    the two that grow line by line."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, force: bool = False) -> Run:
        """A new run folder; an existing one is replaced only by ``force``, only if it is a run, and only when the new
        one has its model. What others put there stays."""
        run = cls(path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            if not run._is_one():
                raise UserError(f"{str(path)!r} exists and is not a run; choose another folder with --out.")
            if not force:
                raise UserError(
                    f"The run {str(path)!r} exists; --resume goes on with it, --force replaces it, --out names another."
                )
            folders.set_aside(path, run._own(), finished=(path / "model.safetensors").is_file())
        folders.make(path)
        return run

    @classmethod
    def open(cls, path: Path) -> Run:
        run = cls(path)
        if not run._is_one():
            raise UserError(f"There is no run in {str(path)!r} (no config.toml of one); `afgrl fit` makes one.")
        return run

    @classmethod
    def unused(cls, parent: Path, name: str) -> Run:
        """A new run in ``parent/name``, or in the first of ``name-2``, ``name-3`` … that does not exist."""
        folders.make(parent)
        candidates: Iterator[str] = (f"{name}-{i}" if i > 1 else name for i in range(1, sys.maxsize))
        return next(cls(parent / candidate) for candidate in candidates if folders.claim(parent / candidate))

    def _is_one(self) -> bool:
        """Other programs have a config.toml too."""
        try:
            asked = self.config().get("run")
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            return False
        return isinstance(asked, dict) and "method" in asked

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """While a new run is made: where that fails, the one it was to replace comes back. One that was interrupted
        stays, for it goes on later."""
        try:
            yield
        except Interrupted:
            raise
        except Exception:
            folders.bring_back(self.path, self._own())
            raise

    def _own(self) -> list[Path]:
        """What afgrl wrote; config.toml last, so that what is left half-way is still a run."""
        return folders.named(self.path, OWN_FILES, OWN_FOLDERS, last="config.toml")

    # What was asked for

    def write_config(self, run: dict[str, Any], settings: dict[str, Any]) -> None:
        lines = ["# Only the settings of this: afgrl fit SOURCE --config THIS_FILE", "[run]"]
        again = command(self.path, run)
        if again and again.isprintable():  # a comment is one line
            lines.insert(0, f"# All of this again: {again}")
        lines += [f"{key} = {_toml(value)}" for key, value in run.items() if value is not None]
        lines += ["", "[settings]", *(f"{key} = {_toml(value)}" for key, value in settings.items()), ""]
        try:
            text = "\n".join(lines).encode()
        except UnicodeEncodeError:
            raise UserError(f"A name is no text in any encoding: {run.get('source')!r}; rename it.") from None
        self._replace("config.toml", lambda path: path.write_bytes(text))

    def config(self) -> dict[str, dict[str, Any]]:
        return tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))

    def write_environment(self, device: torch.device) -> None:
        self._write_json("environment.json", environment(device))

    def environment(self) -> dict[str, Any]:
        """What it was made with; empty where nobody wrote it down."""
        return self._json("environment.json") if (self.path / "environment.json").is_file() else {}

    # What training left

    def append(self, name: str, record: dict[str, Any]) -> None:
        """A line of ``history.jsonl`` or ``trace.jsonl``."""
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
            except json.JSONDecodeError:  # the process died while it wrote this line
                break
        return records

    def forget_after(self, epoch: int) -> None:
        """Drop the lines of epochs that a resumed training will live through again."""
        for name in ("history.jsonl", "trace.jsonl"):
            if (self.path / name).exists():
                kept = [json.dumps(record) + "\n" for record in self.lines(name) if record["epoch"] <= epoch]
                self._replace(name, partial(Path.write_text, data="".join(kept), encoding="utf-8"))

    def save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._replace("checkpoint.pt", lambda path: torch.save(checkpoint, path))

    def checkpoint(self, device: torch.device) -> dict[str, Any] | None:
        file = self.path / "checkpoint.pt"
        return torch.load(file, map_location=device, weights_only=True) if file.exists() else None

    def save_model(self, tensors: dict[str, Tensor], description: dict[str, Any]) -> None:
        """The last that a training writes."""
        plain = {
            name: value.detach().cpu().contiguous() for name, value in tensors.items() if isinstance(value, Tensor)
        }
        # By bytes: a file that the library makes itself nobody but its owner may read.
        self._replace("model.safetensors", lambda path: path.write_bytes(save(plain)))
        self._write_json("model.json", description)
        folders.forget_former(self.path)

    def model(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._need("model.safetensors", "the training has not finished; `afgrl fit … --resume` goes on with it")
        try:
            return load_file(self.path / "model.safetensors"), self._json("model.json")
        except (SafetensorError, json.JSONDecodeError) as error:
            raise UserError(f"The model of the run {str(self.path)!r} is damaged: {error}.") from None

    @property
    def learned_from_weights(self) -> bool:
        """Whether the edges of the training had weights."""
        return bool(self.model()[1].get("weighted", False))

    # What came of it

    def save_embedding(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        write_parquet(self.path / "embeddings.parquet", ids, vectors)

    def embedding(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids and their vectors, [n] and [n, d] float32."""
        self._need("embeddings.parquet", "the training has not finished; `afgrl fit … --resume` goes on with it")
        return read_parquet(self.path / "embeddings.parquet")

    def save_predictions(self, classes: np.ndarray) -> None:
        """Of a supervised method: the class of each node by each split, [s, n]."""
        self._replace("predictions.npz", lambda path: save_npz(path, {"classes": classes}, packed=True))

    def predictions(self) -> np.ndarray | None:
        file = self.path / "predictions.npz"
        return np.load(file)["classes"] if file.exists() else None

    def save_data(self, nodes: pa.Table, description: dict[str, Any]) -> None:
        """The columns a user has of the nodes, ``id`` first, and what was understood of the source."""
        self._replace("nodes.parquet", lambda path: pq.write_table(nodes, path))
        self._write_json("data.json", description)

    def nodes(self) -> pa.Table:
        """What is known of each node besides its features, in the order of the vectors: ``id`` and any columns."""
        file = self.path / "nodes.parquet"
        return pq.read_table(file) if file.is_file() else pa.table({"id": self.embedding()[0]})

    def data(self) -> dict[str, Any]:
        """What was understood of the source; empty for a run that was saved from Python."""
        return self._json("data.json") if (self.path / "data.json").is_file() else {}

    def save_preprocessing(self, fitted: list[dict[str, Any]]) -> None:
        self._write_json("preprocessing.json", fitted)

    def preprocessing(self) -> list[dict[str, Any]] | None:
        """How columns became features; None where the source had features already."""
        return self._json("preprocessing.json") if (self.path / "preprocessing.json").is_file() else None

    def save_clusters(self, ids: np.ndarray, clusters: np.ndarray, description: dict[str, Any]) -> None:
        table = pa.table({"id": pa.array(ids), "cluster": pa.array(clusters, pa.int32())})
        replace_file(self.clusters_file, lambda path: pq.write_table(table, path))
        self._write_json("clusters.json", description)

    def clusters(self) -> tuple[np.ndarray, dict[str, Any]] | None:
        """The cluster of each node, [n], and what is said of the clusters; None before `afgrl cluster`."""
        if not (self.path / "clusters.json").is_file():
            return None
        table = pq.read_table(self.clusters_file)
        return table["cluster"].to_numpy(), self._json("clusters.json")

    def save_map(self, name: str, points: np.ndarray) -> None:
        """The vectors in the plane, [n, 2], by a map of that name."""
        flat = np.ascontiguousarray(points, dtype=np.float32)
        self._replace(f"map-{name}.npy", lambda path: save_npy(path, flat))

    def map(self, name: str) -> np.ndarray | None:
        file = self.path / f"map-{name}.npy"
        return np.load(file, allow_pickle=False) if file.is_file() else None

    # What other libraries write, and therefore need the names of

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
        """Of the run's own nodes, or of new ones by that name."""
        return self.path / f"embeddings{f'-{name}' if name else ''}.{form}"

    # What it is judged by

    def save_splits(self, splits: Splits) -> None:
        self._replace("splits.npz", splits.save)

    def splits(self) -> Splits:
        self._need("splits.npz", "its data has no labels")
        return Splits.load(self.path / "splits.npz")

    def save_scores(self, scores: dict[str, Any]) -> None:
        self._write_json("scores.json", scores)

    @property
    def has_scores(self) -> bool:
        return (self.path / "scores.json").is_file()

    def scores(self) -> dict[str, Any]:
        self._need("scores.json", "`afgrl evaluate` makes it")
        return self._json("scores.json")

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


def _toml(value: Any) -> str:
    """A scalar or a list of scalars; JSON writes them as TOML does, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
