"""A description of a dataset: its counts, and warnings about what looks wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from afgrl.csr import csr_to_scipy
from afgrl.data.any_source import read_source
from afgrl.data.dataset import Dataset
from afgrl.data.ingest import IngestReport, first_few
from afgrl.data.read_keywords import ReadKeywords
from afgrl.data.spill import row_blocks
from afgrl.data.tables.node_types import TYPE_COLUMN

MANY_ISOLATED = 0.2  # share of nodes without edges
HUB = 0.2  # share of all nodes that a hub is linked to
MIN_NODES_FOR_HUBS = 50  # in a smaller graph, any node may have that many neighbors
LOW_HOMOPHILY = 0.4  # share of edges within a class
DOMINANT = 0.9  # share of one class
BLOCK_EDGES = 1 << 22  # whose labels are compared at once


def check(source: Any, /, *, data_dir: str | Path | None = None, **read: Unpack[ReadKeywords]) -> dict[str, Any]:
    """How a graph is read: its counts, and messages about what was fixed and what looks wrong, as `afgrl check` prints
    them. ``source`` is what ``load`` reads (a name, file, folder or DataFrames), or a graph that estimators accept."""
    return describe_dataset(read_source(source, data_dir, **read))


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """Counts and messages as JSON, for `afgrl check` and for data.json of a run."""
    graph = dataset.graph
    report = IngestReport(list(dataset.ingested.report.messages) if dataset.ingested else [])
    adjacency = _adjacency(dataset)
    degree = np.diff(adjacency.indptr)
    n_components, component = _components(adjacency, symmetric=not graph.directed)
    description: dict[str, Any] = {
        "name": dataset.name,
        "nodes": graph.n,
        "edges": graph.n_edges,
        "features": graph.n_features,
        "density": round(graph.density, 4),
        "isolated": graph.n_isolated,
        "components": int(n_components),
        "largest_component": int(np.bincount(component).max()),
        "mean_degree": round(float(degree.mean()), 2),
        "largest_degree": int(degree.max()) if len(degree) else 0,
        "classes": dataset.n_classes,
    }
    _check_edges(dataset, degree, description, report)
    _check_features(dataset, report)
    if dataset.y is not None:
        description |= _check_labels(dataset, dataset.y, report)
    return description | {"messages": report.as_json()}


def _adjacency(dataset: Dataset) -> sp.csr_array:
    source, target = dataset.graph.edge_index.cpu().numpy()  # sorted, so that nothing has to be sorted again
    n = dataset.graph.n
    index = np.int32 if max(n, len(target)) < 2**31 else np.int64
    ends = np.searchsorted(source, np.arange(n + 1)).astype(index)
    # A view of a single 1 for all edges; SciPy would turn other types into a copy of this one.
    ones = np.broadcast_to(np.float64(1), len(target))
    return sp.csr_array((ones, target.astype(index), ends), shape=(n, n))


def _components(adjacency: sp.csr_array, *, symmetric: bool) -> tuple[int, np.ndarray]:
    """The number of connected components, and the component of each node.

    The strong components of a symmetric matrix are its components, and SciPy finds them without the transpose.
    """
    if symmetric:
        return connected_components(adjacency, directed=True, connection="strong")
    return connected_components(adjacency, directed=False)


def _check_edges(dataset: Dataset, degree: np.ndarray, description: dict[str, Any], report: IngestReport) -> None:
    n, n_isolated = description["nodes"], description["isolated"]
    if description["edges"] == 0:
        report.warning("The graph has no edges, so embeddings depend on features alone.")
    elif n_isolated > MANY_ISOLATED * n:
        report.warning(f"Nodes without edges: {n_isolated:,} of {n:,} ({n_isolated / n:.0%}).")
    n_linked, largest = n - n_isolated, description["largest_component"]
    if n_linked and largest < 0.5 * n_linked:
        report.warning(
            f"The graph has {description['components'] - n_isolated:,} connected components; the largest has only "
            f"{largest / n_linked:.0%} of the linked nodes."
        )
    hubs = np.flatnonzero(degree > HUB * n) if n > MIN_NODES_FOR_HUBS else np.empty(0, dtype=np.int64)
    if len(hubs):
        names = first_few([str(name) for name in dataset.graph.ids[hubs]])
        report.warning(f"Nodes linked to more than {HUB:.0%} of all nodes: {len(hubs):,} ({names}).")


def _check_features(dataset: Dataset, report: IngestReport) -> None:
    x = dataset.graph.x
    table = csr_to_scipy(x) if x.layout == torch.sparse_csr else x.cpu().numpy()
    low, high = _extremes(table)
    names = dataset.feature_names
    constant = np.flatnonzero(low == high)
    if len(constant):
        shown = first_few([names[i] for i in constant])
        report.warning(f"Features with the same value for all nodes: {len(constant):,} ({shown}).")
    repeated = _repeated_columns(table, constant)
    if repeated:
        shown = first_few([f"{names[a]} = {names[b]}" for a, b in repeated])
        report.warning(f"Features that repeat another one: {len(repeated):,} ({shown}).")
    n_empty = sum(_n_empty_rows(table[rows]) for rows in row_blocks(table.shape[0]))
    if n_empty:
        report.warning(f"Nodes whose features are all 0: {n_empty:,}.")


def _n_empty_rows(table: Any) -> int:
    filled = table.count_nonzero(axis=1) if isinstance(table, sp.csr_array) else np.count_nonzero(table, axis=1)
    return int((filled == 0).sum())


def _extremes(table: Any) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest value of each column: 2 × [f]."""
    if sp.issparse(table):
        return table.min(axis=0).toarray().reshape(-1), table.max(axis=0).toarray().reshape(-1)  # type: ignore[attr-defined]
    return table.min(axis=0), table.max(axis=0)


def _repeated_columns(table: Any, constant: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of equal columns: each repetition with the first one. Columns with equal random projections are equal."""
    weights = np.random.default_rng(0).standard_normal((table.shape[0], 2))
    # In blocks of rows: a copy of the table in double precision may not fit into memory.
    blocks = row_blocks(table.shape[0])
    projections = sum(np.asarray(table[rows].T.astype(np.float64) @ weights[rows]) for rows in blocks)
    seen: dict[bytes, int] = {}
    pairs = []
    for column, key in enumerate(np.round(projections, 6)):
        if column in constant:
            continue
        first = seen.setdefault(key.tobytes(), column)
        if first != column:
            pairs.append((column, first))
    return pairs


def _check_labels(dataset: Dataset, y: np.ndarray, report: IngestReport) -> dict[str, Any]:
    homophily = _homophily(dataset.graph.edge_index.cpu().numpy(), y)
    sizes = np.bincount(y[y >= 0])
    is_type = dataset.ingested is not None and dataset.ingested.label == TYPE_COLUMN  # edges link different types
    if homophily is not None and homophily < LOW_HOMOPHILY and not is_type:
        report.warning(f"Only {homophily:.0%} of the edges link nodes of the same class (low homophily).")
    if sizes.max() > DOMINANT * sizes.sum():
        report.warning(f"One class has {sizes.max() / sizes.sum():.0%} of the labeled nodes.")
    return {"homophily": None if homophily is None else round(homophily, 4), "labeled": int(sizes.sum())}


def _homophily(edges: np.ndarray, y: np.ndarray) -> float | None:
    """The share of edges within a class, among those whose ends have labels; None if there is none. In blocks: the
    labels of both ends take as much memory as the edges."""
    labeled = same = 0
    for part in row_blocks(edges.shape[1], BLOCK_EDGES):
        source, target = (y[end] for end in edges[:, part])
        known = (source >= 0) & (target >= 0)
        labeled += int(known.sum())
        same += int((source == target)[known].sum())
    return same / labeled if labeled else None
