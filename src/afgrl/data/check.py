"""What a source is: its counts, what was understood and repaired, and what looks suspicious."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from afgrl.csr import csr_to_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.notes import Notes, some

MANY_ISOLATED = 0.2  # share of nodes without edges
HEAVY_HUB = 0.2  # share of all nodes that one node is linked to
FEW_ALIKE = 0.4  # share of edges within a class below which neighbors hardly tell of a node
DOMINANT = 0.9  # share of one class


def description(dataset: Dataset) -> tuple[pa.Table, dict[str, Any]]:
    """What a run keeps of its data: the columns of the nodes, and what `afgrl check` says."""
    reading = dataset.reading
    if reading is not None:
        columns, label = reading.columns, reading.label
    else:
        columns, label = pa.table({"id": pa.array(dataset.graph.ids)}), None
        if dataset.y is not None:
            label = "label"
            columns = columns.append_column(label, pa.array(dataset.y))
    return columns, check(dataset) | {"label": label}


def check(dataset: Dataset) -> dict[str, Any]:
    """As `afgrl check` answers it, and as data.json holds it."""
    graph = dataset.graph
    notes = Notes(list(dataset.reading.notes.all) if dataset.reading else [])
    adjacency = _adjacency(dataset)
    degree = np.diff(adjacency.indptr)
    components, member = connected_components(adjacency, directed=False)
    largest = int(np.bincount(member).max())
    answer: dict[str, Any] = {
        "name": dataset.name,
        "nodes": graph.n,
        "edges": graph.n_edges,
        "features": graph.n_features,
        "density": round(graph.density, 4),
        "isolated": graph.n_isolated,
        "components": int(components),
        "largest_component": largest,
        "mean_degree": round(float(degree.mean()), 2),
        "largest_degree": int(degree.max()) if len(degree) else 0,
        "classes": dataset.n_classes,
    }
    _judge_edges(dataset, degree, answer, notes)
    _judge_features(dataset, notes)
    if dataset.y is not None:
        answer |= _judge_labels(dataset, dataset.y, notes)
    return answer | {"notes": notes.as_json()}


def _adjacency(dataset: Dataset) -> sp.csr_array:
    source, target = dataset.graph.edge_index.cpu().numpy()
    n = dataset.graph.n
    return sp.csr_array((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n, n))


def _judge_edges(dataset: Dataset, degree: np.ndarray, answer: dict[str, Any], notes: Notes) -> None:
    n, isolated = answer["nodes"], answer["isolated"]
    if answer["edges"] == 0:
        notes.suspicious("There are no edges, so vectors come from features alone.")
    elif isolated > MANY_ISOLATED * n:
        notes.suspicious(f"Nodes without edges: {isolated:,} of {n:,} ({isolated / n:.0%}).")
    linked, largest = n - isolated, answer["largest_component"]
    if linked and largest < 0.5 * linked:
        notes.suspicious(
            f"The graph falls into {answer['components'] - isolated:,} parts, the largest of which has "
            f"{largest / linked:.0%} of the linked nodes."
        )
    hubs = np.flatnonzero(degree > HEAVY_HUB * n) if n > 50 else np.empty(0, dtype=np.int64)
    if len(hubs):
        names = some([str(name) for name in dataset.graph.ids[hubs]])
        notes.suspicious(f"Nodes linked to more than {HEAVY_HUB:.0%} of all others: {len(hubs):,} ({names}).")


def _judge_features(dataset: Dataset, notes: Notes) -> None:
    x = dataset.graph.x
    table = csr_to_scipy(x) if x.layout == torch.sparse_csr else x.cpu().numpy()
    low, high = _extremes(table)
    names = dataset.feature_names
    constant = np.flatnonzero(low == high)
    if len(constant):
        shown = some([names[i] for i in constant])
        notes.suspicious(f"Features with one value for all nodes: {len(constant):,} ({shown}).")
    twins = _twins(table, constant)
    if twins:
        shown = some([f"{names[a]} = {names[b]}" for a, b in twins])
        notes.suspicious(f"Features that repeat another: {len(twins):,} ({shown}).")
    filled = table.count_nonzero(axis=1) if isinstance(table, sp.csr_array) else np.count_nonzero(table, axis=1)
    empty = int((filled == 0).sum())
    if empty:
        notes.suspicious(f"Nodes whose features are all 0: {empty:,}.")


def _extremes(table: Any) -> tuple[np.ndarray, np.ndarray]:
    if sp.issparse(table):
        return table.min(axis=0).toarray().reshape(-1), table.max(axis=0).toarray().reshape(-1)  # type: ignore[attr-defined]
    return table.min(axis=0), table.max(axis=0)


def _twins(table: Any, constant: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of equal columns, each later one with the first; found by two random sums of each."""
    draw = np.random.default_rng(0).standard_normal((table.shape[0], 2))
    sums = np.asarray(table.T.astype(np.float64) @ draw)
    seen: dict[bytes, int] = {}
    pairs = []
    for column, key in enumerate(np.round(sums, 6)):
        if column in constant:
            continue
        first = seen.setdefault(key.tobytes(), column)
        if first != column:
            pairs.append((column, first))
    return pairs


def _judge_labels(dataset: Dataset, y: np.ndarray, notes: Notes) -> dict[str, Any]:
    source, target = dataset.graph.edge_index.cpu().numpy()
    known = (y[source] >= 0) & (y[target] >= 0)
    alike = float((y[source] == y[target])[known].mean()) if known.any() else None
    sizes = np.bincount(y[y >= 0])
    if alike is not None and alike < FEW_ALIKE:
        notes.suspicious(f"Only {alike:.0%} of the edges join nodes of one class, so neighbors say little of it.")
    if sizes.max() > DOMINANT * sizes.sum():
        notes.suspicious(f"One class has {sizes.max() / sizes.sum():.0%} of the labeled nodes.")
    return {"homophily": None if alike is None else round(alike, 4), "labeled": int(sizes.sum())}
