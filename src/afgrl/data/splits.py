"""Which nodes a classifier is trained, tuned and tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNUSED, TRAIN, VALIDATION, TEST = 0, 1, 2, 3
# Mixed into the seed. Data that was itself drawn by permuting n rows with seed 0 would otherwise get a first split that
# repeats the permutation: on Minesweeper, all training nodes were mines and no test node was one.
KEY = 0x41464752


@dataclass(frozen=True, eq=False)
class Splits:
    """The splits of a dataset. A run stores them, so that every evaluation uses the same ones."""

    name: str  # how they were made, as shown in tables
    roles: np.ndarray  # [s, n] uint8: UNUSED, TRAIN, VALIDATION or TEST

    def __len__(self) -> int:
        return self.roles.shape[0]


def random_splits(
    n: int, seed: int = 0, *, count: int = 20, train: float = 0.1, validation: float = 0.1, key: int | None = KEY
) -> Splits:
    """``count`` random splits, by default 10 % train, 10 % validation, 80 % test; not stratified, as in the paper.

    ``key=None`` draws with ``seed`` alone, as for the published results on the benchmarks.
    """
    rng = np.random.default_rng(seed if key is None else [key, seed])
    n_train, n_validation = (max(1, int(share * n)) for share in (train, validation))
    roles = np.full((count, n), TEST, dtype=np.uint8)
    for row in roles:
        order = rng.permutation(n)
        row[order[:n_train]] = TRAIN
        row[order[n_train : n_train + n_validation]] = VALIDATION
    shares = "/".join(f"{100 * share:.0f}" for share in (train, validation, 1 - train - validation))
    return Splits(f"{count} random {shares}, seed {seed}", roles)
