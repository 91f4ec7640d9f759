from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.datasets import load_digits

from afgrl.data.splits import TEST, TRAIN, VALIDATION, Splits
from afgrl.evaluate import matrix


@pytest.fixture(autouse=True)
def keep_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small matrices of these tests have too many non-zeros to stay in CSR otherwise."""
    monkeypatch.setattr(matrix, "csr_is_smaller", lambda nnz, shape: True)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """600 images of digits: [600, 64] float32 and their classes."""
    x, y = load_digits(return_X_y=True)
    return x[:600].astype(np.float32), y[:600].astype(np.int64)


@pytest.fixture(scope="session")
def splits_of_sizes() -> Callable[[int, list[tuple[int, int]]], Splits]:
    """Random splits, one for each (training, validation) size; the other nodes are test nodes."""

    def make(n: int, sizes: list[tuple[int, int]]) -> Splits:
        rng = np.random.default_rng(0)
        roles = np.full((len(sizes), n), TEST, dtype=np.uint8)
        for row, (n_train, n_validation) in zip(roles, sizes, strict=True):
            order = rng.permutation(n)
            row[order[:n_train]] = TRAIN
            row[order[n_train : n_train + n_validation]] = VALIDATION
        return Splits("test splits", roles)

    return make
