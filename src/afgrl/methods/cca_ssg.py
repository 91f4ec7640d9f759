"""CCA-SSG: two augmented views of a node agree, and the columns of the embedding are uncorrelated
(Zhang et al., From Canonical Correlation Analysis to Self-supervised Graph Neural Networks, NeurIPS 2021).

With the standardized outputs Z₁ and Z₂ of both views, the loss is
-tr(Z₁ᵀZ₂)/n + λ (‖Z₁ᵀZ₁/n - I‖² + ‖Z₂ᵀZ₂/n - I‖²).

Complexity per step, for edges e and hidden_width w: O(n·f·w + n·w·d) for the layers, O(e·(w + d)) for the messages and
O(n·d²) for the correlations. Memory: O(n·(f + w + d) + d²).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from afgrl.graph import Graph
from afgrl.methods.base import Method, Size
from afgrl.methods.parts.views import ViewInputs, ViewSettings, uniform_views
from afgrl.nn import GCN, BatchNorm, GCNInputs, linear_parameters, padded_matmul

SMALLEST_VARIANCE = 1e-12  # a column can be constant, for example if all features are 0


class CCASSGSettings(ViewSettings):
    """The defaults are one setting for all graphs: the median of each of the authors' settings over their graphs."""

    epochs: int = Field(50, ge=0, description="passes over the graph; the vectors get worse with many more")
    weight_decay: float = Field(0.0, ge=0, description="L2 regularization of Adam, applied to every parameter")
    n_components: int = Field(512, ge=1, description="width of the embedding (D)")
    drop_edges_1: float = Field(0.4, ge=0, le=1, description="drop probability of edges in the first view")
    drop_edges_2: float = Field(0.4, ge=0, le=1, description="drop probability of edges in the second view")
    drop_features_2: float = Field(0.2, ge=0, le=1, description="drop probability of features in the second view")
    encoder: Literal["gcn", "mlp"] = Field("gcn", description="mlp: layers without messages, with batch normalization")
    n_layers: int = Field(2, ge=1, le=2, description="layers of the GCN (L); an MLP has two")
    decorrelation: float = Field(1e-3, ge=0, description="weight of the correlations between columns (λ)")


class CCASSGMethod(Method):
    name = "cca_ssg"
    capturable = True
    settings_class = CCASSGSettings
    settings: CCASSGSettings
    decoupled_decay = False

    def __init__(self, settings: CCASSGSettings, size: Size, rng: torch.Generator) -> None:
        super().__init__(settings, size, rng)
        widths = [size.n_features, settings.hidden_width, settings.n_components]
        self.encoder: nn.Module
        if settings.encoder == "mlp":
            self.encoder = FeatureMLP(size.n_features, settings.hidden_width, settings.n_components, rng)
        else:
            del widths[1 : 3 - settings.n_layers]
            gcn = GCN(widths, "relu", "none", rng, linear_output=True)
            gcn.biases[-1].requires_grad_(False)  # stays 0: the loss would subtract any other value
            self.encoder = gcn

    @classmethod
    def reads(cls, settings: Any) -> frozenset[str]:
        return frozenset({"features"}) if settings.encoder == "mlp" else super().reads(settings)

    def prepare(self, graph: Graph) -> ViewInputs:
        return uniform_views(graph, self.settings)

    def loss(self, inputs: ViewInputs, rng: torch.Generator) -> Tensor:
        z1, z2 = (standardized(h) for (h,) in inputs.encoded([self.encoder], rng))
        n = z1.shape[0]
        correlated = sum(excess_correlation(z) for z in (z1, z2))
        return -(z1 * z2).sum() / n + self.settings.decorrelation * correlated

    def encode(self, inputs: ViewInputs) -> Tensor:
        h: Tensor = self.encoder(inputs.gcn)
        return h


class FeatureMLP(nn.Module):
    """Linear, batch normalization, ReLU, linear; called like a GCN, of whose inputs it reads the features only.

    It has no biases: the normalization and the loss would subtract them.
    """

    def __init__(self, n_in: int, hidden: int, n_out: int, rng: torch.Generator) -> None:
        super().__init__()
        self.weight_in, _ = linear_parameters(n_in, hidden, rng)
        self.weight_out, _ = linear_parameters(hidden, n_out, rng)
        self.norm = BatchNorm(hidden)

    def forward(self, inputs: GCNInputs, values: Tensor | None = None, feature_mask: Tensor | None = None) -> Tensor:
        weight = self.weight_in if feature_mask is None else feature_mask.unsqueeze(1) * self.weight_in
        hidden: Tensor = self.norm(padded_matmul(inputs.x, weight))
        return hidden.relu() @ self.weight_out


def standardized(h: Tensor) -> Tensor:
    """Columns with mean 0 and standard deviation 1: [n, d]."""
    variance = h.var(0, correction=1 if len(h) > 1 else 0)
    return (h - h.mean(0)) * (variance + SMALLEST_VARIANCE).rsqrt()


def excess_correlation(z: Tensor) -> Tensor:
    """‖ZᵀZ/n - I‖²: []."""
    correlation = z.T @ z / len(z)
    return (correlation - torch.eye(z.shape[1], device=z.device)).square().sum()
