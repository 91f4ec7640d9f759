"""NS4GC: two augmented views agree on nodes and on edges, and all other pairs stay below a threshold of similarity
(Reliable Node Similarity Matrix Guided Contrastive Graph Clustering, TKDE 2024).

With the similarities s of unit vectors across the two views, the loss is the mean of -s over the nodes, plus that over
the edges, plus the mean of σ((s - threshold) / temperature) over all pairs that are neither.

On large graphs, a step compares all nodes with some random nodes instead of all.

Complexity per step, for edges e and hidden_width w: O(n·f·w + n·w·d) for the layers, O(e·(w + d)) for the messages and
the edges, and O(n·m·d) for the pairs with m = n_negatives, or n if that is 0. Memory: O(n·(f + w + d)); the
similarities are computed in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN
from afgrl.ops.pair_sums import SoftThreshold, pair_sum
from afgrl.ops.sparse.edges import edge_products

MOST_IN_FULL, SAMPLED = 200_000, 1024  # nodes up to which all pairs are compared, and random nodes per step beyond


class NS4GCSettings(ViewSettings):
    """The defaults are one setting for all graphs: the median of each of the authors' settings over their graphs. Their
    graphs have at most 19,717 nodes and need no random nodes."""

    epochs: int = Field(200, ge=0, description="passes over the graph")
    hidden_width: int = Field(256, ge=1, description="width of the encoder's first layer")
    n_components: int = Field(128, ge=1, description="width of the embedding (D)")
    n_layers: int = Field(2, ge=1, le=2, description="layers of the GCN (L)")
    drop_edges_1: float = Field(0.3, ge=0, le=1, description="drop probability of edges in the first view")
    drop_edges_2: float = Field(0.6, ge=0, le=1, description="drop probability of edges in the second view")
    drop_features_1: float = Field(0.0, ge=0, le=1, description="drop probability of features in the first view")
    drop_features_2: float = Field(0.1, ge=0, le=1, description="drop probability of features in the second view")
    edge_weight: float = Field(1.0, ge=0, description="weight of the term of edges in the loss (λ)")
    pair_weight: float = Field(1.0, ge=0, description="weight of all other pairs in the loss (γ)")
    threshold: float = Field(0.6, ge=-1, le=1, description="similarity above which another pair is pushed apart")
    temperature: float = Field(0.1, gt=0, description="width of the range around the threshold")
    n_negatives: int = Field(
        ge=0,
        description="random nodes per step that all nodes are compared with; 0: all nodes; "
        f"by default 0 up to {MOST_IN_FULL:,} nodes, and {SAMPLED:,} beyond",
    )

    @classmethod
    def graph_defaults(cls, graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"n_negatives": SAMPLED if graph.n > MOST_IN_FULL else 0}


class NS4GCMethod(Method):
    name = "ns4gc"
    capturable = True
    settings_class = NS4GCSettings
    settings: NS4GCSettings
    decoupled_decay = False

    def __init__(self, settings: NS4GCSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        widths = [size.n_features, settings.hidden_width, settings.n_components]
        del widths[1 : 3 - settings.n_layers]
        self.encoder = GCN(widths, "selu", "none", rng, linear_output=True)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.settings)

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        z1, z2 = (F.normalize(h) for (h,) in inputs.encoded([self.encoder], rng))
        settings, adjacency, n = self.settings, inputs.gcn.adjacency, z1.shape[0]
        loop, weight = adjacency.on_diagonal, adjacency.explicit_values
        weight = weight.masked_fill(loop, 0)
        similarity = edge_products(adjacency, z1, z2)
        on_edges = -(weight * similarity).sum() / weight.sum().clamp(min=1)
        # All pairs of a node with another one that was drawn, less the edges.
        penalty, once = SoftThreshold(settings.threshold, settings.temperature), z1.new_ones(n)
        if settings.n_negatives:
            drawn = torch.randint(n, (settings.n_negatives,), generator=rng, device=rng.device)
            everywhere = pair_sum(z1, z2[drawn], once, penalty, drawn)
            times_drawn = torch.zeros_like(once).index_add_(0, drawn, once.new_ones(len(drawn)))  # [n]
        else:
            everywhere, times_drawn = pair_sum(z1, z2, once, penalty), once
        counted = times_drawn[adjacency.indices].masked_fill(loop, 0)  # [e] how often the sum has the pair of an edge
        n_others = ((n - 1) * times_drawn.sum() - counted.sum()).clamp(min=1)
        others = (everywhere - (counted * penalty.value(similarity)).sum()) / n_others
        return -(z1 * z2).sum() / n + settings.edge_weight * on_edges + settings.pair_weight * others

    def encode(self, inputs: ViewInputs) -> Tensor:
        return F.normalize(self.encoder(inputs.gcn))
