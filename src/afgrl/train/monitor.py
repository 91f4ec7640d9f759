"""Statistics of the embedding during training: whether the vectors collapse or have stopped moving."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from afgrl.train.state import TrainState

SAMPLE = 1000  # nodes


class EmbeddingMonitor:
    """Spread, effective rank and drift of a sample of the vectors."""

    def __init__(self, state: TrainState, inputs: Any, n: int) -> None:
        self.state, self.inputs = state, inputs
        self.rows = torch.from_numpy(np.random.default_rng(0).permutation(n)[:SAMPLE]).to(state.method.device)
        self.initial = self._vectors() if state.last else torch.empty(0)  # without training there is no drift

    def statistics(self) -> dict[str, float]:
        """``spread``: 1 minus the squared length of the mean unit vector, 0 if all vectors have one direction.
        ``rank``: the effective rank tr(C)² / tr(C²) of their covariance C. ``drift``: the mean cosine distance to the
        vectors before training."""
        vectors = self._vectors()
        mean = vectors.mean(0)
        covariance = (vectors - mean).T @ (vectors - mean)
        rank = covariance.trace().square() / covariance.square().sum().clamp(min=1e-30)
        drift = 1 - (vectors * self.initial).sum(1).mean()
        values = {"spread": 1 - mean.square().sum(), "rank": rank, "drift": drift}
        return {name: round(float(value), 6) for name, value in values.items()}

    def _vectors(self) -> Tensor:
        return F.normalize(self.state.method.sample(self.inputs, self.rows).float())
