"""Amounts are written in one way everywhere."""

import ast
import re
from pathlib import Path

import pytest

from afgrl import amounts
from afgrl.amounts import byte_size, counted, duration, number, numbers, shown, shown_column

SOURCES = Path(amounts.__file__).parent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (147685215, "147,685,215"),
        (147685215.0, "147,685,215"),
        (267655123.25, "267,655,123"),
        (1234.5678, "1,234.57"),
        (12.5, "12.5"),
        (0.25, "0.25"),
        (1 / 3, "0.333333"),
        (1e-7, "0.0000001"),
        (-0.0, "0"),
        (100.0, "100"),
        (1e17, "100,000,000,000,000,000"),
        (2**63, "9,223,372,036,854,775,808"),
        (True, "yes"),
        (False, "no"),
        (None, ""),
        ("007", "007"),
        (float("nan"), "nan"),
    ],
)
def test_a_value_of_a_table(value, text):
    assert shown(value) == text


def test_numbers_that_are_compared_have_the_same_decimals():
    assert numbers([1090.4, 641.26], 3) == ["1,090", "641"]
    assert numbers([0.5, 12.25], 4) == ["0.50", "12.25"]
    assert numbers([0.0, 0.0], 3) == ["0", "0"]
    assert number(1234567.0, 3) == "1,234,567"


def test_a_column_of_years_has_no_commas():
    assert shown_column([2015, None, 1998]) == ["2015", "", "1998"]
    assert shown_column([2015.0, 1998.0]) == ["2015", "1998"]
    assert shown_column([2015, 2400]) == ["2,015", "2,400"]
    assert shown_column([2015.5, 1998]) == ["2,015.5", "1,998"]
    assert shown_column(["a", None]) == ["a", ""]


def test_one_is_singular():
    assert [counted(n, "node") for n in (0, 1, 2000)] == ["0 nodes", "1 node", "2,000 nodes"]
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1 KiB"), (1.2 * 2**20, "1.2 MiB"),
        (3 * 2**30, "3 GiB"), (1000 * 2**30, "1 TiB"), (5e6 * 2**40, "5,000,000 TiB"),
    ],
)  # fmt: skip
def test_sizes_have_the_unit_that_suits_them(n_bytes, text):
    assert byte_size(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1.9, "0 ms"), (0.25, "250 ms"), (2.345, "2.3 s"), (61.2, "61 s"), (600, "10 min"), (86400 * 7, "10,080 min")],
)
def test_durations_are_never_negative(seconds, text):
    assert duration(seconds) == text


def texts(file):
    """The f-strings of a module as they are written."""
    source = file.read_text()
    tree = ast.parse(source)
    return [ast.get_source_segment(source, node) or "" for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]


FORBIDDEN = {
    r"2\s?\*\*\s?[234]0\b[^}]*\}|GIB:|\} [KMGT]iB": "byte_size",
    r":,?\.?\d*g\}": "number",
    r"(?<!of )\{(?:len\([^{}]*\)|n|n_\w+)(?::,)?\} (?:nodes|vectors|runs|edges|processes)\b": "counted",
}


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_other_module_writes_amounts_in_its_own_way(pattern):
    others = [file for file in SOURCES.rglob("*.py") if file.name != "amounts.py" and file.parent.name != "bench"]
    found = [(file.name, text) for file in others for text in texts(file) if re.search(pattern, text)]
    assert found == [], f"use afgrl.amounts.{FORBIDDEN[pattern]}"
