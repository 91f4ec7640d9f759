"""The search for positives: k-means on the target vectors, nearest neighbors, the filter, and what they found last."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from afgrl.methods.parts.positive_settings import PositiveSettings
from afgrl.methods.parts.positives import Pairs, candidate_pairs, filter_pairs, same_cluster_pairs
from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.collectives import Shards
from afgrl.ops.kmeans import random_rows, run_kmeans
from afgrl.ops.knn.clusters import in_leading_directions
from afgrl.ops.knn.partition import fine_partition
from afgrl.ops.knn.visitors import Clustering
from afgrl.ops.pair_filter import GLOBAL, LOCAL
from afgrl.ops.pair_loss import pair_matrix
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.streams import SideStream

# In batches, rows from which k-means computes each center: Debian and WordNet score the same as with all rows.
ROWS_PER_CENTER = 256

Stored = TypeVar("Stored", Tensor, SparseMatrix)


class PositiveSearch:
    """K-means, the search and the filter for the nodes of a process.

    In full batches, what the last search found stays in the same memory, where a captured CUDA graph reads it. In
    batches it is needed until the pull of the targets is computed.
    """

    def __init__(self, settings: PositiveSettings) -> None:
        self.settings = settings
        self.centers: Tensor | None = None  # [m, k, d]
        self.pairs: Pairs | None = None  # in full batches: candidates and positives
        self.matrix: SparseMatrix | None = None  # the same pairs in the format of the loss
        self.counts: Tensor | None = None  # in batches: from ``count_pairs``, of all processes

    def initial_rows(self, n: int, rng: torch.Generator) -> Tensor | None:
        """Random rows of those of k-means as its initial centers: [m, k]; None if it is warm-started or not run."""
        settings = self.settings
        warm = settings.warm_start and self.centers is not None
        if warm or not settings.needs_clusters:
            return None
        n_rows = len(range(n)[kmeans_rows(n, settings)])
        return random_rows(n_rows, min(settings.n_clusters, n), settings.n_restarts, rng)

    def cluster(self, t: Tensor, rows: Tensor | None, shards: Shards) -> Tensor | None:
        """The cluster of each node of all processes in each k-means run: [m, n]; None if the rule for positives needs
        no clusters."""
        settings, k = self.settings, min(self.settings.n_clusters, shards.n)
        if not settings.needs_clusters:
            return None
        result = run_kmeans(
            t, k, unit=True, n_restarts=settings.n_restarts, n_iters=settings.kmeans_iters, rows=rows,
            centers=self.centers if rows is None else None, precision=settings.precision,
            sample=kmeans_rows(shards.n, settings), shards=shards,
        )  # fmt: skip
        self.centers = in_place(self.centers, result.centers)
        return shards.gather_labels(result.labels, k)

    def find(
        self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, side: SideStream, shards: Shards
    ) -> Pairs:
        """In batches: the candidates of the nodes of this process, and which of them are positives.

        ``labels`` comes from ``cluster``, which may still run on ``side``.
        """
        settings = self.settings
        if labels is not None and settings.positives == "clusters":
            side.join()
            pairs = same_cluster_pairs(labels, settings.include_self)
        else:
            src, dst = self._candidates(h, t, labels, side, shards)
            side.join()
            pairs = filter_pairs(src, dst, shards.n, edges, labels, settings.positives)
        self.counts = shards.sum(count_pairs(pairs))
        return pairs

    def run(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, side: SideStream) -> SparseMatrix:
        """In full batches: the same, in the format of the loss."""
        settings, n = self.settings, h.shape[0]
        if labels is not None and settings.positives == "clusters":
            side.join()
            self.pairs = same_cluster_pairs(labels, settings.include_self)
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, n)
            return self.matrix
        src, dst = self._candidates(h, t, labels, side, Shards(n))
        self.matrix = in_place(self.matrix, pair_matrix(src, dst, n))  # sorts while k-means still runs on its stream
        side.join()
        pairs = filter_pairs(src, dst, n, edges, labels, settings.positives)
        self.matrix.set_values(pairs.is_positive)
        kind, is_positive = (None, None) if self.pairs is None else (self.pairs.kind, self.pairs.is_positive)
        self.pairs = Pairs(  # src and dst share the memory of the matrix
            self.matrix.rows, self.matrix.indices, in_place(kind, pairs.kind), in_place(is_positive, pairs.is_positive)
        )
        return self.matrix

    def _candidates(
        self, h: Tensor, t: Tensor, labels: Tensor | None, side: SideStream, shards: Shards
    ) -> tuple[Tensor, Tensor]:
        settings, clustering = self.settings, None
        if labels is not None and self.centers is not None and settings.searches_clusters(shards.n, h.device):
            side.join()
            clustering = Clustering(labels[0], self.centers[0])
            if settings.in_batches:
                h, t, centers = in_leading_directions(h, t, clustering.centers, shards)
                clustering = Clustering(labels[0], centers)
            if shards.n > HUGE:
                clustering = fine_partition(t, clustering, shards)
        n_neighbors, include_self = settings.n_neighbors, settings.include_self
        return candidate_pairs(h, t, n_neighbors, include_self, settings.precision, clustering, shards)

    def diagnostics(self) -> dict[str, float]:
        """The number of positives, and the shares of local and of global ones among those that are other nodes."""
        # A captured search of full batches replaces the pairs without this object.
        counts = self.counts if self.pairs is None else count_pairs(self.pairs)
        return {} if counts is None else describe_pairs(counts)

    def state(self) -> dict[str, Any]:
        """What a checkpoint stores."""
        pairs, n_nodes = None, 0
        if self.pairs is not None and self.matrix is not None:
            pairs = {field.name: getattr(self.pairs, field.name) for field in fields(Pairs)}
            n_nodes = self.matrix.shape[0]
        return {"pairs": pairs, "nodes": n_nodes, "centers": self.centers, "counts": self.counts}

    def restore(self, state: dict[str, Any]) -> None:
        self.centers, self.counts = state.get("centers"), state.get("counts")
        self.pairs = self.matrix = None
        if state.get("pairs") is not None:
            self.pairs = Pairs(**state["pairs"])
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, state["nodes"], self.pairs.is_positive)


def count_pairs(pairs: Pairs) -> Tensor:
    """The number of positives, of those that are other nodes, and of local and of global ones among these: [4]."""
    others = pairs.is_positive & (pairs.src != pairs.dst)
    kinds = (others & (pairs.kind & kind > 0) for kind in (LOCAL, GLOBAL))
    return torch.stack([counted.sum() for counted in (pairs.is_positive, others, *kinds)])


def describe_pairs(counts: Tensor) -> dict[str, float]:
    """What ``history.jsonl`` says about these numbers."""
    positives, others, *parts = counts.tolist()
    shares = zip(("local", "global"), parts, strict=True)
    return {"pairs": positives} | {name: round(part / max(1, others), 4) for name, part in shares}


def kmeans_rows(n: int, settings: PositiveSettings) -> slice:
    """The rows from which k-means computes its centers: all, or for large graphs in batches every second, third, …"""
    step = n // (ROWS_PER_CENTER * settings.n_clusters) if settings.in_batches else 1
    return slice(0, n, max(1, step))


def in_place(stored: Stored | None, new: Stored) -> Stored:
    """``new`` copied into the memory of ``stored``, where a captured CUDA graph reads it."""
    if stored is None:
        return new
    stored.copy_(new)
    return stored
