"""Penalties of a similarity s between -1 and 1, with their slopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Penalty(Protocol):
    def value(self, similarity: Tensor) -> Tensor:
        """The penalty of each similarity, in their shape."""

    def value_and_slope(self, similarity: Tensor) -> tuple[Tensor, Tensor]:
        """The same and its derivative, both in new memory."""


@dataclass(frozen=True)
class LogDistance:
    """-log((1 - s) / 2 + floor): the surprise at two rows being different, if (1 + s) / 2 is the chance of a pair."""

    floor: float

    def value(self, similarity: Tensor) -> Tensor:
        return -self._distance(similarity).log()

    def value_and_slope(self, similarity: Tensor) -> tuple[Tensor, Tensor]:
        distance = self._distance(similarity)
        return distance.log().neg_(), distance.reciprocal_().div_(2)

    def _distance(self, similarity: Tensor) -> Tensor:
        # Rounding can raise a cosine above 1, by 1e-3 in tf32: the logarithm of a negative number would be NaN.
        return (1 - similarity).clamp(min=0) / 2 + self.floor


@dataclass(frozen=True)
class SoftThreshold:
    """σ((s - threshold) / temperature): about 1 above the threshold and 0 below it."""

    threshold: float
    temperature: float

    def value(self, similarity: Tensor) -> Tensor:
        return ((similarity - self.threshold) / self.temperature).sigmoid()

    def value_and_slope(self, similarity: Tensor) -> tuple[Tensor, Tensor]:
        value = self.value(similarity)
        return value, (value * (1 - value)).div_(self.temperature)
