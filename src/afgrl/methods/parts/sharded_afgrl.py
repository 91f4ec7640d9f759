"""AFGRL in batches with several processes, each of which has some rows of every table.

All processes draw the same batch and the same dropout from the same generator, compute the rows they own, and add up
their gradients. So a step depends on the number of processes by the rounding of that sum only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.methods.afgrl import CALIBRATION_ROWS, AFGRLMethod, BatchInputs, Inputs, calibration_rows
from afgrl.methods.base import Size
from afgrl.methods.parts.afgrl_settings import AFGRLSettings
from afgrl.methods.parts.positive_search import count_pairs, describe_pairs, kmeans_rows
from afgrl.methods.parts.positives import Pairs, filter_pairs
from afgrl.methods.parts.spectral import HUGE
from afgrl.ops.collectives import Shards
from afgrl.ops.kmeans.sharded import nearest_centers, sharded_kmeans
from afgrl.ops.knn.clusters import Clustering
from afgrl.ops.knn.ring import ring_neighbors, sharded_fine_partition, sharded_leading_directions
from afgrl.ops.pair_loss import Pull
from afgrl.ops.pair_loss.sharded import sharded_pull
from afgrl.ops.propagation import Propagated, is_too_dense
from afgrl.ops.propagation.adjacency import edge_numbers_from, gcn_norm_rows
from afgrl.ops.propagation.sharded import ShardedMatrix, diagonal, sharded_row_table
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.rows import row_range
from afgrl.ops.svd import gram_matrix, rows_to_fit


@dataclass(frozen=True, eq=False)
class ShardedInputs(BatchInputs):
    """The rows of this process; edges are those that begin at its nodes."""

    self_weights: Tensor | None = None  # [n_own] the diagonal of S


class ShardedAFGRL(AFGRLMethod):
    """AFGRL as one of several processes. Parameters and buffers are the same in all of them, and those of AFGRL."""

    def __init__(self, settings: AFGRLSettings, size: Size, rng: torch.Generator, shards: Shards) -> None:
        super().__init__(settings, size, rng)
        self.shards = shards
        self.counts: Tensor | None = None  # of the pairs of the last refresh, from ``count_pairs``

    def prepare(self, graph: Graph | MappedGraph) -> ShardedInputs:
        """From the whole graph, in memory or in files; only the rows of this process are read and moved."""
        shards, device = self.shards, self.device
        x = row_range(graph.x, shards.begin, shards.end).to(device)
        rows = gcn_norm_rows(graph, shards.begin, shards.end).to(device)
        adjacency = ShardedMatrix.of(rows.crow_indices(), rows.col_indices(), rows.values(), shards)
        edges = edge_numbers_from(graph, shards.begin, shards.end).to(device)
        inputs = ShardedInputs(x, adjacency, edges, shards, self_weights=diagonal(rows, shards.begin))
        if self.settings.input != "svd":
            n_hops = self.settings.n_hops if self.settings.input == "features" else None
            x = x.to_dense() if is_too_dense(graph) else x
            inputs.computed["table"] = sharded_row_table(x, adjacency, n_hops, shards)
        return inputs

    def _calibration_sample(self, inputs: BatchInputs) -> Propagated:
        table = self._table(inputs)
        rows = calibration_rows(self.shards.n, table.device)
        return Propagated(SampledRows(table, rows, self.shards), inputs.adjacency)  # type: ignore[arg-type]

    def _batch_loss(self, inputs: BatchInputs, rng: torch.Generator) -> Tensor:
        """The part of the loss that the rows of this process contribute, without the offset; see ``reduced``."""
        table, n, size = self._table(inputs), self.shards.n, self.settings.batch_size
        if self._is_due():
            self._refresh_pull(inputs, rng)
        assert self.pull is not None
        all_rows = torch.arange(n, device=table.device)
        rows = torch.randint(n, (size,), generator=rng, device=table.device) if size < n else all_rows
        here = self.shards.owns(rows)
        drawn = self._drawn_for_dropout(inputs, rows, here, rng) if self.settings.dropout else None
        own = rows[here] - self.shards.begin
        if len(own) == 0:
            return torch.zeros((), device=table.device, requires_grad=True)
        batch = table.rows(own, self.settings.dropout, drawn=drawn)
        z = self.predictor(self.encoder(Propagated(batch, inputs.adjacency)))
        return -2 / len(rows) * (F.normalize(z) * self.pull.rows[own]).sum()

    def _drawn_for_dropout(self, inputs: BatchInputs, rows: Tensor, here: Tensor, rng: torch.Generator) -> Tensor:
        """The random numbers of the own rows, from those that every process draws for the whole batch."""
        table = self._table(inputs)
        if table.sparse is None:
            drawn = torch.rand(len(rows), table.shape[1], generator=rng, device=table.device)
            return drawn[here]
        if "lengths" not in inputs.computed:
            own = torch.from_numpy(table.sparse.indptr).diff()
            inputs.computed["lengths"] = self.shards.gather(own)  # [n] entries of each row
        lengths = inputs.computed["lengths"][rows]
        drawn = torch.rand(int(lengths.sum()), generator=rng)
        return drawn[torch.repeat_interleave(here, lengths)]

    @torch.no_grad()
    def reduced(self, loss: Tensor) -> Tensor:
        learned = [parameter for parameter in self.parameters() if parameter.requires_grad]
        parts = [torch.zeros_like(one) if one.grad is None else one.grad for one in learned]
        total = self.shards.sum(torch.cat([*(part.flatten() for part in parts), loss.detach().view(1)]))
        *gradients, value = total.split([*(part.numel() for part in parts), 1])
        for parameter, gradient in zip(learned, gradients, strict=True):
            parameter.grad = gradient.view(parameter.shape)
        assert self.pull is not None
        return self.pull.offset + value[0]

    @torch.no_grad()
    def _refresh_pull(self, inputs: BatchInputs, rng: torch.Generator) -> None:
        assert isinstance(inputs, ShardedInputs)
        assert inputs.self_weights is not None
        rows = self.search.initial_rows(self.shards.n, rng)
        t, h = self._encode_all(self.target, inputs), self._encode_all(self.encoder, inputs)
        labels = self._cluster(F.normalize(t), rows)
        pairs = self.find_pairs(h, t, inputs.edges, labels).compact()
        self.counts = self.shards.sum(count_pairs(pairs))
        new = sharded_pull(t, pairs.src, pairs.dst, self.shards, over=self.settings.loss_over)
        if weight := self.settings.neighbor_weight:  # as in ``neighbor_mean``
            scale = inputs.self_weights.rsqrt().unsqueeze(1)
            mean = F.normalize(inputs.adjacency @ (scale * F.normalize(t)))
            new.rows.add_(2 * weight * mean).div_(1 + weight)
        self.pull = new

    def _cluster(self, t: Tensor, rows: Tensor | None) -> Tensor | None:
        """The cluster of every node of all processes in each k-means run: [m, n]."""
        settings, shards = self.settings, self.shards
        if not settings.needs_clusters:
            return None
        sample = kmeans_rows(shards.n, settings)
        centers = self.search.centers
        if rows is not None:
            nodes = rows.flatten() * sample.step
            here = shards.owns(nodes)
            centers = shards.joined(t[nodes[here] - shards.begin], here).view(*rows.shape, -1)
        assert centers is not None
        self.search.centers = sharded_kmeans(t[shards.part_of(sample)], centers, settings.kmeans_iters, shards)
        small = torch.uint8 if settings.n_clusters <= 256 else torch.int32
        own = nearest_centers(t, self.search.centers).to(small)
        return shards.gather(own.T.contiguous()).T.contiguous()

    def find_pairs(self, h: Tensor, t: Tensor, edges: Tensor, labels: Tensor | None) -> Pairs:
        """The candidates of the nodes of this process, and which of them are positives."""
        settings, shards = self.settings, self.shards
        k = min(settings.n_neighbors, shards.n if settings.include_self else shards.n - 1)
        clusters = None
        if labels is not None and self.search.centers is not None and settings.searches_clusters(shards.n, h.device):
            h, t, centers = sharded_leading_directions(h, t, self.search.centers[0], shards)
            clusters = sharded_fine_partition(t, shards) if shards.n > HUGE else Clustering(labels[0], centers)
        nearest = ring_neighbors(h, t, k, shards, "first" if settings.include_self else "drop", clusters)
        src = torch.arange(shards.begin, shards.end, device=h.device).repeat_interleave(k)
        return filter_pairs(src, nearest.flatten(), shards.n, edges, labels, settings.positives)

    def _gram(self, parts: Callable[[slice], Tensor], n: int) -> Tensor:
        sample = parts(self.shards.part_of(rows_to_fit(self.shards.n)))
        return gram_matrix(sample.split(CALIBRATION_ROWS), self.shards)

    @torch.no_grad()
    def sample(self, inputs: Inputs | BatchInputs, rows: Tensor) -> Tensor:
        """The same rows in every process."""
        assert isinstance(inputs, BatchInputs)
        here = self.shards.owns(rows)
        own = self._table(inputs).rows(rows[here] - self.shards.begin)
        none = torch.zeros(0, self.settings.encoder_width, device=self.device)
        return self.shards.joined(self.encoder(Propagated(own, inputs.adjacency)) if here.any() else none, here)

    def _is_due(self) -> bool:
        return self.pull is None or self.age >= self.settings.refresh_every

    def capture_key(self) -> str | None:
        return None  # how many rows of a batch are here changes from step to step

    def diagnostics(self) -> dict[str, float]:
        return {} if self.counts is None else describe_pairs(self.counts)

    def get_extra_state(self) -> dict[str, Any]:
        """``pull`` has the rows of this process; the pairs are not needed once it is computed."""
        pull = None if self.pull is None or self._is_due() else tuple(self.pull)
        return {"centers": self.search.centers, "pull": pull, "age": self.age, "counts": self.counts}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Also from a checkpoint of one process, whose pull has the rows of all nodes."""
        self.search.centers, self.age, self.counts = state["centers"], state["age"], state.get("counts")
        self.pull = None if state["pull"] is None else Pull(*state["pull"])
        if self.pull is not None and len(self.pull.rows) > self.shards.n_own:
            self.pull = Pull(self.pull.rows[self.shards.begin : self.shards.end].clone(), self.pull.offset)


class SampledRows:
    """Some rows of the encoder's input, from all processes. It supports ``rows @ weights`` only."""

    def __init__(self, table: RowTable, rows: Tensor, shards: Shards) -> None:
        self.here, self.shards = shards.owns(rows), shards
        self.own = table.rows(rows[self.here] - shards.begin)
        self.shape = len(rows), table.shape[1]

    def __matmul__(self, weight: Tensor) -> Tensor:
        own = self.own @ weight if self.here.any() else weight.new_zeros(0, weight.shape[1])
        return self.shards.joined(own, self.here)
