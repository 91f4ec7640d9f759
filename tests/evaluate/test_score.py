import dataclasses

import pytest

from afgrl.evaluate import Score


def test_a_score_cannot_be_changed():
    score = Score("accuracy", (90.0, 92.0), "last-epoch")
    with pytest.raises(dataclasses.FrozenInstanceError):
        score.values = (99.0,)
    assert score.mean == 91.0


def test_a_score_has_values():
    with pytest.raises(ValueError, match="'accuracy' has no values"):
        Score("accuracy", (), "last-epoch")
