"""NS4GC: two augmented views agree on nodes and on edges, and all other pairs stay below a threshold of similarity
(Reliable Node Similarity Matrix Guided Contrastive Graph Clustering, TKDE 2024).

With the similarities s of unit vectors across the two views, the loss is the mean of -s over the nodes, plus that over
the edges, plus the mean of σ((s - threshold) / temperature) over all pairs that are neither.

Complexity per step, for edges e and hidden_width w: O(n·f·w + n·w·d) for the layers, O(e·(w + d)) for the messages and
the edges, and O(n²·d) for all pairs. Memory: O(n·(f + w + d)); the n² similarities are computed in blocks.
"""

from __future__ import annotations

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


class NS4GCSettings(ViewSettings):
    """The defaults are one setting for all graphs: the median of each of the authors' settings over their graphs."""

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
        # All pairs of two nodes, less the edges.
        penalty = SoftThreshold(settings.threshold, settings.temperature)
        everywhere = pair_sum(z1, z2, z1.new_ones(n), penalty)
        n_others = max(1, n * (n - 1) - (adjacency.nnz - n))
        others = (everywhere - penalty.value(similarity).masked_fill(loop, 0).sum()) / n_others
        return -(z1 * z2).sum() / n + settings.edge_weight * on_edges + settings.pair_weight * others

    def encode(self, inputs: ViewInputs) -> Tensor:
        return F.normalize(self.encoder(inputs.gcn))
