"""New nodes and edges beside those of a training, so that both can be embedded together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from afgrl.csr import csr_to_scipy
from afgrl.data.dataset import Dataset
from afgrl.data.features import compact
from afgrl.data.files.structure import Structure
from afgrl.errors import UserError
from afgrl.graph import Graph, as_text
from afgrl.ops.knn import knn


def join(old: Dataset, new: Dataset, *, n_nearest: int | None = None) -> tuple[Dataset, np.ndarray]:
    """The old graph with the new nodes and edges in it, and where the new dataset's own nodes are, [m].

    A node that is new only to the edges, but known to the old graph, keeps its features; one that the new table lists
    again gets those it has there. ``n_nearest``: the old graph was made of nearest nodes, and new nodes are linked to
    so many.
    """
    assert new.reading is not None
    names, known = _union(old.graph.ids, new.graph.ids)
    position = known[: len(new.graph.ids)]
    listed = position[: new.reading.listed]
    features = _features(old, new, position, listed, len(names))
    edges, weight = _edges(old.graph, new.graph, position, len(names))
    if n_nearest is not None:
        edges = np.concatenate([edges, _to_nearest(features, listed, n_nearest)], axis=1)
    graph = Graph(compact(features), torch.from_numpy(edges), names, edge_weight=weight)
    encoder = new.reading.encoder
    if isinstance(encoder, Structure):
        x = encoder.encode(graph.edge_index.numpy(), graph.ids)
        graph = replace(graph, x=torch.from_numpy(x))
    fresh = position >= old.graph.n
    fresh[: new.reading.listed] = True
    return Dataset(new.name, graph), position[fresh]


def _union(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All ids, the old ones first, and where each new one is among them. Ids are compared as text."""
    place = {name: i for i, name in enumerate(as_text(old))}
    positions = np.array([place.setdefault(name, len(place)) for name in as_text(new)], dtype=np.int64)
    if old.dtype == new.dtype and old.dtype.kind in "iu":
        names = np.empty(len(place), dtype=np.int64)
        names[: len(old)], names[positions] = old, new
        return names, positions
    return np.array(list(place), dtype=object), positions


def _edges(old: Graph, new: Graph, position: np.ndarray, n: int) -> tuple[np.ndarray, torch.Tensor | None]:
    """Those of both graphs, with their weights; of an edge that both have, the new one's counts. Where one of the two
    has no weights, each of its edges weighs the mean of the other's."""
    before, after = old.edge_index.numpy(), position[new.edge_index.numpy()]
    edges = [before, after]
    if old.edge_weight is None and new.edge_weight is None:
        return np.concatenate(edges, axis=1), None
    usual = float(next(graph.edge_weight for graph in (old, new) if graph.edge_weight is not None).mean())
    weights = [
        np.full(graph.edge_index.shape[1], usual) if graph.edge_weight is None else graph.edge_weight.numpy()
        for graph in (old, new)
    ]
    stays = ~np.isin(before[0] * n + before[1], after[0] * n + after[1])
    both = torch.from_numpy(np.concatenate([weights[0][stays], weights[1]]))
    return np.concatenate([before[:, stays], after], axis=1), both


def _features(old: Dataset, new: Dataset, position: np.ndarray, listed: np.ndarray, n: int) -> Any:
    if old.graph.n_features != new.graph.n_features:
        raise UserError(
            f"The run was trained on {old.graph.n_features} features, but {new.name!r} has {new.graph.n_features}."
        )
    kept = np.ones(n, dtype=bool)
    kept[listed] = False
    kept[old.graph.n :] = False
    choose_old = sp.csr_array(
        (np.ones(kept.sum()), (np.flatnonzero(kept), np.flatnonzero(kept))), shape=(n, old.graph.n)
    )
    taken = np.flatnonzero(~kept[position])
    choose_new = sp.csr_array((np.ones(len(taken)), (position[taken], taken)), shape=(n, new.graph.n))
    return sp.csr_array(choose_old @ _sparse(old.graph.x) + choose_new @ _sparse(new.graph.x))


def _sparse(x: torch.Tensor) -> sp.csr_array:
    return csr_to_scipy(x) if x.layout == torch.sparse_csr else sp.csr_array(x.numpy())


def _to_nearest(features: sp.csr_array, listed: np.ndarray, k: int) -> np.ndarray:
    rows = torch.from_numpy(features.toarray()).float()
    near = knn(rows[torch.from_numpy(listed)], rows, k + 1).index.numpy()  # one more, for the node itself
    source = np.repeat(listed, k + 1)
    return np.stack([source, near.reshape(-1)])  # an edge to itself is left out by Graph
