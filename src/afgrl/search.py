"""Nearest nodes by the vectors of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from afgrl.errors import UserError, unknown
from afgrl.ops import knn
from afgrl.runs import Run


def search(run: Run, wanted: Sequence[str], k: int = 10) -> dict[str, list[dict[str, object]]]:
    """The ``k`` nodes nearest to each wanted id by cosine, itself left out: id → [{"id", "similarity"}, …].

    A graph with fewer other nodes gives all of them.
    """
    ids, vectors = run.embedding()
    if k < 1:
        raise UserError(f"At least one neighbour must be asked for, not {k}.")
    k = min(k, len(ids) - 1)
    rows = [_row(ids, name) for name in wanted]
    every = torch.from_numpy(vectors)
    found = knn(every[rows], every, k + 1)  # one more, for the node itself
    answer = {}
    for row, name, index, similarity in zip(rows, wanted, found.index, found.similarity, strict=True):
        others = index != row
        pairs = list(zip(ids[index[others]].tolist(), similarity[others].tolist(), strict=True))[:k]
        answer[name] = [{"id": other, "similarity": round(value, 6)} for other, value in pairs]
    return answer


def _row(ids: np.ndarray, name: str) -> int:
    """Ids are compared as text, since a command line knows nothing else."""
    text = ids.astype(str)
    place = np.flatnonzero(text == name)
    if not len(place):
        if ids.dtype.kind in "iu":
            raise UserError(f"There is no node {name!r}; the ids are {ids.min()} to {ids.max()}.")
        raise unknown("node", name, text[:100_000])
    return int(place[0])
