"""The search for positives: k-means on the target vectors, nearest neighbors, the filter, and what they found last."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from afgrl.methods.parts.afgrl_settings import AFGRLSettings
from afgrl.methods.parts.positives import Pairs, candidate_pairs, filter_pairs, same_cluster_pairs
from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.kmeans import random_rows, run_kmeans
from afgrl.ops.knn.clusters import Clustering, fine_partition, in_leading_directions
from afgrl.ops.pair_filter import GLOBAL, LOCAL
from afgrl.ops.pair_loss import pair_matrix
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.streams import SideStream

# In batches, rows from which k-means computes each center: Debian and WordNet score the same as with all rows.
ROWS_PER_CENTER = 256

Stored = TypeVar("Stored", Tensor, SparseMatrix)


class PositiveSearch:
    """What the last search found stays in the same memory, where a captured CUDA graph reads it."""

    def __init__(self, settings: AFGRLSettings) -> None:
        self.settings = settings
        self.pairs: Pairs | None = None  # candidates and positives
        self.matrix: SparseMatrix | None = None  # the same pairs in the format of the loss
        self.centers: Tensor | None = None  # [m, k, d]
        self.counts: Tensor | None = None  # in batches: from ``count_pairs``, once they were asked for

    def initial_rows(self, n: int, rng: torch.Generator) -> Tensor | None:
        """Random rows of those of k-means as its initial centers: [m, k]; None if it is warm-started or not run."""
        settings = self.settings
        warm = settings.warm_start and self.centers is not None
        if warm or not settings.needs_clusters:
            return None
        n_rows = len(range(n)[kmeans_rows(n, settings)])
        return random_rows(n_rows, min(settings.n_clusters, n), settings.n_restarts, rng)

    def cluster(self, t: Tensor, rows: Tensor | None) -> Tensor | None:
        """The cluster of each node in each k-means run: [m, n]; None if the rule for positives needs no clusters."""
        settings = self.settings
        if not settings.needs_clusters:
            return None
        n, m, precision = t.shape[0], settings.n_restarts, settings.precision
        k, sample = min(settings.n_clusters, n), kmeans_rows(n, settings)
        centers = self.centers if rows is None else None
        result = run_kmeans(
            t[sample], k, unit=True, n_restarts=m, n_iters=settings.kmeans_iters, rows=rows, centers=centers,
            precision=precision,
        )  # fmt: skip
        self.centers = in_place(self.centers, result.centers)
        if sample.step > 1:
            result = run_kmeans(t, k, unit=True, n_restarts=m, n_iters=0, centers=self.centers, precision=precision)
        return result.labels

    def run(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, side: SideStream) -> SparseMatrix:
        """The positive pairs of all nodes. ``labels`` comes from ``cluster``, which may still run on ``side``."""
        settings, n = self.settings, h.shape[0]
        self.counts = None
        if labels is not None and settings.positives == "clusters":
            side.join()
            self.pairs = same_cluster_pairs(labels, settings.include_self)
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, n)
            return self.matrix
        clustering = None
        if labels is not None and self.centers is not None and settings.searches_clusters(n, h.device):
            side.join()
            clustering = Clustering(labels[0], self.centers[0])
            if settings.in_batches:
                h, t, centers = in_leading_directions(h, t, clustering.centers)
                clustering = Clustering(labels[0], centers)
            if n > HUGE:
                clustering = fine_partition(t)
        src, dst = candidate_pairs(h, t, settings.n_neighbors, settings.include_self, settings.precision, clustering)
        self.matrix = in_place(self.matrix, pair_matrix(src, dst, n))  # sorts while k-means still runs on its stream
        side.join()
        pairs = filter_pairs(src, dst, n, edges, labels, settings.positives)
        self.matrix.set_values(pairs.is_positive)
        kind, is_positive = (None, None) if self.pairs is None else (self.pairs.kind, self.pairs.is_positive)
        self.pairs = Pairs(  # src and dst share the memory of the matrix
            self.matrix.rows, self.matrix.indices, in_place(kind, pairs.kind), in_place(is_positive, pairs.is_positive)
        )
        return self.matrix

    def diagnostics(self) -> dict[str, float]:
        """The number of positives, and the shares of local and of global ones among those that are other nodes."""
        if self.pairs is None:
            return {}
        counts = count_pairs(self.pairs.compact()) if self.counts is None else self.counts
        if self.settings.in_batches:  # a captured search of full batches replaces the pairs without this object
            self.counts = counts
        return describe_pairs(counts)

    def state(self, *, with_pairs: bool = True) -> dict[str, Any]:
        """What a checkpoint stores; the pairs are not needed if the next step searches them again."""
        pairs = None
        if self.pairs is not None and with_pairs:
            pairs = {field.name: getattr(self.pairs, field.name) for field in fields(Pairs)}
        nodes = 0 if self.matrix is None else self.matrix.shape[0]
        return {"pairs": pairs, "nodes": nodes, "centers": self.centers}

    def restore(self, state: dict[str, Any]) -> None:
        self.centers, self.counts = state["centers"], None
        self.pairs = self.matrix = None
        if state["pairs"] is not None:
            self.pairs = Pairs(**state["pairs"])
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, state["nodes"], self.pairs.is_positive)


def count_pairs(pairs: Pairs) -> Tensor:
    """The number of positives, of those that are other nodes, and of local and of global ones among these: [4]."""
    kind = pairs.kind[pairs.src != pairs.dst]
    counts = (len(pairs.src), len(kind), int((kind & LOCAL > 0).sum()), int((kind & GLOBAL > 0).sum()))
    return torch.tensor(counts, dtype=torch.int64, device=kind.device)


def describe_pairs(counts: Tensor) -> dict[str, float]:
    """What ``history.jsonl`` says about these numbers."""
    positives, others, *parts = counts.tolist()
    shares = zip(("local", "global"), parts, strict=True)
    return {"pairs": positives} | {name: round(part / max(1, others), 4) for name, part in shares}


def kmeans_rows(n: int, settings: AFGRLSettings) -> slice:
    """The rows from which k-means computes its centers: all, or for large graphs in batches every second, third, …"""
    step = n // (ROWS_PER_CENTER * settings.n_clusters) if settings.in_batches else 1
    return slice(0, n, max(1, step))


def in_place(stored: Stored | None, new: Stored) -> Stored:
    """``new`` copied into the memory of ``stored``, where a captured CUDA graph reads it."""
    if stored is None:
        return new
    stored.copy_(new)
    return stored
