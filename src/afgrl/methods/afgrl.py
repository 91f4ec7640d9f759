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
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.afgrl_settings import LARGE, AFGRLSettings
from afgrl.methods.parts.batch_inputs import BatchInputs, svd_width
from afgrl.methods.parts.positive_search import PositiveSearch, in_place
from afgrl.methods.parts.positives import edge_keys, neighbor_mean
from afgrl.methods.parts.spectral import HUGE, SpectralFeatures
from afgrl.nn import Encoder, Predictor, Progress, calibrate, ema_decay, ema_update
from afgrl.ops.pair_loss import Pull, batch_pair_loss, positive_pair_loss, pull_of
from afgrl.ops.propagation import Propagated, propagate
from afgrl.ops.sparse.rows import own_rows
from afgrl.ops.storage import empty_rows, row_blocks
from afgrl.ops.streams import SideStream
from afgrl.ops.svd import gram_matrix, leading_eigenvectors, rows_to_fit

__all__ = ["LARGE", "AFGRLMethod", "AFGRLSettings"]

CALIBRATION_ROWS = 16_384
ROWS_AT_ONCE = 1 << 18  # of a huge graph, whose parts are joined and projected


@dataclass(frozen=True, eq=False)
class Inputs:
    """The graph as full batches see it."""

    propagated: Propagated
    edges: Tensor  # [e] int64, from positives.edge_keys


class AFGRLMethod(Method):
    """An online encoder with a predictor, and a target encoder that is the EMA of the online encoder."""

    name = "afgrl"
    supports_batches = True
    supports_processes = True
    capturable = True
    row_state = ("pull",)
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

    @classmethod
    def keeps_untrained(cls, settings: AFGRLSettings) -> bool:
        return settings.skip != "none"

    @classmethod
    def check_processes(cls, settings: Settings) -> None:
        values = settings.model_dump()
        for setting, refused, instead in (
            ("batch_size", 0, "set steps and a batch_size above 0, without epochs"),
            ("positives", "clusters", "choose another rule"),
            ("normalization", "batch", "choose frozen or none"),
            ("patience", None, "set it to 0"),
        ):
            value = values[setting]
            if value == refused or (refused is None and value):
                raise UserError(
                    f"Several processes cannot train with {setting}={value!r}; {instead}, or use one process."
                )

    def prepare(self, graph: Graph | MappedGraph) -> Inputs | BatchInputs:
        if not self.settings.in_batches:
            assert isinstance(graph, Graph)
            return Inputs(propagate(graph, self.settings.n_hops), edge_keys(graph))
        shards, n_inputs = replace(self.shards, n=graph.n), svd_width(self.size.n_nodes)
        return BatchInputs.of(graph, self.settings, shards, self.spectral, n_inputs, self.device)

    def initialize(self, inputs: Inputs | BatchInputs) -> None:
        if isinstance(inputs, Inputs):
            self._calibrate(inputs.propagated)
            return
        inputs.fit()
        self.has_fixed_sizes = inputs.table.has_fixed_sizes
        rows = calibration_rows(inputs.shards.n, self.device)
        self._calibrate(Propagated(inputs.table.sample(rows), inputs.adjacency))

    def _calibrate(self, sample: Propagated) -> None:
        calibrate(self.target, sample)
        calibrate(self.predictor, calibrate(self.encoder, sample))

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
                labels = self.search.cluster(t, rows, self.shards)
        z = self.predictor(h)
        if refresh:
            self.search.run(h.detach(), t, inputs.edges, labels, side)
        assert self.search.matrix is not None
        return positive_pair_loss(z, t, self.search.matrix, over=self.settings.loss_over)

    def _batch_loss(self, inputs: BatchInputs, rng: torch.Generator) -> Tensor:
        if self._is_due():
            self._refresh_pull(inputs, rng)
        assert self.pull is not None
        batch = inputs.table.batch(self.settings.batch_size, self.settings.dropout, rng)
        if batch.x.shape[0] == 0:  # other processes have all rows of the batch
            return torch.zeros((), device=self.device, requires_grad=True)
        z = self.predictor(self.encoder(Propagated(batch.x, inputs.adjacency)))
        return batch_pair_loss(z, self.pull.rows[batch.rows], self.pull.offset, batch.n_rows)

    @torch.no_grad()
    def _refresh_pull(self, inputs: BatchInputs, rng: torch.Generator) -> None:
        """Search positives and recompute the targets, both for all nodes, in chunks of rows."""
        side, shards = SideStream(rng.device), inputs.shards
        rows = self.search.initial_rows(shards.n, rng)
        t, h = self._encode_all(self.target, inputs), self._encode_all(self.encoder, inputs)
        with side:
            labels = self.search.cluster(t, rows, shards)
        pairs = self.search.find(h, t, inputs.edges, labels, side, shards)
        del h  # the pull takes several tables of its size
        new = pull_of(t, pairs.src, pairs.dst, pairs.is_positive, shards, over=self.settings.loss_over)
        if self.settings.neighbor_weight:
            mean = neighbor_mean(t, inputs.adjacency)
            for part in row_blocks(len(t), t.device):
                new.rows[part].add_(2 * self.settings.neighbor_weight * mean[part])
            new.rows.div_(1 + self.settings.neighbor_weight)
        self.pull = Pull(*map(in_place, self.pull or (None, None), new))

    def _encode_all(self, encoder: Encoder, inputs: BatchInputs) -> Tensor:
        """Of the nodes of this process: [n_own, d]."""
        table = inputs.table
        output = empty_rows(table.shape[0], self.settings.encoder_width, table.device)
        for rows in table.chunks(self.settings.encoder_width):
            output[rows] = encoder(Propagated(table.rows(rows), inputs.adjacency))
        return output

    def _is_due(self) -> bool:
        """Whether the next step refreshes the positives."""
        found = self.pull if self.settings.in_batches else self.search.pairs
        return found is None or self.age >= self.settings.refresh_every

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
        untrained, shards = inputs.untrained, inputs.shards

        def joined(rows: slice) -> Tensor:
            trained = len(untrained) ** 0.5 * F.normalize(h[rows])  # counts as much as all untrained parts together
            return torch.cat([trained, *(part[rows] for part in untrained)], dim=1)

        parts = joined if len(h) > HUGE else joined(slice(None)).__getitem__
        # Other graphs are embedded with the projection of the training graph, unless that was never embedded.
        if inputs.is_fitted or not self.projection.any():
            sample = parts(shards.part_of(rows_to_fit(shards.n)))
            gram = gram_matrix(sample.split(CALIBRATION_ROWS), shards)
            self.projection.copy_(leading_eigenvectors(gram, len(self.projection.T)))
        if len(h) <= HUGE:
            return parts(slice(None)) @ self.projection
        vectors = empty_rows(len(h), len(self.projection.T), h.device)
        for start in range(0, len(h), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            vectors[rows] = parts(rows) @ self.projection
        return vectors

    @torch.no_grad()
    def sample(self, inputs: Inputs | BatchInputs, rows: Tensor) -> Tensor:
        if isinstance(inputs, Inputs):
            return super().sample(inputs, rows)
        h: Tensor = self.encoder(Propagated(inputs.table.sample(rows), inputs.adjacency))
        return h

    def diagnostics(self) -> dict[str, float]:
        return self.search.diagnostics()

    def get_extra_state(self) -> dict[str, Any]:
        rows, offset = (None, None) if self.pull is None or self._is_due() else self.pull  # a refresh would replace it
        return {**self.search.state(), "pull": rows, "offset": offset, "age": self.age}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.search.restore(state)
        self.age, rows = int(state["age"]), state.get("pull")
        if rows is not None and len(rows) != self.shards.n_own:  # saved by one process
            rows = own_rows(rows, self.shards)
        self.pull = None if rows is None else Pull(rows, state["offset"])


def calibration_rows(n: int, device: torch.device) -> Tensor:
    """Evenly spaced rows, from which the frozen norms compute their statistics."""
    rows = torch.linspace(0, n - 1, min(n, CALIBRATION_ROWS), device=device).long()
    return rows.clamp_(max=n - 1)  # float32 rounds numbers above 2²⁴, perhaps up to n
