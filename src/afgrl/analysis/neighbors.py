"""The nodes most similar to a node, by the vectors of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from afgrl.analysis.index import open_index
from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.ops.knn import Neighbors, nearest_neighbors
from afgrl.runs.added import all_vectors
from afgrl.runs.folder import Run


class SimilarNodes(dict[str, list[dict[str, object]]]):
    """id → [{"id", "similarity"}, …] for each requested id, and how the neighbors were found."""

    algorithm: str = "exact"  # or the kind of index: hnsw, ivf
    recall: float = 1.0  # share of the ten nearest nodes that are found, measured when the index was built


def find_similar(run: Run, wanted: Sequence[str], k: int = 10, *, index: bool = False) -> SimilarNodes:
    """The ``k`` nodes with the highest cosine similarity to each wanted id, without the node itself.

    A graph with fewer other nodes returns all of them. With ``index``, the run's approximate index is used; it is built
    if the run has none.
    """
    if k < 1:
        raise UserError(f"The number of neighbors must be at least 1, not {k}.")
    ids, vectors = all_vectors(run)
    k = min(k, len(ids) - 1)
    rows = _rows_of(ids, wanted)
    every = torch.from_numpy(vectors)
    answer = SimilarNodes()
    if index:
        _, trained = run.embedding()
        opened = open_index(run, trained)
        neighbors = opened.nearest(every[rows], k + 1)  # one more, because the node finds itself
        neighbors = _with_added(neighbors, every[rows], every[len(trained) :], len(trained), k + 1)
        answer.algorithm, answer.recall = opened.description.kind, opened.description.recall
    else:
        neighbors = nearest_neighbors(every[rows], every, k + 1)
    for row, name, nearest, similarity in zip(rows, wanted, neighbors.index, neighbors.similarity, strict=True):
        others = (nearest != row) & (nearest >= 0)  # an index returns -1 if it finds fewer
        names = ids[nearest[others].numpy()].tolist()  # with a tensor of one element, NumPy would return a scalar
        pairs = list(zip(names, similarity[others].tolist(), strict=True))[:k]
        answer[name] = [{"id": other, "similarity": round(value, 6)} for other, value in pairs]
    return answer


def _with_added(found: Neighbors, query: Tensor, added: Tensor, n_trained: int, k: int) -> Neighbors:
    """The ``k`` nearest of those found in an index and of all added rows, which no index contains."""
    if not len(added):
        return found
    exact = nearest_neighbors(query, added, min(k, len(added)))
    index = torch.cat([found.index, exact.index + n_trained], 1)
    # An index returns -1 where it finds fewer, with a similarity that means nothing.
    similarity = torch.cat([found.similarity.masked_fill(found.index < 0, -torch.inf), exact.similarity], 1)
    best = similarity.topk(min(k, similarity.shape[1]), 1)
    return Neighbors(index.gather(1, best.indices), best.values)


def _rows_of(ids: np.ndarray, wanted: Sequence[str]) -> list[int]:
    """The row of each wanted id. Ids are compared as text, because a command line has only text."""
    text = as_text(ids)
    rows = []
    for name in wanted:
        matches = np.flatnonzero(text == name)
        if not len(matches):
            if ids.dtype.kind in "iu":
                raise UserError(f"Unknown node {name!r}; the ids range from {ids.min()} to {ids.max()}.")
            raise unknown("node", name, text)
        rows.append(int(matches[0]))
    return rows
