"""A number together with what it was measured on."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """One quantity, measured once per split, restart or seed; never a mixture of these."""

    name: str
    values: tuple[float, ...]  # at least one
    protocol: str  # which rule chose the epoch, which splits or restarts the values stand for

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise ValueError(f"The score {self.name!r} has no values.")
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def std(self) -> float:
        """The spread of these values (divided by their number, as numpy does); 0 for one value."""
        mean = self.mean
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.values) / len(self.values))

    def as_json(self) -> dict[str, float | list[float]]:
        return {"mean": self.mean, "std": self.std, "values": list(self.values)}

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"
