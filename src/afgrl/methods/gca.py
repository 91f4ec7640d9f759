"""GCA: GRACE whose views preferably keep the edges and features of central nodes
(Zhu et al., Graph Contrastive Learning with Adaptive Augmentation, WWW 2021).

Complexity: that of GRACE, and one centrality computation before training.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field

from afgrl.graph import Graph
from afgrl.methods.grace import GRACEMethod, GRACESettings
from afgrl.methods.parts.augmentations import Centrality, drop_probabilities, edge_drop_weights, feature_drop_weights
from afgrl.methods.parts.views import Drops, ViewInputs, uniform_views
from afgrl.ops.propagation.adjacency import edge_numbers


class GCASettings(GRACESettings):
    centrality: Centrality = Field("degree", description="importance of a node, and thereby of its edges and features")
    threshold: float = Field(0.7, ge=0, le=1, description="highest drop probability of an edge or feature")


class GCAMethod(GRACEMethod):
    name = "gca"
    settings_class = GCASettings
    settings: GCASettings

    def prepare(self, graph: Graph) -> ViewInputs:
        uniform, settings = uniform_views(graph, self.settings), self.settings
        number = edge_numbers(uniform.gcn.adjacency, graph)
        edges = edge_drop_weights(graph, settings.centrality)
        features = feature_drop_weights(graph, settings.centrality)

        def drops(edge_rate: float, feature_rate: float) -> Drops:
            # The 0 at the end is the drop probability of self-loops, whose number is -1.
            of_edges = torch.cat([drop_probabilities(edges, edge_rate, settings.threshold), edges.new_zeros(1)])
            return of_edges[number], drop_probabilities(features, feature_rate, settings.threshold)

        first = drops(settings.drop_edges_1, settings.drop_features_1)
        return replace(uniform, drops=(first, drops(settings.drop_edges_2, settings.drop_features_2)))
