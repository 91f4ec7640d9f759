import numpy as np
import pytest

from afgrl.data import random_splits
from afgrl.data.splits import TEST, TRAIN, VALIDATION


@pytest.mark.parametrize("n", [11, 100, 1797])
def test_sizes_are_10_10_and_80_percent(n):
    splits = random_splits(n)
    assert len(splits) == 20
    for role, share in ((TRAIN, n // 10), (VALIDATION, n // 10), (TEST, n - 2 * (n // 10))):
        assert ((splits.roles == role).sum(axis=1) == share).all()


def test_splits_differ_and_are_reproducible():
    first, second = random_splits(100, seed=5), random_splits(100, seed=5)
    assert np.array_equal(first.roles, second.roles)
    assert len(np.unique(first.roles, axis=0)) == 20
    assert not np.array_equal(first.roles, random_splits(100, seed=6).roles)


def test_the_global_random_state_does_not_change():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    random_splits(50)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_the_name_says_how_splits_were_made():
    splits = random_splits(40, seed=2, count=3, train=0.5, validation=0.25)
    assert splits.name == "3 random 50/25/25, seed 2"
    assert splits.roles.dtype == np.uint8
    assert np.bincount(splits.roles[0]).tolist() == [0, 20, 10, 10]


def test_splits_do_not_repeat_the_permutation_that_data_were_drawn_with():
    n = 10_000
    labels = np.zeros(n, dtype=int)
    labels[np.random.default_rng(0).permutation(n)[:2_000]] = 1  # as the authors of Minesweeper drew the mines
    shares = [labels[row == TRAIN].mean() for row in random_splits(n, seed=0).roles]
    assert np.abs(np.array(shares) - 0.2).max() < 0.06  # five standard errors of 1,000 draws


def test_a_split_without_a_key_is_that_of_the_published_results():
    order = np.random.default_rng(3).permutation(100)
    assert set(np.flatnonzero(random_splits(100, seed=3, key=None).roles[0] == TRAIN)) == set(order[:10])
