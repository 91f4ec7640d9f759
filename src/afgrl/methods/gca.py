"""GCA: GRACE with views that keep what matters, edges and features of central nodes
(Zhu et al., Graph Contrastive Learning with Adaptive Augmentation, WWW 2021).

Costs as GRACE, and a centrality once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field

from afgrl.augment import Centrality, drop_probabilities, edge_weights, feature_weights
from afgrl.graph import Graph
from afgrl.methods.grace import GRACEConfig, GRACEMethod
from afgrl.methods.views import Drops, ViewInputs, uniform_views
from afgrl.ops import edge_places


class GCAConfig(GRACEConfig):
    centrality: Centrality = Field("degree", description="what makes a node, its edges and its features matter")
    threshold: float = Field(0.7, ge=0, le=1, description="no edge or feature is dropped more often")


class GCAMethod(GRACEMethod):
    name = "gca"
    Config = GCAConfig
    config: GCAConfig

    def prepare(self, graph: Graph) -> ViewInputs:
        uniform, config = uniform_views(graph, self.config), self.config
        place = edge_places(uniform.gcn.links, graph)
        edges, features = edge_weights(graph, config.centrality), feature_weights(graph, config.centrality)

        def drops(edge_rate: float, feature_rate: float) -> Drops:
            chance = torch.cat([drop_probabilities(edges, edge_rate, config.threshold), edges.new_zeros(1)])
            return chance[place], drop_probabilities(features, feature_rate, config.threshold)  # a loop is place -1

        first = drops(config.drop_edges_1, config.drop_features_1)
        return replace(uniform, drops=(first, drops(config.drop_edges_2, config.drop_features_2)))
