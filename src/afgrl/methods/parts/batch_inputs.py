"""The graph as the default embedding sees it, and the vectors without training that its embedding contains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.graph.mapped import MappedGraph
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.methods.parts.positives import edge_keys
from afgrl.methods.parts.spectral import HUGE, SpectralFeatures
from afgrl.ops.collectives import Shards
from afgrl.ops.propagation import row_table
from afgrl.ops.propagation.adjacency import Adjacency, own_adjacency
from afgrl.ops.propagation.columns import pagerank_average
from afgrl.ops.sparse.batches import RowTable
from afgrl.ops.sparse.rows import own_rows
from afgrl.ops.storage import filled_like, row_blocks, unit_table

SVD_WIDTH, HUGE_SVD_WIDTH = 1024, 256  # columns of the input "svd"
SVD_LENGTH = 20.0  # of its rows: as long as four blocks of a multi-hop input


def svd_width(n_nodes: int) -> int:
    """Columns of the input "svd", if the features have as many directions."""
    return SVD_WIDTH if n_nodes <= HUGE else HUGE_SVD_WIDTH


@dataclass(eq=False)
class BatchInputs:
    """The rows of a process of every table. Those that depend on fitted projections are computed when first used."""

    settings: NodeEmbedderSettings
    shards: Shards
    x: Tensor  # [n_own, f] dense or CSR
    adjacency: Adjacency  # [n_own, n]: S
    edges: Tensor  # [e] int64, from positives.edge_keys
    spectral: SpectralFeatures | None
    svd_width: int

    @classmethod
    def of(
        cls, graph: Graph | MappedGraph, settings: NodeEmbedderSettings, shards: Shards,
        spectral: SpectralFeatures | None, svd_width: int, device: torch.device,
    ) -> BatchInputs:  # fmt: skip
        """From the whole graph; of several processes, each reads its own rows and moves them to its device."""
        x, edges = own_rows(graph.x, shards).to(device), edge_keys(graph, shards).to(device)
        inputs = cls(settings, shards, x, own_adjacency(graph, shards, device), edges, spectral, svd_width)
        if settings.input != "svd":
            n_hops = settings.n_hops if settings.input == "features" else None
            inputs.table = row_table(x, inputs.adjacency, n_hops, shards)
        return inputs

    def fit(self) -> None:
        """Fit the principal directions to this graph."""
        if self.spectral is not None and self.settings.input == "svd":
            self.directions = self.spectral.fit_transform(self.x, self.adjacency, self.shards)
        elif self.spectral is not None:
            self.spectral.fit(self.x, self.adjacency, self.shards)

    @cached_property
    def table(self) -> RowTable:
        """The input of the encoder."""
        v = self.directions
        if len(v) > HUGE:  # the encoder's input has more columns than the embedding
            self.directions = filled_like(v[:, : self.settings.n_components], torch.clone)
        if len(v) > HUGE and v.shape[1] == self.svd_width:  # nothing else uses v, and two tables would take too much
            for rows in row_blocks(len(v), v.device):
                F.normalize(v[rows], out=v[rows]).mul_(SVD_LENGTH)
            return RowTable.of(v, self.shards)
        table = filled_like(v[:, : self.svd_width], lambda rows: F.normalize(rows).mul_(SVD_LENGTH))
        return RowTable.of(table, self.shards)

    @cached_property
    def directions(self) -> Tensor:
        assert self.spectral is not None
        directions: Tensor = self.spectral(self.x, self.adjacency)
        return directions

    @cached_property
    def untrained(self) -> list[Tensor]:
        """The parts of the embedding that need no training, with unit rows: [n_own, d] each."""
        v = unit_table(self.directions[:, : self.settings.n_components])
        return [v] if self.settings.skip == "svd" else [v, unit_table(pagerank_average(v, self.adjacency))]
