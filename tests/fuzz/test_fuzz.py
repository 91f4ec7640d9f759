"""The fuzzer for half a minute, and every input that ever failed."""

import pytest

from tests.fuzz.__main__ import FOUND, outcomes, seeds
from tests.fuzz.mutations import mutated

SECONDS, FEWEST = 25, 40


def test_mutated_inputs_give_a_result_or_one_sentence():
    answers = list(outcomes(seeds(0, SECONDS, FEWEST)))
    failed = [answer for answer in answers if answer["failure"]]
    assert not failed, failed[0]
    read = sum(not answer["sentence"] for answer in answers)
    assert 0 < read < len(answers)  # the fuzzer reaches both: inputs that are still valid, and those that are not


def test_inputs_that_failed_before_do_so_no_more():
    saved = sorted(FOUND.iterdir())
    assert saved
    failed = [answer for answer in outcomes(str(folder) for folder in saved) if answer["failure"]]
    assert not failed, failed[0]


def test_the_same_seed_gives_the_same_input():
    assert mutated(5) == mutated(5)
    assert mutated(5) != mutated(6)


@pytest.mark.parametrize("seed", [3])
def test_a_crash_and_an_exception_are_noticed(seed, monkeypatch):
    """A worker whose reader fails: the fuzzer must say so."""
    code = "import sys; sys.stdin.readline(); import os; os.abort()"
    monkeypatch.setattr("tests.fuzz.__main__.COMMAND", ("-c", code))
    (answer,) = outcomes(iter([str(seed)]))
    assert answer["failure"] == "the process ended with -6"
