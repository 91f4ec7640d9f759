"""The default embedding: trained vectors beside vectors that need no training.

The trained vectors are AFGRL's, in batches: targets and positives are constant between two refreshes, so everything a
node is pulled to is one row of a constant table, and a step computes the rows of a batch only. After the last step, all
parts are projected onto their leading directions together.

Complexity per step, for b rows of nnz input values and predictor_width w: O(b·(nnz + w)·d). Every ``refresh_every``
steps: O(n²·d) for the nearest neighbors (about 10/K of it for a search in clusters) and O(n·M·K·d·kmeans_iters) for
k-means. Memory: O(n·(f + d + w)); afgrl.cost estimates both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.config import Settings
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.batch_inputs import BatchInputs, svd_width
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positive_search import PositiveSearch, in_place
from afgrl.methods.parts.positives import neighbor_mean
from afgrl.methods.parts.spectral import HUGE, SpectralFeatures
from afgrl.nn import Encoder, Predictor, Progress, calibrate, ema_decay, ema_update
from afgrl.ops.pair_loss import Pull, batch_pair_loss, pull_of
from afgrl.ops.propagation import Propagated
from afgrl.ops.sparse.rows import own_rows
from afgrl.ops.storage import empty_rows, row_blocks
from afgrl.ops.streams import SideStream
from afgrl.ops.svd import gram_matrix, leading_eigenvectors, rows_to_fit

CALIBRATION_ROWS = 16_384
ROWS_AT_ONCE = 1 << 18  # of a huge graph, whose parts are joined and projected


class NodeEmbedderMethod(Method):
    """AFGRL's networks, the projections of the vectors without training, and that of all parts together."""

    name = "node_embedder"
    supports_processes = True
    capturable = True
    row_state = ("pull",)
    settings_class = NodeEmbedderSettings
    settings: NodeEmbedderSettings
    projection: Tensor  # [columns of all parts of the embedding, n_components]

    def __init__(self, settings: NodeEmbedderSettings, size: Size, rng: torch.Generator) -> None:
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
        self.encoder = Encoder(n_inputs, width, 1, settings.normalization, rng)
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
        self.pull: Pull | None = None  # what the targets of the last refresh contribute to the loss
        self.age = 0  # steps since the last refresh
        self.has_fixed_sizes = True  # whether all batches have as many entries

    @property
    def fused_optimizer(self) -> bool:
        return True

    @classmethod
    def keeps_untrained(cls, settings: NodeEmbedderSettings) -> bool:
        return settings.skip != "none"

    @classmethod
    def check_processes(cls, settings: Settings) -> None:
        values = settings.model_dump()
        for setting, refused, instead in (
            ("positives", "clusters", "choose another rule"),
            ("normalization", "batch", "choose frozen or none"),
            ("patience", None, "set it to 0"),
        ):
            value = values[setting]
            if value == refused or (refused is None and value):
                raise UserError(
                    f"Several processes cannot train with {setting}={value!r}; {instead}, or use one process."
                )

    def prepare(self, graph: Graph | MappedGraph) -> BatchInputs:
        shards, n_inputs = replace(self.shards, n=graph.n), svd_width(self.size.n_nodes)
        return BatchInputs.of(graph, self.settings, shards, self.spectral, n_inputs, self.device)

    def initialize(self, inputs: BatchInputs) -> None:
        inputs.fit()
        self.has_fixed_sizes = inputs.table.has_fixed_sizes
        rows = calibration_rows(inputs.shards.n, self.device)
        sample = Propagated(inputs.table.sample(rows), inputs.adjacency)
        calibrate(self.target, sample)
        calibrate(self.predictor, calibrate(self.encoder, sample))

    def loss(self, inputs: BatchInputs, rng: torch.Generator) -> Tensor:
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
        return self.pull is None or self.age >= self.settings.refresh_every

    def capture_key(self) -> str | None:
        # The number of pairs in the same cluster depends on the data.
        if self.settings.positives == "clusters" or self._is_due() or not self.has_fixed_sizes:
            return None
        return "batch"

    def after_step(self, progress: Progress) -> None:
        self.age = 1 if self._is_due() else self.age + 1
        ema_update(self.target, self.encoder, ema_decay(progress, self.settings.momentum, self.settings.schedule))

    def finish(self, inputs: BatchInputs) -> None:
        """Fit the projection of all parts to the vectors of the training graph."""
        if self.settings.skip == "none":
            return
        shards, parts = inputs.shards, self._parts(inputs)
        sample = parts(shards.part_of(rows_to_fit(shards.n)))
        gram = gram_matrix(sample.split(CALIBRATION_ROWS), shards)
        self.projection.copy_(leading_eigenvectors(gram, len(self.projection.T)))

    def encode(self, inputs: BatchInputs) -> Tensor:
        if self.settings.skip == "none":
            return self._encode_all(self.encoder, inputs)
        parts, n = self._parts(inputs), inputs.table.shape[0]
        if n <= HUGE:
            return parts(slice(None)) @ self.projection
        vectors = empty_rows(n, len(self.projection.T), inputs.table.device)
        for start in range(0, n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            vectors[rows] = parts(rows) @ self.projection
        return vectors

    def _parts(self, inputs: BatchInputs) -> Callable[[slice], Tensor]:
        """All parts of the embedding side by side, of some rows."""
        h, untrained = self._encode_all(self.encoder, inputs), inputs.untrained

        def joined(rows: slice) -> Tensor:
            trained = len(untrained) ** 0.5 * F.normalize(h[rows])  # counts as much as all untrained parts together
            return torch.cat([trained, *(part[rows] for part in untrained)], dim=1)

        return joined if len(h) > HUGE else joined(slice(None)).__getitem__

    @torch.no_grad()
    def sample(self, inputs: BatchInputs, rows: Tensor) -> Tensor:
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
