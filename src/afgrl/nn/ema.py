"""The target network: an exponential moving average (EMA) of the online network."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import nn

from afgrl.ops.optim import lerp_parameters

Schedule = Literal["cosine", "constant", "authors"]


class Progress(NamedTuple):
    """How far training has come; schedules are functions of it."""

    step: int  # steps completed
    total: int  # steps of the whole run

    @property
    def fraction(self) -> float:
        return self.step / self.total


def ema_decay(progress: Progress, momentum: float, schedule: Schedule) -> float:
    """The EMA decay of one step (the paper's τ): the share of its old value that the target keeps.

    ``constant`` is always ``momentum``. ``cosine`` rises from ``momentum`` to 1 over the run. ``authors`` repeats the
    authors' code, which advances a cosine of 5,000 steps once for each of five parameter tensors: the decay oscillates
    between ``momentum`` and 1 with a period of 2,000 steps, independent of the length of the run.
    """
    if schedule == "constant":
        return momentum
    angle = math.pi * (progress.fraction if schedule == "cosine" else progress.step / 1000)
    return 1 - (1 - momentum) * (math.cos(angle) + 1) / 2


@torch.no_grad()
def ema_update(target: nn.Module, online: nn.Module, decay: float) -> None:
    """ξ ← decay·ξ + (1 - decay)·θ for the parameters; buffers are not averaged, as in BYOL and the authors' code."""
    lerp_parameters(list(target.parameters()), list(online.parameters()), 1 - decay)
