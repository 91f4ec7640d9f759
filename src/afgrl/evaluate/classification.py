"""How well a linear classifier reads the classes off an embedding: two probes, one per protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits
from afgrl.errors import UserError
from afgrl.evaluate import logistic, rows
from afgrl.evaluate.lbfgs import MEMORY
from afgrl.ops import unit_rows

STRENGTHS = tuple(4.0**power for power in range(9))  # scikit-learn's C: larger means less regularized
CHUNK_BYTES = 1 << 30  # of everything that one chunk of splits needs


def logistic_probe(embedding: Any, y: Any, splits: Splits, strengths: Sequence[float] = STRENGTHS) -> list[float]:
    """Test accuracy per split, in percent, of a logistic regression fitted to convergence on unit rows.

    Its strength is the best on the validation part; among equals, the one that regularizes more.
    """
    x, classes = rows.checked(embedding, y)
    roles = _checked_roles(splits, x.shape[0])
    x = unit_rows(x)
    ordered = torch.tensor(sorted(strengths), dtype=torch.float64, device=x.device)
    n_outputs = len(strengths) * (int(classes.max()) + 1)
    values: list[float] = []
    for part in _chunks(roles, _logistic_bytes(x, roles, n_outputs)):
        index, mask = _training_rows(part, x.device)
        weight, bias = logistic.fit(x, classes, index, mask, ordered)
        accuracy = _accuracies(x, classes, weight, bias, part)
        best = accuracy.validation.argmax(1, keepdim=True)  # argmax gives the first, so the smallest C
        values += accuracy.test.gather(1, best).squeeze(1).tolist()
    return values


def adam_probe(embedding: Any, y: Any, splits: Splits, generator: torch.Generator) -> tuple[list[float], list[float]]:
    """Validation and test accuracy per split, in percent, of the paper's probe on the raw embedding.

    A linear layer, Xavier-uniform, 100 full-batch steps of Adam. Adam works entry by entry, so the layers of
    all splits are one parameter.
    """
    x, classes = rows.checked(embedding, y)
    roles = _checked_roles(splits, x.shape[0])
    d, c = x.shape[1], int(classes.max()) + 1
    bound = math.sqrt(6 / (d + c))
    start = torch.empty(len(roles), d, c, dtype=x.dtype, device=x.device)
    start.uniform_(-bound, bound, generator=generator)
    most = (roles == TRAIN).sum(1).max()
    validation: list[float] = []
    test: list[float] = []
    for part in _chunks(roles, 4 * (2 * most * d + 3 * most * c + 5 * d * c)):
        index, mask = _training_rows(part, x.device)
        weight, bias = _adam(rows.take(x, index), classes[index], mask, start[len(test) : len(test) + len(part)])
        accuracy = _accuracies(x, classes, weight.unsqueeze(1), bias, part)
        validation += accuracy.validation.squeeze(1).tolist()
        test += accuracy.test.squeeze(1).tolist()
    return validation, test


def prediction_accuracies(classes: Any, y: Any, splits: Splits) -> list[float]:
    """Test accuracy per split, in percent, of classes [s, n] that were predicted elsewhere."""
    right, test = np.asarray(classes) == np.asarray(y), splits.roles == TEST
    return [float(100 * row[part].mean()) for row, part in zip(right, test, strict=True)]


def _adam(features: Tensor, y: Tensor, mask: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Weights [s, d, c] and biases [s, 1, c] after the paper's 100 steps."""
    share = (mask / mask.sum(1, keepdim=True)).to(features.dtype).unsqueeze(2)  # [s, m, 1] in the split's mean
    target = F.one_hot(y, start.shape[2]).to(features.dtype)  # [s, m, c]
    weight, bias = start.clone(), torch.zeros_like(start[:, :1])
    optimizer = torch.optim.Adam([weight, bias], lr=0.01, weight_decay=1e-5)
    for _ in range(100):
        logits = torch.baddbmm(bias, features, weight)
        # The gradient by hand: there is no autograd where a caller evaluates in inference mode.
        error = (logits.softmax(2) - target) * share
        weight.grad, bias.grad = features.mT @ error, error.sum(1, keepdim=True)
        optimizer.step()
    return weight, bias


class Accuracies(NamedTuple):
    validation: Tensor  # [s, g] percent
    test: Tensor  # [s, g] percent


def _accuracies(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, roles: np.ndarray) -> Accuracies:
    """Of each classifier on its split: weights [s, g, d, c], biases [s, g, c]."""
    s, g, d, c = weight.shape
    part = torch.from_numpy(roles.T.copy()).to(x.device).unsqueeze(2)  # [n, s, 1]
    hits = torch.zeros(2, s, g, dtype=torch.int64, device=x.device)
    for block, product in rows.products(x, weight.permute(2, 0, 1, 3).reshape(d, s * g * c)):
        predicted = (product.view(-1, s, g, c) + bias).argmax(-1)  # [b, s, g]
        right = predicted == y[block, None, None]
        hits[0] += (right & (part[block] == VALIDATION)).sum(0)
        hits[1] += (right & (part[block] == TEST)).sum(0)
    sizes = [(part == role).sum(0) for role in (VALIDATION, TEST)]  # each [s, 1]
    return Accuracies(*(100 * hit.double() / size for hit, size in zip(hits, sizes, strict=True)))


def _checked_roles(splits: Splits, n: int) -> np.ndarray:
    roles = splits.roles
    if roles.ndim != 2 or roles.shape[1] != n:
        raise UserError(f"The splits are for {roles.shape[-1]} nodes, but the embedding has {n} rows.")
    if len(roles) == 0:
        raise UserError("There is no split to evaluate on.")
    for name, role in (("training", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        empty = np.flatnonzero(~(roles == role).any(1))
        if len(empty):
            raise UserError(f"Split {empty[0]} has no {name} nodes; each of its three parts needs at least one.")
    return roles


def _training_rows(roles: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor]:
    """The training nodes of each split, [s, m], and which entries are real: shorter splits end in row 0."""
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
    """What one split takes: features (and their float64 factor), logits, the pairs of L-BFGS, the weights."""
    most, d = int((roles == TRAIN).sum(1).max()), x.shape[1]
    r = min(d, most)
    features = most * r if d <= most else 4 * most * r + 2 * most * d
    floats = features + 5 * most * n_outputs + (2 * MEMORY + 6) * r * n_outputs + 4 * d * n_outputs
    return x.element_size() * floats
