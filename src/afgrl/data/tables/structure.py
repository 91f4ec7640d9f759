"""Features for a graph that has none, computed from its edges."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

N_SIGNS = 64  # random signs per node
N_HOPS = 2
STATISTICS = (
    "degree",
    "neighbors' mean degree",
    "neighbors' largest degree",
    "second neighbors' mean degree",
    "PageRank",
)


@dataclass(frozen=True)
class StructuralFeatures:
    """Five standardized statistics of each node (logarithms of degrees around it and of its PageRank), and its position
    in the graph: 64 random signs per node, averaged over its neighbors and over their neighbors.

    The signs of a node are a hash of its id, so a node added later gets a position close to those of its neighbors.
    """

    kind: ClassVar[str] = "structure"
    mean: list[float]
    scale: list[float]

    @classmethod
    def fit(cls, edge_index: np.ndarray, ids: np.ndarray) -> Self:
        statistics = _statistics(_adjacency(edge_index, len(ids)))
        return cls(statistics.mean(0).tolist(), np.maximum(statistics.std(0), 1e-6).tolist())

    @property
    def names(self) -> list[str]:
        positions = [f"{hop}-hop position {i}" for hop in range(1, N_HOPS + 1) for i in range(N_SIGNS)]
        return [*STATISTICS, *positions]

    def encode(self, edge_index: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """[n, 5 + 2 · 64] float32."""
        adjacency = _adjacency(edge_index, len(ids))
        neighbor_mean = _neighbor_mean(adjacency)
        blocks = [(_statistics(adjacency) - np.array(self.mean)) / np.array(self.scale)]
        position: Any = _signs(ids)
        for _ in range(N_HOPS):
            position = neighbor_mean @ position
            norm = np.linalg.norm(position, axis=1, keepdims=True)
            blocks.append(position / np.maximum(norm, 1e-6))
        return np.concatenate(blocks, axis=1).astype(np.float32)

    def as_json(self) -> list[dict[str, Any]]:
        return [{"kind": self.kind, **asdict(self)}]

    @classmethod
    def from_json(cls, stored: list[dict[str, Any]]) -> Self:
        return cls(stored[0]["mean"], stored[0]["scale"])


def _adjacency(edge_index: np.ndarray, n: int) -> sp.csr_array:
    ones = np.ones(edge_index.shape[1], dtype=np.float32)
    return sp.csr_array((ones, (edge_index[0], edge_index[1])), shape=(n, n))


def _neighbor_mean(adjacency: sp.csr_array) -> sp.csr_array:
    """D⁻¹A, which averages over neighbors."""
    degree = np.maximum(adjacency.sum(1), 1)
    return sp.csr_array(sp.diags_array(1 / degree) @ adjacency)


def _statistics(adjacency: sp.csr_array) -> np.ndarray:
    """[n, 5]."""
    degree = np.log1p(adjacency.sum(1))
    neighbor_mean = _neighbor_mean(adjacency)
    mean_degree = neighbor_mean @ degree
    largest = np.zeros_like(degree)
    linked = np.flatnonzero(np.diff(adjacency.indptr))
    if len(linked):
        largest[linked] = np.maximum.reduceat(degree[adjacency.indices], adjacency.indptr[linked])
    return np.stack(
        [degree, mean_degree, largest, neighbor_mean @ mean_degree, _log_pagerank(neighbor_mean)],
        axis=1,
    )


def _log_pagerank(neighbor_mean: sp.csr_array, n_steps: int = 20, damping: float = 0.85) -> np.ndarray:
    """log(n · PageRank) after a few power iterations: [n]."""
    n = neighbor_mean.shape[0]
    rank = np.full(n, 1 / n)
    for _ in range(n_steps):
        rank = damping * (neighbor_mean.T @ rank) + (1 - damping) / n
    return np.log(n * rank)


def _signs(ids: np.ndarray) -> np.ndarray:
    """[n, 64] float32 of ±1, always the same for the same id."""
    digests = b"".join(hashlib.blake2b(str(name).encode(), digest_size=N_SIGNS // 8).digest() for name in ids)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(len(ids), N_SIGNS)
    return 2 * bits.astype(np.float32) - 1
