"""Which nodes are inside a lasso."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PointsByHeight:
    """The points in the order of y, so that an edge of a polygon is compared only with the points beside it."""

    order: np.ndarray  # [n]
    x: np.ndarray  # [n]
    y: np.ndarray  # [n] ascending

    @classmethod
    def of(cls, points: np.ndarray) -> PointsByHeight:
        order = np.argsort(points[:, 1])
        x, y = points[order].astype(np.float64).T
        return cls(order, np.ascontiguousarray(x), np.ascontiguousarray(y))

    def inside(self, corners: Sequence[tuple[float, float]]) -> np.ndarray:
        """Which points are inside a polygon, [n] bool: those with an odd number of its edges on their right."""
        odd = np.zeros(len(self.order), dtype=bool)
        for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]], strict=True):
            if y0 == y1:
                continue
            first, last = np.searchsorted(self.y, sorted((y0, y1)))
            beside = slice(first, last)
            odd[beside] ^= self.x[beside] < x0 + (self.y[beside] - y0) * ((x1 - x0) / (y1 - y0))
        answer = np.empty_like(odd)
        answer[self.order] = odd
        return answer
