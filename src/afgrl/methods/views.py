"""Two views of a graph, each without some edges and some features: what BGRL, GRACE and GCA compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from afgrl.augment import kept
from afgrl.config import Settings
from afgrl.graph import Graph
from afgrl.nn import GCN, GCNInputs, gcn_inputs
from afgrl.ops import gcn_weights

Drops = tuple[Tensor, Tensor]  # chances: [e] for each entry of the links, [f] for each feature


class ViewSettings(Settings):
    """What the methods of two views have in common."""

    n_components: int = Field(256, ge=1, description="width of the embedding (D)")
    hidden_width: int = Field(512, ge=1, description="width of the encoder's first layer")
    row_sums: bool = Field(True, description="scale each node's features to the sum 1")
    drop_edges_1: float = Field(0.3, ge=0, le=1, description="share of edges that the first view lacks")
    drop_edges_2: float = Field(0.2, ge=0, le=1, description="share of edges that the second view lacks")
    drop_features_1: float = Field(0.2, ge=0, le=1, description="share of features that the first view lacks")
    drop_features_2: float = Field(0.1, ge=0, le=1, description="share of features that the second view lacks")


@dataclass(frozen=True, eq=False)
class ViewInputs:
    gcn: GCNInputs
    drops: tuple[Drops, Drops]  # of the two views

    def encoded(self, encoders: list[GCN], rng: torch.Generator) -> Iterator[list[Tensor]]:
        """For each view, drawn anew, the vectors that each of the encoders gives it."""
        for edges, features in self.drops:
            weight, chosen = gcn_weights(self.gcn.links, kept(edges, rng)), kept(features, rng)
            yield [encoder(self.gcn, weight, chosen) for encoder in encoders]


def uniform_views(graph: Graph, config: ViewSettings) -> ViewInputs:
    """Views that lack every edge, and every feature, with the same chance."""
    gcn = gcn_inputs(graph, to_sum_one=config.row_sums)
    real, ones = (~gcn.links.is_loop).to(torch.float32), torch.ones(graph.n_features, device=graph.x.device)
    return ViewInputs(
        gcn,
        (
            (config.drop_edges_1 * real, config.drop_features_1 * ones),
            (config.drop_edges_2 * real, config.drop_features_2 * ones),
        ),
    )
