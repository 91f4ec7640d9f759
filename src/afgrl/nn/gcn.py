"""The GCN of the compared methods, which passes messages at every layer and every step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from afgrl.graph import Graph
from afgrl.nn.layers import Activation, Normalization, activation_layer, norm_layer, padded_matmul, weight_matrix
from afgrl.ops.propagation import layer_input
from afgrl.ops.propagation.adjacency import gcn_adjacency, gcn_values
from afgrl.ops.sparse import spmm
from afgrl.ops.sparse.cpu import FactoredTable
from afgrl.ops.sparse.matrix import SparseMatrix


class GCNInputs(NamedTuple):
    """The inputs of a GCN: features and the normalized adjacency S = D^-1/2 (A + I) D^-1/2."""

    x: Tensor | FactoredTable  # [n, f]
    adjacency: SparseMatrix  # [n, n] A + I
    values: Tensor  # [e] the values of S


def gcn_inputs(graph: Graph, *, to_sum_one: bool) -> GCNInputs:
    """``to_sum_one`` scales each row of the features to the sum 1."""
    adjacency = gcn_adjacency(graph)
    return GCNInputs(layer_input(graph, to_sum_one=to_sum_one), adjacency, gcn_values(adjacency))


class GCN(nn.Module):
    """GCN layers ``activation(norm(S(XW) + b))``; the values of S can differ from call to call."""

    def __init__(
        self,
        widths: Sequence[int],
        activation: Activation | Literal["selu"],
        normalization: Normalization,
        rng: torch.Generator,
        *,
        linear_output: bool = False,
    ) -> None:
        """``linear_output`` leaves out the activation of the last layer."""
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(weight_matrix(n_in, n_out, rng) for n_in, n_out in pairs)
        # Batch normalization would subtract any bias.
        biased = pairs if normalization != "batch" else []
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n_out)) for _, n_out in biased)
        self.norms = nn.ModuleList(norm_layer(normalization, n_out, momentum=0.01) for _, n_out in pairs)
        self.activations = nn.ModuleList(activation_layer(activation) for _ in pairs)
        if linear_output:
            self.activations[-1] = nn.Identity()

    def forward(self, inputs: GCNInputs, values: Tensor | None = None, feature_mask: Tensor | None = None) -> Tensor:
        """``values`` [e] replaces those of S; ``feature_mask`` [f] is 0 for features to ignore, otherwise 1."""
        h: Tensor | FactoredTable = inputs.x
        values = inputs.values if values is None else values
        for depth, matrix in enumerate(self.weights):
            # Masking a feature of all nodes equals masking a row of the first weight matrix.
            masked = matrix if feature_mask is None or depth else feature_mask.unsqueeze(1) * matrix
            h = self.activate(depth, spmm(inputs.adjacency, padded_matmul(h, masked), values))
        assert isinstance(h, Tensor)
        return h

    def activate(self, depth: int, h: Tensor) -> Tensor:
        """Bias, normalization and activation of a layer, after its messages."""
        activated: Tensor = self.activations[depth](self.norms[depth](h + self.biases[depth] if self.biases else h))
        return activated
