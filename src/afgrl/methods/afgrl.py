"""AFGRL: predict, for each node, the target vectors of its positives
(Lee, Lee and Park, Augmentation-Free Self-Supervised Learning on Graphs, AAAI 2022).

In full batches, as in the paper, a step computes all rows. In batches, the default, targets and positives are constant
between two refreshes, so everything a node is pulled to is one row of a constant table, and a step computes the rows of
a batch only.

Complexity per step, for b rows of nnz input values and predictor_width w: O(b·(nnz + w)·d); b = n in full batches.
Every ``refresh_every`` steps: O(n²·d) for the nearest neighbors (about 10/K of it for a search in clusters) and
O(n·M·K·d·kmeans_iters) for k-means. Memory: O(n·(f + d + w)); afgrl.cost estimates both.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.afgrl_settings import LARGE, AFGRLSettings
from afgrl.methods.parts.positives import (
    Clustering,
    Pairs,
    candidate_pairs,
    edge_keys,
    filter_pairs,
    neighbor_mean,
    same_cluster_pairs,
)
from afgrl.methods.parts.spectral import SpectralFeatures
from afgrl.nn import Encoder, Predictor, Progress, calibrate, ema_decay, ema_update
from afgrl.ops.kmeans import random_rows, run_kmeans
from afgrl.ops.knn.clusters import in_leading_directions
from afgrl.ops.pair_filter import GLOBAL, LOCAL
from afgrl.ops.pair_loss import Pull, batch_pair_loss, pair_matrix, positive_pair_loss, pull_of
from afgrl.ops.propagation import Propagated, propagate, row_table
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.matrix import SparseMatrix
from afgrl.ops.streams import SideStream
from afgrl.ops.svd import gram_matrix, leading_eigenvectors, rows_to_fit

__all__ = ["LARGE", "AFGRLMethod", "AFGRLSettings"]

Stored = TypeVar("Stored", Tensor, SparseMatrix)

SVD_WIDTH = 1024  # columns of the input "svd"
SVD_LENGTH = 20.0  # of its rows: as long as four blocks of a multi-hop input
CALIBRATION_ROWS = 16_384
# In batches, rows from which k-means computes each center: Debian and WordNet score the same as with all rows.
ROWS_PER_CENTER = 256


@dataclass(frozen=True, eq=False)
class Inputs:
    """The graph as full batches see it."""

    propagated: Propagated
    edges: Tensor  # [e] int64, from positives.edge_keys


@dataclass(frozen=True, eq=False)
class BatchInputs:
    """The graph as batches see it. Tables that depend on fitted projections are computed when first used."""

    x: Tensor  # [n, f] dense or CSR
    adjacency: Tensor  # [n, n] CSR: S
    edges: Tensor  # [e] int64, from positives.edge_keys
    computed: dict[str, Any] = field(default_factory=dict)  # "trained_on": the projection is fitted to this graph


class AFGRLMethod(Method):
    """An online encoder with a predictor, and a target encoder that is the EMA of the online encoder."""

    name = "afgrl"
    supports_batches = True
    capturable = True
    settings_class = AFGRLSettings
    settings: AFGRLSettings
    projection: Tensor  # [columns of all parts of the embedding, n_components]

    def __init__(self, settings: AFGRLSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        width, hidden = settings.encoder_width, settings.predictor_width
        from_svd = settings.input == "svd"
        self.spectral: SpectralFeatures | None = None
        if from_svd or settings.skip != "none":
            n_directions = max(SVD_WIDTH if from_svd else 0, settings.n_components if settings.skip != "none" else 0)
            self.spectral = SpectralFeatures(size.n_features, n_directions)
        n_inputs = size.n_features * (1 if settings.input == "own" else settings.n_hops + 1)
        if from_svd and self.spectral:
            n_inputs = min(SVD_WIDTH, self.spectral.width)
        self.encoder = Encoder(n_inputs, width, settings.n_layers, settings.normalization, rng)
        self.predictor = Predictor(width, hidden, settings.normalization, rng)
        self.target = copy.deepcopy(self.encoder).requires_grad_(False)
        if settings.skip != "none" and self.spectral:
            parts = 2 if settings.skip == "svd+ppr" else 1
            n_columns = width + parts * min(settings.n_components, self.spectral.width)
            if n_columns < settings.n_components:
                raise UserError(
                    f"All parts of the embedding have {n_columns} columns together: set n_components to at most "
                    f"{n_columns}, or a larger encoder_width."
                )
            self.register_buffer("projection", torch.zeros(n_columns, settings.n_components))
        self.pairs: Pairs | None = None  # candidates and positives of the last refresh
        self.matrix: SparseMatrix | None = None  # the same pairs in the format of the loss
        self.pull: Pull | None = None  # in batches: what the targets of the last refresh contribute to the loss
        self.centers: Tensor | None = None  # [m, k, d], of the last refresh
        self.age = 0  # steps since the last refresh

    @property
    def fused_optimizer(self) -> bool:
        return self.settings.in_batches

    def prepare(self, graph: Graph) -> Inputs | BatchInputs:
        if not self.settings.in_batches:
            return Inputs(propagate(graph, self.settings.n_hops), edge_keys(graph))
        adjacency = gcn_norm(graph)
        inputs = BatchInputs(graph.x, adjacency, edge_keys(graph))
        if self.settings.input != "svd":
            n_hops = self.settings.n_hops if self.settings.input == "features" else None
            inputs.computed["table"] = row_table(graph, adjacency, n_hops)
        return inputs

    def initialize(self, inputs: Inputs | BatchInputs) -> None:
        if isinstance(inputs, Inputs):
            calibrate(self.target, inputs.propagated)
            calibrate(self.predictor, calibrate(self.encoder, inputs.propagated))
            return
        if self.spectral is not None and self.settings.input == "svd":
            inputs.computed["directions"] = self.spectral.fit_transform(inputs.x, inputs.adjacency)
        elif self.spectral is not None:
            self.spectral.fit(inputs.x, inputs.adjacency)
        table = self._table(inputs)
        n = table.shape[0]
        rows = torch.linspace(0, n - 1, min(n, CALIBRATION_ROWS), device=table.device).long()
        sample = Propagated(table.rows(rows), inputs.adjacency)
        calibrate(self.target, sample)
        calibrate(self.predictor, calibrate(self.encoder, sample))
        inputs.computed["trained_on"] = True

    def loss(self, inputs: Inputs | BatchInputs, rng: torch.Generator) -> Tensor:
        if isinstance(inputs, BatchInputs):
            return self._batch_loss(inputs, rng)
        refresh, side = self._is_due(), SideStream(rng.device)
        if refresh:
            with side:
                rows = self._initial_rows(inputs.propagated.x.shape[0], rng)
        h = self.encoder(inputs.propagated)
        with torch.no_grad():
            t = self.target(inputs.propagated)
        if refresh:
            with side:
                labels = self._cluster(t, rows)
        z = self.predictor(h)
        if refresh:
            self._refresh_positives(h.detach(), t, inputs.edges, labels, side)
        assert self.matrix is not None
        return positive_pair_loss(z, t, self.matrix, over=self.settings.loss_over)

    def _batch_loss(self, inputs: BatchInputs, rng: torch.Generator) -> Tensor:
        table = self._table(inputs)
        if self._is_due():
            self._refresh_pull(inputs, rng)
        assert self.pull is not None
        n, size = table.shape[0], self.settings.batch_size
        rows = torch.randint(n, (size,), generator=rng, device=table.device) if size < n else slice(None)
        batch = table.rows(rows, self.settings.dropout, rng)
        z = self.predictor(self.encoder(Propagated(batch, inputs.adjacency)))
        return batch_pair_loss(z, self.pull.rows[rows], self.pull.offset)

    @torch.no_grad()
    def _refresh_pull(self, inputs: BatchInputs, rng: torch.Generator) -> None:
        """Search positives and recompute the targets, both for all nodes, in chunks of rows."""
        side = SideStream(rng.device)
        rows = self._initial_rows(inputs.x.shape[0], rng)
        t, h = self._encode_all(self.target, inputs), self._encode_all(self.encoder, inputs)
        with side:
            labels = self._cluster(t, rows)
        self._refresh_positives(h, t, inputs.edges, labels, side)
        assert self.matrix is not None
        new = pull_of(t, self.matrix, over=self.settings.loss_over)
        if self.settings.neighbor_weight:
            new.rows.add_(2 * self.settings.neighbor_weight * neighbor_mean(t, inputs.adjacency))
            new.rows.div_(1 + self.settings.neighbor_weight)
        self.pull = Pull(*map(_in_place, self.pull or (None, None), new))

    def _encode_all(self, encoder: Encoder, inputs: BatchInputs) -> Tensor:
        table = self._table(inputs)
        output = torch.empty(table.shape[0], self.settings.encoder_width, device=table.device)
        for rows in table.chunks(self.settings.encoder_width):
            output[rows] = encoder(Propagated(table.rows(rows), inputs.adjacency))
        return output

    def _table(self, inputs: BatchInputs) -> RowTable:
        if "table" not in inputs.computed:
            directions = F.normalize(self._directions(inputs)[:, :SVD_WIDTH])
            inputs.computed["table"] = RowTable.of(SVD_LENGTH * directions)
        table: RowTable = inputs.computed["table"]
        return table

    def _directions(self, inputs: BatchInputs) -> Tensor:
        assert self.spectral is not None
        if "directions" not in inputs.computed:
            inputs.computed["directions"] = self.spectral(inputs.x, inputs.adjacency)
        directions: Tensor = inputs.computed["directions"]
        return directions

    def _untrained(self, inputs: BatchInputs) -> list[Tensor]:
        """The parts of the embedding that need no training, with unit rows: [n, d] each."""
        if "untrained" not in inputs.computed:
            v = F.normalize(self._directions(inputs)[:, : self.settings.n_components])
            parts = [v] if self.settings.skip == "svd" else [v, F.normalize(pagerank_average(v, inputs.adjacency))]
            inputs.computed["untrained"] = parts
        untrained: list[Tensor] = inputs.computed["untrained"]
        return untrained

    def _is_due(self) -> bool:
        """Whether the next step refreshes the positives."""
        return self.pairs is None or self.age >= self.settings.refresh_every

    def capture_key(self) -> str | None:
        settings = self.settings
        # The number of pairs in the same cluster depends on the data, and the backward pass of a later layer's sparse
        # product sorts.
        if settings.positives == "clusters" or settings.n_layers > 1:
            return None
        if settings.in_batches:
            return None if self._is_due() else "batch"
        if not self._is_due():
            return "reuse"
        if settings.search == "clusters" and settings.needs_clusters:  # the sizes of clusters depend on the data
            return None
        return "search" if self.centers is not None or not settings.needs_clusters else "first search"

    def after_step(self, progress: Progress) -> None:
        self.age = 1 if self._is_due() else self.age + 1
        ema_update(self.target, self.encoder, ema_decay(progress, self.settings.momentum, self.settings.schedule))

    def encode(self, inputs: Inputs | BatchInputs) -> Tensor:
        if isinstance(inputs, Inputs):
            h: Tensor = self.encoder(inputs.propagated)
            return h
        h = self._encode_all(self.encoder, inputs)
        if self.settings.skip == "none":
            return h
        untrained = self._untrained(inputs)
        trained = len(untrained) ** 0.5 * F.normalize(h)  # counts as much as all untrained parts together
        parts = torch.cat([trained, *untrained], dim=1)
        # Other graphs are embedded with the projection of the training graph, unless that was never embedded.
        if "trained_on" in inputs.computed or not self.projection.any():
            gram = gram_matrix(parts[rows_to_fit(len(parts))].split(CALIBRATION_ROWS))
            self.projection.copy_(leading_eigenvectors(gram, len(self.projection.T)))
        return parts @ self.projection

    @torch.no_grad()
    def sample(self, inputs: Inputs | BatchInputs, rows: Tensor) -> Tensor:
        if isinstance(inputs, Inputs):
            return super().sample(inputs, rows)
        h: Tensor = self.encoder(Propagated(self._table(inputs).rows(rows), inputs.adjacency))
        return h

    def _initial_rows(self, n: int, rng: torch.Generator) -> Tensor | None:
        """Random rows of those of k-means as its initial centers: [m, k]; None if it is warm-started or not run."""
        settings = self.settings
        warm = settings.warm_start and self.centers is not None
        if warm or not settings.needs_clusters:
            return None
        n_rows = len(range(n)[kmeans_rows(n, settings)])
        return random_rows(n_rows, min(settings.n_clusters, n), settings.n_restarts, rng)

    def _cluster(self, t: Tensor, rows: Tensor | None) -> Tensor | None:
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
        self.centers = _in_place(self.centers, result.centers)
        if sample.step > 1:
            result = run_kmeans(t, k, unit=True, n_restarts=m, n_iters=0, centers=self.centers, precision=precision)
        return result.labels

    def _refresh_positives(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None, side: SideStream) -> None:
        settings, n = self.settings, h.shape[0]
        if labels is not None and settings.positives == "clusters":
            side.join()
            self.pairs = same_cluster_pairs(labels, settings.include_self)
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, n)
            return
        clustering = None
        if labels is not None and self.centers is not None and settings.searches_clusters(n, h.device):
            side.join()
            clustering = Clustering(labels[0], self.centers[0])
            if settings.in_batches:
                h, t, centers = in_leading_directions(h, t, clustering.centers)
                clustering = Clustering(labels[0], centers)
        src, dst = candidate_pairs(h, t, settings.n_neighbors, settings.include_self, settings.precision, clustering)
        self.matrix = _in_place(self.matrix, pair_matrix(src, dst, n))  # sorts while k-means still runs on its stream
        side.join()
        pairs = filter_pairs(src, dst, n, edges, labels, settings.positives)
        self.matrix.set_values(pairs.is_positive)
        kind, is_positive = (None, None) if self.pairs is None else (self.pairs.kind, self.pairs.is_positive)
        self.pairs = Pairs(  # src and dst share the memory of the matrix
            self.matrix.rows,
            self.matrix.indices,
            _in_place(kind, pairs.kind),
            _in_place(is_positive, pairs.is_positive),
        )

    def diagnostics(self) -> dict[str, float]:
        if self.pairs is None:
            return {}
        pairs = self.pairs.compact()
        kind = pairs.kind[pairs.src != pairs.dst]
        shares = {"local": (kind & LOCAL) > 0, "global": (kind & GLOBAL) > 0}
        return {"pairs": len(pairs.src)} | {
            name: round(float(share.float().mean()), 4) if len(share) else 0.0 for name, share in shares.items()
        }

    def get_extra_state(self) -> dict[str, Any]:
        pairs = None if self.pairs is None else {field.name: getattr(self.pairs, field.name) for field in fields(Pairs)}
        nodes = 0 if self.matrix is None else self.matrix.shape[0]
        pull = None if self.pull is None or self._is_due() else tuple(self.pull)  # a refresh would replace it
        return {"pairs": pairs, "nodes": nodes, "pull": pull, "centers": self.centers, "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.centers, self.age = state["centers"], state["age"]
        self.pairs = self.matrix = None
        self.pull = None if state["pull"] is None else Pull(*state["pull"])
        if state["pairs"] is not None:
            self.pairs = Pairs(**state["pairs"])
            self.matrix = pair_matrix(self.pairs.src, self.pairs.dst, state["nodes"], self.pairs.is_positive)


def kmeans_rows(n: int, settings: AFGRLSettings) -> slice:
    """The rows from which k-means computes its centers: all, or for large graphs in batches every second, third, …"""
    step = n // (ROWS_PER_CENTER * settings.n_clusters) if settings.in_batches else 1
    return slice(0, n, max(1, step))


def _in_place(stored: Stored | None, new: Stored) -> Stored:
    """``new`` copied into the memory of ``stored``, where a captured CUDA graph reads it."""
    if stored is None:
        return new
    stored.copy_(new)
    return stored
