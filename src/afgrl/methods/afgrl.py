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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.afgrl_settings import LARGE, AFGRLSettings
from afgrl.methods.parts.positive_search import PositiveSearch, in_place
from afgrl.methods.parts.positives import edge_keys, neighbor_mean
from afgrl.methods.parts.spectral import HUGE, SpectralFeatures
from afgrl.nn import Encoder, Predictor, Progress, calibrate, ema_decay, ema_update
from afgrl.ops.collectives import Shards
from afgrl.ops.pair_loss import Pull, batch_pair_loss, positive_pair_loss, pull_of
from afgrl.ops.propagation import Propagated, propagate, row_table
from afgrl.ops.propagation.adjacency import gcn_norm
from afgrl.ops.propagation.columns import Adjacency, pagerank_average
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.streams import SideStream
from afgrl.ops.svd import gram_matrix, leading_eigenvectors, rows_to_fit

__all__ = ["LARGE", "AFGRLMethod", "AFGRLSettings"]

SVD_WIDTH, HUGE_SVD_WIDTH = 1024, 256  # columns of the input "svd"
SVD_LENGTH = 20.0  # of its rows: as long as four blocks of a multi-hop input
CALIBRATION_ROWS = 16_384
ROWS_AT_ONCE = 1 << 18  # of a huge graph, whose parts are joined and projected


def svd_width(n_nodes: int) -> int:
    """Columns of the input "svd", if the features have as many directions."""
    return SVD_WIDTH if n_nodes <= HUGE else HUGE_SVD_WIDTH


@dataclass(frozen=True, eq=False)
class Inputs:
    """The graph as full batches see it."""

    propagated: Propagated
    edges: Tensor  # [e] int64, from positives.edge_keys


@dataclass(frozen=True, eq=False)
class BatchInputs:
    """The graph as batches see it. Tables that depend on fitted projections are computed when first used."""

    x: Tensor  # [n, f] dense or CSR
    adjacency: Adjacency  # [n, n] CSR: S
    edges: Tensor  # [e] int64, from positives.edge_keys
    shards: Shards | None = None  # all tables have the rows of this process only
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
            n_inputs = svd_width(size.n_nodes) if from_svd else 0
            n_directions = max(n_inputs, settings.n_components if settings.skip != "none" else 0)
            self.spectral = SpectralFeatures(*size, n_directions)
        n_inputs = size.n_features * (1 if settings.input == "own" else settings.n_hops + 1)
        if from_svd and self.spectral:
            n_inputs = min(svd_width(size.n_nodes), self.spectral.width)
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
        self.search = PositiveSearch(settings)
        self.pull: Pull | None = None  # in batches: what the targets of the last refresh contribute to the loss
        self.age = 0  # steps since the last refresh
        self.has_fixed_sizes = True  # whether all batches have as many entries

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
            self._calibrate(inputs.propagated)
            return
        if self.spectral is not None and self.settings.input == "svd":
            inputs.computed["directions"] = self.spectral.fit_transform(inputs.x, inputs.adjacency, inputs.shards)
        elif self.spectral is not None:
            self.spectral.fit(inputs.x, inputs.adjacency, inputs.shards)
        self.has_fixed_sizes = self._table(inputs).has_fixed_sizes
        self._calibrate(self._calibration_sample(inputs))
        inputs.computed["trained_on"] = True

    def _calibrate(self, sample: Propagated) -> None:
        calibrate(self.target, sample)
        calibrate(self.predictor, calibrate(self.encoder, sample))

    def _calibration_sample(self, inputs: BatchInputs) -> Propagated:
        table = self._table(inputs)
        return Propagated(table.rows(calibration_rows(table.shape[0], table.device)), inputs.adjacency)

    def loss(self, inputs: Inputs | BatchInputs, rng: torch.Generator) -> Tensor:
        if isinstance(inputs, BatchInputs):
            return self._batch_loss(inputs, rng)
        refresh, side = self._is_due(), SideStream(rng.device)
        if refresh:
            with side:
                rows = self.search.initial_rows(inputs.propagated.x.shape[0], rng)
        h = self.encoder(inputs.propagated)
        with torch.no_grad():
            t = self.target(inputs.propagated)
        if refresh:
            with side:
                labels = self.search.cluster(t, rows)
        z = self.predictor(h)
        if refresh:
            self.search.run(h.detach(), t, inputs.edges, labels, side)
        assert self.search.matrix is not None
        return positive_pair_loss(z, t, self.search.matrix, over=self.settings.loss_over)

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
        rows = self.search.initial_rows(inputs.x.shape[0], rng)
        t, h = self._encode_all(self.target, inputs), self._encode_all(self.encoder, inputs)
        with side:
            labels = self.search.cluster(t, rows)
        matrix = self.search.run(h, t, inputs.edges, labels, side)
        new = pull_of(t, matrix, over=self.settings.loss_over)
        if self.settings.neighbor_weight:
            new.rows.add_(2 * self.settings.neighbor_weight * neighbor_mean(t, inputs.adjacency))
            new.rows.div_(1 + self.settings.neighbor_weight)
        self.pull = Pull(*map(in_place, self.pull or (None, None), new))

    def _encode_all(self, encoder: Encoder, inputs: BatchInputs) -> Tensor:
        table = self._table(inputs)
        output = torch.empty(table.shape[0], self.settings.encoder_width, device=table.device)
        for rows in table.chunks(self.settings.encoder_width):
            output[rows] = encoder(Propagated(table.rows(rows), inputs.adjacency))
        return output

    def _table(self, inputs: BatchInputs) -> RowTable:
        if "table" not in inputs.computed:
            directions = self._directions(inputs)
            inputs.computed["table"] = RowTable.of(
                F.normalize(directions[:, : svd_width(self.size.n_nodes)]).mul_(SVD_LENGTH)
            )
            if len(directions) > HUGE:  # the encoder's input has more columns than the embedding
                inputs.computed["directions"] = directions[:, : self.settings.n_components].clone()
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
        return self.search.pairs is None or self.age >= self.settings.refresh_every

    def capture_key(self) -> str | None:
        settings = self.settings
        # The number of pairs in the same cluster depends on the data, and the backward pass of a later layer's sparse
        # product sorts.
        if settings.positives == "clusters" or settings.n_layers > 1:
            return None
        if settings.in_batches:
            return None if self._is_due() or not self.has_fixed_sizes else "batch"
        if not self._is_due():
            return "reuse"
        if settings.search == "clusters" and settings.needs_clusters:  # the sizes of clusters depend on the data
            return None
        return "search" if self.search.centers is not None or not settings.needs_clusters else "first search"

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

        def joined(rows: slice) -> Tensor:
            trained = len(untrained) ** 0.5 * F.normalize(h[rows])  # counts as much as all untrained parts together
            return torch.cat([trained, *(part[rows] for part in untrained)], dim=1)

        parts = joined if len(h) > HUGE else joined(slice(None)).__getitem__
        # Other graphs are embedded with the projection of the training graph, unless that was never embedded.
        if "trained_on" in inputs.computed or not self.projection.any():
            self.projection.copy_(leading_eigenvectors(self._gram(parts, len(h)), len(self.projection.T)))
        if len(h) <= HUGE:
            return parts(slice(None)) @ self.projection
        vectors = h.new_empty(len(h), len(self.projection.T))
        for start in range(0, len(h), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            vectors[rows] = parts(rows) @ self.projection
        return vectors

    def _gram(self, parts: Callable[[slice], Tensor], n: int) -> Tensor:
        """Of the rows from which the projection is fitted; ``parts`` returns rows of n."""
        return gram_matrix(parts(rows_to_fit(n)).split(CALIBRATION_ROWS))

    @torch.no_grad()
    def sample(self, inputs: Inputs | BatchInputs, rows: Tensor) -> Tensor:
        if isinstance(inputs, Inputs):
            return super().sample(inputs, rows)
        h: Tensor = self.encoder(Propagated(self._table(inputs).rows(rows), inputs.adjacency))
        return h

    def diagnostics(self) -> dict[str, float]:
        return self.search.diagnostics()

    def get_extra_state(self) -> dict[str, Any]:
        pull = None if self.pull is None or self._is_due() else tuple(self.pull)  # a refresh would replace it
        with_pairs = not (self.settings.in_batches and self._is_due())
        return {**self.search.state(with_pairs=with_pairs), "pull": pull, "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.search.restore(state)
        self.age = state["age"]
        self.pull = None if state["pull"] is None else Pull(*state["pull"])


def calibration_rows(n: int, device: torch.device) -> Tensor:
    """Evenly spaced rows, from which the frozen norms compute their statistics."""
    return torch.linspace(0, n - 1, min(n, CALIBRATION_ROWS), device=device).long()
