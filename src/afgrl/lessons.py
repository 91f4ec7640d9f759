"""How labels reach the one method that learns from them."""

from __future__ import annotations

import torch

from afgrl.data import Dataset
from afgrl.data.splits import TRAIN, VALIDATION
from afgrl.errors import UserError
from afgrl.methods.supervised_gcn import SupervisedGCNMethod


def lesson_size(method: str, dataset: Dataset) -> dict[str, int]:
    """The settings of a supervised method that follow from its labels."""
    if dataset.y is None or dataset.splits is None:
        raise UserError(f"{dataset.name!r} has no labels, which the method {method!r} learns from.")
    return {"n_classes": dataset.n_classes, "n_splits": len(dataset.splits)}


def teach(method: SupervisedGCNMethod, dataset: Dataset) -> None:
    """Give the supervised method its labels: of each split those of its training and validation nodes."""
    assert dataset.splits is not None
    roles = torch.from_numpy(dataset.splits.roles)
    method.learn_from(torch.as_tensor(dataset.y), roles == TRAIN, roles == VALIDATION)
