"""Two augmented views of a graph, each with some edges and features dropped, for BGRL, GRACE, GCA and others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.config import EpochSettings
from afgrl.graph import Graph
from afgrl.methods.parts.augmentations import keep_mask
from afgrl.nn import GCNInputs, gcn_inputs
from afgrl.ops.propagation.adjacency import gcn_values

Drops = tuple[Tensor, Tensor]  # drop probabilities of one view: [e] of the adjacency, [f] of the features


class ViewSettings(EpochSettings):
    """Settings that the methods with two views share."""

    n_components: int = Field(256, ge=1, description="width of the embedding (D)")
    hidden_width: int = Field(512, ge=1, description="width of the encoder's first layer")
    row_sums: bool = Field(True, description="scale the features of each node to the sum 1")
    drop_edges_1: float = Field(0.3, ge=0, le=1, description="drop probability of edges in the first view")
    drop_edges_2: float = Field(0.2, ge=0, le=1, description="drop probability of edges in the second view")
    drop_features_1: float = Field(0.2, ge=0, le=1, description="drop probability of features in the first view")
    drop_features_2: float = Field(0.1, ge=0, le=1, description="drop probability of features in the second view")


@dataclass(frozen=True, eq=False)
class ViewInputs:
    gcn: GCNInputs
    drops: tuple[Drops, Drops]  # one per view

    def encoded(self, encoders: Sequence[nn.Module], rng: torch.Generator) -> Iterator[list[Tensor]]:
        """Draws two new views, and yields for each the outputs of all ``encoders``, which are called like a GCN."""
        for edges, features in self.drops:
            values, feature_mask = gcn_values(self.gcn.adjacency, keep_mask(edges, rng)), keep_mask(features, rng)
            yield [encoder(self.gcn, values, feature_mask) for encoder in encoders]


def uniform_views(graph: Graph, settings: ViewSettings) -> ViewInputs:
    """Views with the same drop probability for every edge, and for every feature; self-loops are kept."""
    gcn = gcn_inputs(graph, to_sum_one=settings.row_sums)
    edges = (~gcn.adjacency.on_diagonal).to(torch.float32)
    features = torch.ones(graph.n_features, device=graph.x.device)
    return ViewInputs(
        gcn,
        (
            (settings.drop_edges_1 * edges, settings.drop_features_1 * features),
            (settings.drop_edges_2 * edges, settings.drop_features_2 * features),
        ),
    )
