"""Neural networks: encoders, the predictor, and the EMA update of a target network."""

from afgrl.nn.ema import Progress, Schedule, ema_decay, ema_update
from afgrl.nn.encoder import Encoder, Predictor, calibrate
from afgrl.nn.gcn import GCN, GCNInputs, gcn_inputs
from afgrl.nn.layers import (
    MLP,
    Activation,
    BatchNorm,
    FrozenBatchNorm,
    Normalization,
    activation_layer,
    dropout,
    linear_parameters,
    norm_layer,
    padded_matmul,
    weight_matrix,
)

__all__ = [
    "GCN",
    "MLP",
    "Activation",
    "BatchNorm",
    "Encoder",
    "FrozenBatchNorm",
    "GCNInputs",
    "Normalization",
    "Predictor",
    "Progress",
    "Schedule",
    "activation_layer",
    "calibrate",
    "dropout",
    "ema_decay",
    "ema_update",
    "gcn_inputs",
    "linear_parameters",
    "norm_layer",
    "padded_matmul",
    "weight_matrix",
]
