"""Linear probes: how well a linear classifier predicts the classes from an embedding; one probe per protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.amounts import counted
from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits
from afgrl.errors import UserError
from afgrl.evaluate.lbfgs import MEMORY
from afgrl.evaluate.logistic import TOLERANCE, fit_logistic
from afgrl.evaluate.matrix import blockwise_product, check_inputs, take_rows
from afgrl.ops.sparse.rows import unit_rows

STRENGTHS = tuple(4.0**power for power in range(9))  # scikit-learn's C: a larger value regularizes less
CHUNK_BYTES = 1 << 30  # memory for the splits that are fitted together


def logistic_probe(
    embedding: Any, y: Any, splits: Splits, strengths: Sequence[float] = STRENGTHS, *, tolerance: float = TOLERANCE
) -> list[float]:
    """Test accuracy per split, in percent, of an L2-regularized logistic regression on unit rows.

    The regression is fitted until no entry of the gradient exceeds ``tolerance``. Its strength is the one with the
    highest validation accuracy; of several, the smallest C, which regularizes most.
    """
    x, classes = check_inputs(embedding, y)
    roles = _check_roles(splits, x.shape[0])
    x = unit_rows(x)
    ascending = torch.tensor(sorted(strengths), dtype=torch.float64, device=x.device)
    n_outputs = len(strengths) * (int(classes.max()) + 1)
    test: list[float] = []
    for chunk in _chunks(roles, _logistic_bytes(x, roles, n_outputs)):
        index, mask = _training_rows(chunk, x.device)
        weight, bias = fit_logistic(x, classes, index, mask, ascending, tolerance)
        accuracy = _accuracies(x, classes, weight, bias, chunk)
        best = accuracy.validation.argmax(1, keepdim=True)  # argmax returns the first maximum: the smallest C
        test += accuracy.test.gather(1, best).squeeze(1).tolist()
    return test


def adam_probe(embedding: Any, y: Any, splits: Splits, generator: torch.Generator) -> tuple[list[float], list[float]]:
    """Validation and test accuracy per split, in percent, of the paper's probe on the embedding as it is.

    The probe is a linear layer with Xavier-uniform weights, trained by 100 full-batch steps of Adam. Adam updates each
    entry independently, so the layers of all splits are one parameter.
    """
    x, classes = check_inputs(embedding, y)
    roles = _check_roles(splits, x.shape[0])
    d, c = x.shape[1], int(classes.max()) + 1
    bound = math.sqrt(6 / (d + c))
    initial = torch.empty(len(roles), d, c, dtype=x.dtype, device=x.device)
    initial.uniform_(-bound, bound, generator=generator)
    most = (roles == TRAIN).sum(1).max()
    validation: list[float] = []
    test: list[float] = []
    for chunk in _chunks(roles, 4 * (2 * most * d + 3 * most * c + 5 * d * c)):
        index, mask = _training_rows(chunk, x.device)
        own_initial = initial[len(test) : len(test) + len(chunk)]
        weight, bias = _train_with_adam(take_rows(x, index), classes[index], mask, own_initial)
        accuracy = _accuracies(x, classes, weight.unsqueeze(1), bias, chunk)
        validation += accuracy.validation.squeeze(1).tolist()
        test += accuracy.test.squeeze(1).tolist()
    return validation, test


def prediction_accuracies(predicted: Any, y: Any, splits: Splits) -> list[float]:
    """Test accuracy per split, in percent, of predicted classes [s, n]."""
    correct, test = np.asarray(predicted) == np.asarray(y), splits.roles == TEST
    return [float(100 * row[nodes].mean()) for row, nodes in zip(correct, test, strict=True)]


def _train_with_adam(features: Tensor, y: Tensor, mask: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [s, d, c] and biases [s, 1, c] after the paper's 100 steps."""
    share = (mask / mask.sum(1, keepdim=True)).to(features.dtype).unsqueeze(2)  # [s, m, 1] weight in the mean loss
    target = F.one_hot(y, initial.shape[2]).to(features.dtype)  # [s, m, c]
    weight, bias = initial.clone(), torch.zeros_like(initial[:, :1])
    optimizer = torch.optim.Adam([weight, bias], lr=0.01, weight_decay=1e-5)
    for _ in range(100):
        logits = torch.baddbmm(bias, features, weight)
        # The gradient is computed by hand because autograd is off if the caller evaluates in inference mode.
        error = (logits.softmax(2) - target) * share
        weight.grad, bias.grad = features.mT @ error, error.sum(1, keepdim=True)
        optimizer.step()
    return weight, bias


class Accuracies(NamedTuple):
    validation: Tensor  # [s, g] percent
    test: Tensor  # [s, g] percent


def _accuracies(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, roles: np.ndarray) -> Accuracies:
    """Accuracies of the classifiers with weights [s, g, d, c] and biases [s, g, c], each on its own split."""
    s, g, d, c = weight.shape
    role = torch.from_numpy(roles.T.copy()).to(x.device).unsqueeze(2)  # [n, s, 1]
    hits = torch.zeros(2, s, g, dtype=torch.int64, device=x.device)
    for block, product in blockwise_product(x, weight.permute(2, 0, 1, 3).reshape(d, s * g * c)):
        predicted = (product.view(-1, s, g, c) + bias).argmax(-1)  # [b, s, g]
        correct = predicted == y[block, None, None]
        hits[0] += (correct & (role[block] == VALIDATION)).sum(0)
        hits[1] += (correct & (role[block] == TEST)).sum(0)
    sizes = [(role == part).sum(0) for part in (VALIDATION, TEST)]  # each [s, 1]
    return Accuracies(*(100 * hit.double() / size for hit, size in zip(hits, sizes, strict=True)))


def _check_roles(splits: Splits, n: int) -> np.ndarray:
    roles = splits.roles
    if roles.ndim != 2 or roles.shape[1] != n:
        raise UserError(f"The splits are for {roles.shape[-1]} nodes, but the embedding has {counted(n, 'row')}.")
    if len(roles) == 0:
        raise UserError("Evaluation needs at least one split, but there is none.")
    for name, part in (("training", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        empty = np.flatnonzero(~(roles == part).any(1))
        if len(empty):
            raise UserError(f"Split {empty[0]} has no {name} nodes; each of its three parts needs at least one.")
    return roles


def _training_rows(roles: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """The training nodes of each split, [s, m], and a mask of the valid entries; shorter splits are padded with 0."""
    parts = [np.flatnonzero(row == TRAIN) for row in roles]
    index = np.zeros((len(parts), max(len(part) for part in parts)), dtype=np.int64)
    mask = np.zeros(index.shape, dtype=bool)
    for i, part in enumerate(parts):
        index[i, : len(part)], mask[i, : len(part)] = part, True
    return torch.from_numpy(index).to(device), torch.from_numpy(mask).to(device)


def _chunks(roles: np.ndarray, bytes_per_split: int) -> Iterator[np.ndarray]:
    size = max(1, CHUNK_BYTES // int(bytes_per_split))
    for start in range(0, len(roles), size):
        yield roles[start : start + size]


def _logistic_bytes(x: Tensor, roles: np.ndarray, n_outputs: int) -> int:
    """Memory per split: features (and their float64 factor), logits, L-BFGS correction pairs, weights."""
    most, d = int((roles == TRAIN).sum(1).max()), x.shape[1]
    r = min(d, most)
    features = most * r if d <= most else 4 * most * r + 2 * most * d
    floats = features + 5 * most * n_outputs + (2 * MEMORY + 6) * r * n_outputs + 4 * d * n_outputs
    return x.element_size() * floats
