"""The type ``Score``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from afgrl.amounts import numbers


@dataclass(frozen=True)
class Score:
    """Repeated measurements of one quantity: one value per split, k-means fit or seed, never a mixture of these."""

    name: str
    values: tuple[float, ...]  # at least one
    protocol: str  # how the epoch was chosen and what the values were measured on

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise ValueError(f"The score {self.name!r} has no values.")
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def std(self) -> float:
        """The population standard deviation, as in NumPy; 0 for one value."""
        mean = self.mean
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.values) / len(self.values))

    def as_json(self) -> dict[str, float | list[float]]:
        return {"mean": self.mean, "std": self.std, "values": list(self.values)}

    def __str__(self) -> str:
        return " ± ".join(numbers([self.mean, self.std], 4))
