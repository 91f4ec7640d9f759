"""What afgrl wrote into a run folder, and may therefore remove from it: by exact names, by contents, or because it was
noted down. Anything else is the user's, whatever its name begins with.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from afgrl.data.leftovers import is_folder, unfinished
from afgrl.errors import UserError
from afgrl.runs import checkpoints
from afgrl.runs.files import write_json
from afgrl.runs.readers import read_record
from afgrl.runs.recognition import CONFIG, is_run_folder

NOTED = "written.json"  # the names that a user chose, of files that afgrl wrote
FORMS = ("parquet", "csv", "npy", "npy.ids.txt", "npz")
FILES = {
    CONFIG, "environment.json", "history.jsonl", "evaluations.jsonl", "graph.safetensors", "nodes.parquet",
    "features.safetensors", "splits.npz", "data.json", "preprocessing.json", "checkpoint.pt", "model.safetensors",
    "model.json", "scores.json", "scores-partial.json", "predictions.npz", "quality.json", "clusters.parquet",
    "clusters.json", "projection-tsne.npy", "projection-pca.npy", "index.faiss", "index.json", "model.onnx",
    "report.html", "comparison.html", NOTED, *(f"embeddings.{form}" for form in FORMS),
    "trace.jsonl", "map-tsne.npy", "map-pca.npy",  # of format 1
}  # fmt: skip
FOLDERS = {"embeddings.lance"}
ADDED = "added-*.parquet"
# The names that a user completes: what is noted down, and the temporary files of those.
CHOSEN = (*(f"embeddings-*.{form}" for form in (*FORMS, "lance")), "projection-*.npy")
QUALITY, TRAINING = "quality", re.compile(r"(links|edges-\d+|seed-\d+)-[0-9a-f]{8}")


def own_entries(path: Path) -> list[Path]:
    """The files and folders of a run that afgrl wrote, also deeper ones if the user has put something beside them;
    config.toml is the last, so that a partly moved folder is still recognized as a run."""
    noted = _noted(path)
    own = [entry for file in path.iterdir() for entry in _own_parts(file, noted)]
    return sorted(own, key=lambda entry: entry == path / CONFIG)


def is_own_name(name: str) -> bool:
    """Whether afgrl writes files of this name, or it is the temporary name of such a file."""
    temporary = unfinished(name)
    final = temporary[0] if temporary else name
    return final in FILES | FOLDERS | {QUALITY} or any(fnmatchcase(final, one) for one in (*CHOSEN, ADDED))


def note(path: Path, file: Path) -> None:
    """Before a file is written whose name the user has chosen: that it is not the user's."""
    if file.name not in FILES | FOLDERS:
        names = [file.name, *([f"{file.name}.ids.txt"] if file.suffix == ".npy" else [])]
        write_json(path / NOTED, {"names": sorted(_noted(path) | set(names))})


def _noted(path: Path) -> set[str]:
    """A damaged list is an empty one: what is in doubt stays."""
    try:
        names = read_record(path / NOTED, names=list)["names"] if (path / NOTED).is_file() else []
    except UserError:
        return set()
    return {name for name in names if isinstance(name, str) and any(fnmatchcase(name, one) for one in CHOSEN)}


def _own_parts(entry: Path, noted: set[str]) -> list[Path]:
    """The entry itself, or what is ours in a folder that is partly ours."""
    name = entry.name
    if unfinished(name):
        return [entry] if is_own_name(name) else []
    if not is_folder(entry):
        return [entry] if name in FILES or name in noted or _is_addition(entry) else []
    if name in FOLDERS or name in noted:
        return [entry]
    if checkpoints.PATTERN.fullmatch(name):
        return _all_or(checkpoints.own_files(entry), entry)
    if name == QUALITY:
        return _all_or([part for training in entry.iterdir() for part in _training(training)], entry)
    return []


def _training(folder: Path) -> list[Path]:
    """A further training run of the quality panel."""
    ours = TRAINING.fullmatch(folder.name) and is_run_folder(folder, is_own_name)
    return _all_or(own_entries(folder), folder) if ours else []


def _all_or(own: list[Path], folder: Path) -> list[Path]:
    """The folder if nothing else is in it."""
    return [folder] if set(own) == set(folder.iterdir()) else own


def _is_addition(file: Path) -> bool:
    """By its columns: an id, and a vector of each node."""
    if not fnmatchcase(file.name, ADDED):
        return False
    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException):
        return False
    return schema.names[:1] == ["id"] and any(pa.types.is_fixed_size_list(field.type) for field in schema)
