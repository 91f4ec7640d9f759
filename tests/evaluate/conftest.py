from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.datasets import load_digits

from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits
from afgrl.evaluate import rows


@pytest.fixture(autouse=True)
def sparse_stays_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small tables here are not sparse enough to stay CSR otherwise."""
    monkeypatch.setattr(rows, "DENSE_FROM", 2.0)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """600 pictures of digits: [600, 64] float32 and their classes."""
    x, y = load_digits(return_X_y=True)
    return x[:600].astype(np.float32), y[:600].astype(np.int64)


@pytest.fixture(scope="session")
def splits_of_sizes() -> Callable[[int, list[tuple[int, int]]], Splits]:
    """Random splits, one for each (training, validation) size; the rest is the test part."""

    def make(n: int, sizes: list[tuple[int, int]]) -> Splits:
        rng = np.random.default_rng(0)
        roles = np.full((len(sizes), n), TEST, dtype=np.uint8)
        for row, (n_train, n_validation) in zip(roles, sizes, strict=True):
            order = rng.permutation(n)
            row[order[:n_train]] = TRAIN
            row[order[n_train : n_train + n_validation]] = VALIDATION
        return Splits("test splits", roles)

    return make
