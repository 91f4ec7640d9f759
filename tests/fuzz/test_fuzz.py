"""The fuzzer for half a minute, and every input that ever failed."""

import sys

import numpy as np
import pytest

from afgrl import Dataset, Graph, check
from afgrl.data.demo import load_demo
from tests.fuzz.__main__ import FOUND, outcomes, seeds
from tests.fuzz.handmade import SAMPLE, Handmade, catalog
from tests.fuzz.handmade.outcome import answer
from tests.fuzz.mutations import mutated
from tests.fuzz.sound import described, unsound
from tests.fuzz.worker import HANDMADE, WRITTEN

SECONDS, FEWEST = 25, 40


def test_mutated_inputs_give_a_result_or_one_sentence():
    answers = list(outcomes(seeds(0, SECONDS, FEWEST)))
    failed = [answer for answer in answers if answer["failure"]]
    assert not failed, failed[0]
    read = sum(not answer["sentence"] for answer in answers)
    assert 0 < read < len(answers)  # the fuzzer reaches both: inputs that are still valid, and those that are not


def test_all_edges_of_written_tables_are_read():
    answers = list(outcomes(f"{WRITTEN}{seed}" for seed in range(120)))
    failed = [answer for answer in answers if answer["failure"] or answer["sentence"]]
    assert not failed, failed[0]


def test_inputs_that_failed_before_do_so_no_more():
    saved = sorted(FOUND.iterdir())
    assert saved
    failed = [answer for answer in outcomes(str(folder) for folder in saved) if answer["failure"]]
    assert not failed, failed[0]


def test_hand_made_inputs_give_a_result_or_one_sentence():
    """A fixed sample; ``python -m tests.fuzz --handmade`` tries all."""
    assert len(catalog()) >= 531
    answers = list(outcomes(HANDMADE + name for name in list(catalog())[::SAMPLE]))
    failed = [answer for answer in answers if answer["failure"]]
    assert not failed, failed[0]
    assert 0 < sum(not answer["sentence"] for answer in answers) < len(answers)


def test_the_catalog_sees_what_is_wrong(tmp_path, monkeypatch):
    """Each kind of failure, from a command line that does it."""

    def found(behave):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        monkeypatch.setattr("tests.fuzz.handmade.outcome.app", lambda words: behave(folder))
        monkeypatch.setattr("tests.fuzz.handmade.outcome._unavailable", lambda case: "")
        return answer(Handmade("a", ("check", "{folder}"), {"edges.csv": b"a"}), folder)[0]

    def refused(text, code=2):
        print(text, file=sys.stderr)
        raise SystemExit(code)

    assert found(lambda folder: None) == ""
    assert found(lambda folder: refused("It is empty.")) == ""
    assert found(lambda folder: refused("Usage: afgrl\n\nError: It is empty.")) == ""
    assert found(lambda folder: refused("It is empty.", 1)) == "exit code 1"
    assert found(lambda folder: refused("It is empty.\nIt is.")) == "not one sentence"
    assert found(lambda folder: refused("")) == "not one sentence"
    assert found(lambda folder: 1 / 0) == "traceback"
    assert "left" in found(lambda folder: ((folder / "b").write_text("b"), refused("It is empty.")))
    assert "left" in found(lambda folder: ((folder / "edges.csv").write_text("changed"), refused("It is empty.")))
    assert "left" in found(lambda folder: (folder / ".a.7").write_text("temporary"))


def test_ids_that_no_input_has_are_noticed():
    """Arrays of shape [n, 1] and cells of white space gave such ids."""

    def found(*ids):
        return unsound([Dataset("graph", Graph(np.eye(len(ids)), np.zeros((2, 0), int), list(ids)))])

    assert found("a", "0", "[", "-") == ""
    assert found("a", "\u00a0") == "wrong: the id '\\xa0'"
    assert "a row of an array" in found("a", "['b']")
    with described() as datasets:
        check(load_demo())
    assert len(datasets) == 1


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
