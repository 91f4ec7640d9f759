"""Features for a graph that has none: how each node is linked, and where it lies."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

WIDTH = 64  # signs of each node
HOPS = 2
ROLES = (
    "degree",
    "neighbors' mean degree",
    "neighbors' largest degree",
    "second neighbors' mean degree",
    "PageRank",
)


@dataclass(frozen=True)
class Structure:
    """Of each node five standardized columns of its role (logarithms of degrees around it and of its PageRank) and,
    for where it lies, 64 random signs of every node averaged over its neighbors, and over theirs.

    The signs of a node follow from its id, so a node that joins later finds those of the nodes it is linked to.
    """

    kind: ClassVar[str] = "structure"
    mean: list[float]
    scale: list[float]

    @classmethod
    def fit(cls, edge_index: np.ndarray, ids: np.ndarray) -> Self:
        roles = _roles(_adjacency(edge_index, len(ids)))
        return cls(roles.mean(0).tolist(), np.maximum(roles.std(0), 1e-6).tolist())

    @property
    def names(self) -> list[str]:
        places = [f"{hops} hop{'s' * (hops > 1)} away, sign {i}" for hops in range(1, HOPS + 1) for i in range(WIDTH)]
        return [*ROLES, *places]

    def encode(self, edge_index: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """[n, 5 + 2 · 64] float32."""
        adjacency = _adjacency(edge_index, len(ids))
        smooth = _averaging(adjacency)
        blocks = [(_roles(adjacency) - np.array(self.mean)) / np.array(self.scale)]
        places: Any = _signs(ids)
        for _ in range(HOPS):
            places = smooth @ places
            length = np.linalg.norm(places, axis=1, keepdims=True)
            blocks.append(places / np.maximum(length, 1e-6))
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def as_json(self) -> list[dict[str, Any]]:
        return [{"kind": self.kind, **asdict(self)}]


def _adjacency(edge_index: np.ndarray, n: int) -> sp.csr_array:
    ones = np.ones(edge_index.shape[1], dtype=np.float32)
    return sp.csr_array((ones, (edge_index[0], edge_index[1])), shape=(n, n))


def _averaging(adjacency: sp.csr_array) -> sp.csr_array:
    degree = np.maximum(adjacency.sum(1), 1)
    return sp.csr_array(sp.diags_array(1 / degree) @ adjacency)


def _roles(adjacency: sp.csr_array) -> np.ndarray:
    """[n, 5]."""
    degree = np.log1p(adjacency.sum(1))
    smooth = _averaging(adjacency)
    around = smooth @ degree
    largest = np.zeros_like(degree)
    rows = np.flatnonzero(np.diff(adjacency.indptr))
    if len(rows):
        largest[rows] = np.maximum.reduceat(degree[adjacency.indices], adjacency.indptr[rows])
    return np.stack([degree, around, largest, smooth @ around, _pagerank(smooth)], axis=1)


def _pagerank(smooth: sp.csr_array, steps: int = 20, share: float = 0.85) -> np.ndarray:
    """Logarithm of n times the PageRank, by a few steps of the walk that it is the limit of."""
    n = smooth.shape[0]
    rank = np.full(n, 1 / n)
    for _ in range(steps):
        rank = share * (smooth.T @ rank) + (1 - share) / n
    return np.log(n * rank)


def _signs(ids: np.ndarray) -> np.ndarray:
    """[n, 64] of ±1, always the same for the same id."""
    digests = b"".join(hashlib.blake2b(str(name).encode(), digest_size=WIDTH // 8).digest() for name in ids)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(len(ids), WIDTH)
    return 2 * bits.astype(np.float32) - 1
