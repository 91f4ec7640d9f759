"""The graph of a run for several processes: process 0 makes sure that it is in files, and all of them map those.

The files are the run's own copy of the dataset. Features that are too large for that copy are mapped from the source if
it has them as they are, a folder of arrays; otherwise process 0 writes them to a file that the run has until training
is complete.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from afgrl.data.formats.array_folder import stored_features
from afgrl.data.sources import names
from afgrl.errors import UserError
from afgrl.graph.mapped import MappedGraph
from afgrl.runs.dataset_files import DATA, DATA_ENTRIES, GRAPH, NODES, source_features
from afgrl.runs.graph_file import check_graph, feature_arrays, features_fingerprint, map_graph, mapped_features
from afgrl.runs.readers import n_rows, read_record
from afgrl.runs.spec import RunSpec
from afgrl.runs.tensor_file import read_tensors, write_tensors

FEATURES = "features.safetensors"  # while several processes train


def share_features(folder: Path, spec: RunSpec, x: Tensor) -> None:
    """Write the features ``x`` of the dataset that was saved in the folder, unless they are in a file already."""
    if _fingerprint(folder) is not None and not features_are_mapped(spec):
        write_tensors(folder / FEATURES, feature_arrays(x), {"n_features": str(x.shape[1])})


def features_are_mapped(spec: RunSpec) -> bool:
    """Whether the source has the features as processes map them, if they are too large for the run's own copy."""
    return _features_in_source(spec) is not None


def check_shared_graph(folder: Path, spec: RunSpec, data_dir: str | None) -> None:
    """Before processes map the graph of a run that is resumed: raises ``UserError`` if it is damaged or has changed."""
    check_graph(folder / GRAPH, n_rows(folder / NODES))
    expected = _fingerprint(folder)
    if expected is None:
        return
    x = _features_outside(folder, spec)
    if x is None:
        share_features(folder, spec, source_features(folder, spec, expected, data_dir))
    elif features_fingerprint(x) != expected:
        raise UserError(f"The features of {spec.source!r} differ from those that {str(folder)!r} was trained on.")


def map_shared_graph(folder: Path, spec: RunSpec) -> MappedGraph:
    """Without checks: process 0 wrote the files, or checked them."""
    directed = bool(read_record(folder / DATA, **DATA_ENTRIES)["directed"])
    x = None if _fingerprint(folder) is None else _features_outside(folder, spec)
    return map_graph(folder / GRAPH, directed=directed, x=x)


def _fingerprint(folder: Path) -> str | None:
    """Of the features that are not in the run's own copy; None if they are."""
    found: str | None = read_record(folder / DATA, **DATA_ENTRIES)["features_fingerprint"]
    return found


def _features_outside(folder: Path, spec: RunSpec) -> Tensor | None:
    if not (folder / FEATURES).is_file():
        return _features_in_source(spec)
    arrays, metadata = read_tensors(folder / FEATURES, verified=True)  # by the fingerprint
    return mapped_features(arrays, int(metadata["n_features"]))


def _features_in_source(spec: RunSpec) -> Tensor | None:
    found = None if spec.source in names() else stored_features(Path(spec.source))
    return None if found is None else torch.from_numpy(found)
