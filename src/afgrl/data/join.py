"""New nodes and edges added to the graph of a run, so that both are embedded together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_to_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.tables.encode import TypedTableEncoder
from afgrl.data.tables.node_types import TYPE_COLUMN
from afgrl.data.tables.structure import StructuralFeatures
from afgrl.errors import UserError
from afgrl.graph import Graph, as_text
from afgrl.ops.knn import nearest_neighbors
from afgrl.ops.sparse.layout import compact_features


def join_graphs(old: Dataset, new: Dataset, *, n_neighbors: int | None = None) -> tuple[Dataset, np.ndarray]:
    """The old graph extended by the new one, and the positions of the nodes to embed: those listed in the new node
    table and those unknown to the old graph, [m].

    A node that both graphs have is replaced by its row in the new node table, and keeps its old features if it occurs
    only in the new edges. ``n_neighbors`` links each listed node to its nearest neighbors, as in the old graph.
    """
    assert new.ingested is not None
    ids, position = _union(old.graph.ids, new.graph.ids)
    if isinstance(new.graph.table_encoder, TypedTableEncoder):
        _check_types(old, new, position)
    n_listed = new.ingested.n_listed
    listed = position[:n_listed]
    features = _features(old, new, position, listed, len(ids))
    edges, weight = _edges(old.graph, new.graph, position, len(ids))
    if n_neighbors is not None:
        edges = np.concatenate([edges, _nearest_neighbor_edges(features, listed, n_neighbors)], axis=1)
    graph = Graph(compact_features(features), torch.from_numpy(edges), ids, edge_weight=weight)
    table_encoder = new.graph.table_encoder
    structure = table_encoder.structure if isinstance(table_encoder, TypedTableEncoder) else table_encoder
    if isinstance(structure, StructuralFeatures):
        x = structure.encode(graph.edge_index.numpy(), graph.ids)
        graph = replace(graph, x=torch.from_numpy(x))
    is_new = position >= old.graph.n
    is_new[:n_listed] = True
    return Dataset(new.name, graph), position[is_new]


def _union(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All ids, the old ones first, and the positions of the new ones among them. Ids are compared as text."""
    place = {name: i for i, name in enumerate(as_text(old))}
    position = np.array([place.setdefault(name, len(place)) for name in as_text(new)], dtype=np.int64)
    if old.dtype == new.dtype and old.dtype.kind in "iu":
        ids = np.empty(len(place), dtype=np.int64)
        ids[: len(old)], ids[position] = old, new
        return ids, position
    return np.array(list(place), dtype=object), position


def _check_types(old: Dataset, new: Dataset, position: np.ndarray) -> None:
    """A node that both graphs have must have the same type in both, where it is known."""
    assert old.ingested is not None
    assert new.ingested is not None
    old_types, new_types = (data.ingested.columns[TYPE_COLUMN].to_pylist() for data in (old, new) if data.ingested)
    for row in np.flatnonzero(position < old.graph.n):
        before, now = old_types[position[row]], new_types[row]
        if before is not None and now is not None and before != now:
            raise UserError(
                f"The id {str(new.graph.ids[row])!r} is of type {now!r} in {new.name!r}, but of type {before!r} in the "
                "training graph; --alone embeds the new graph by itself."
            )


def _edges(old: Graph, new: Graph, position: np.ndarray, n: int) -> tuple[np.ndarray, torch.Tensor | None]:
    """The edges of both graphs; an edge of both has the new weight. If only one graph has weights, the edges of the
    other get the mean weight."""
    old_edges, new_edges = old.edge_index.numpy(), position[new.edge_index.numpy()]
    if old.edge_weight is None and new.edge_weight is None:
        return np.concatenate([old_edges, new_edges], axis=1), None
    mean = float(next(graph.edge_weight for graph in (old, new) if graph.edge_weight is not None).mean())
    old_weight, new_weight = (
        np.full(graph.edge_index.shape[1], mean) if graph.edge_weight is None else graph.edge_weight.numpy()
        for graph in (old, new)
    )
    only_old = ~np.isin(old_edges[0] * n + old_edges[1], new_edges[0] * n + new_edges[1])
    weight = torch.from_numpy(np.concatenate([old_weight[only_old], new_weight]))
    return np.concatenate([old_edges[:, only_old], new_edges], axis=1), weight


def _features(old: Dataset, new: Dataset, position: np.ndarray, listed: np.ndarray, n: int) -> sp.csr_array:
    """[n, f]: the new features of listed and unknown nodes, the old features of all others."""
    if old.graph.n_features != new.graph.n_features:
        raise UserError(
            f"The run was trained on {old.graph.n_features} features, but {new.name!r} has {new.graph.n_features}."
        )
    is_old = np.arange(n) < old.graph.n
    is_old[listed] = False
    old_rows, new_rows = np.flatnonzero(is_old), np.flatnonzero(~is_old[position])
    select_old = sp.csr_array((np.ones(len(old_rows)), (old_rows, old_rows)), shape=(n, old.graph.n))
    select_new = sp.csr_array((np.ones(len(new_rows)), (position[new_rows], new_rows)), shape=(n, new.graph.n))
    return sp.csr_array(select_old @ _to_scipy(old.graph.x) + select_new @ _to_scipy(new.graph.x))


def _to_scipy(x: torch.Tensor) -> sp.csr_array:
    return csr_to_scipy(x) if x.layout == torch.sparse_csr else sp.csr_array(x.numpy())


def _nearest_neighbor_edges(features: sp.csr_array, listed: np.ndarray, k: int) -> np.ndarray:
    """[2, m · (k + 1)]; the nearest neighbor of a node is itself, and Graph drops that self-loop."""
    rows = torch.from_numpy(features.toarray()).float()
    neighbors = nearest_neighbors(rows[torch.from_numpy(listed)], rows, k + 1).index.numpy()
    return np.stack([np.repeat(listed, k + 1), neighbors.reshape(-1)])
