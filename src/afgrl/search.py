"""Nearest nodes by the vectors of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from afgrl.errors import UserError, unknown
from afgrl.graph import as_text
from afgrl.index import open_index
from afgrl.ops import knn
from afgrl.runs import Run


class Nearest(dict[str, list[dict[str, object]]]):
    """The neighbors of each node asked for, id → [{"id", "similarity"}, …], and how they were found."""

    by: str = "exact"  # or the kind of the index: hnsw, ivf
    recall: float = 1.0  # the share of the ten nearest that this finds, as measured when the index was built


def search(run: Run, wanted: Sequence[str], k: int = 10, *, index: bool = False) -> Nearest:
    """The ``k`` nodes nearest to each wanted id by cosine, itself left out.

    A graph with fewer other nodes gives all of them. With ``index`` they are looked up in the run's approximate index,
    which is built if there is none.
    """
    ids, vectors = run.embedding()
    if k < 1:
        raise UserError(f"At least one neighbor must be asked for, not {k}.")
    k = min(k, len(ids) - 1)
    rows = _rows(ids, wanted)
    every = torch.from_numpy(vectors)
    answer = Nearest()
    if index:
        opened = open_index(run, vectors)
        found = opened.nearest(every[rows], k + 1)  # one more, for the node itself
        answer.by, answer.recall = opened.description.kind, opened.description.recall
    else:
        found = knn(every[rows], every, k + 1)
    for row, name, near, similarity in zip(rows, wanted, found.index, found.similarity, strict=True):
        others = (near != row) & (near >= 0)  # -1 is where an index found none
        names = ids[near[others].numpy()].tolist()  # numpy would take a tensor of one element for a number
        pairs = list(zip(names, similarity[others].tolist(), strict=True))[:k]
        answer[name] = [{"id": other, "similarity": round(value, 6)} for other, value in pairs]
    return answer


def _rows(ids: np.ndarray, wanted: Sequence[str]) -> list[int]:
    """Ids are compared as text, since a command line knows nothing else."""
    text = as_text(ids)
    rows = []
    for name in wanted:
        place = np.flatnonzero(text == name)
        if not len(place):
            if ids.dtype.kind in "iu":
                raise UserError(f"There is no node {name!r}; the ids are {ids.min()} to {ids.max()}.")
            raise unknown("node", name, text)
        rows.append(int(place[0]))
    return rows
