"""Whether cells are still the same, however a table holds them."""

import hashlib

import pyarrow as pa
import pytest

from afgrl.data.digest import _add_cells

CELLS = pa.array(["x", "yy", None, "z"])


def of(column):
    total = hashlib.sha256()
    _add_cells(total, column)
    return total.hexdigest()


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([["x"], ["yy", None, "z"]]),
        pa.chunked_array([pa.array(["q", "x", "yy", None, "z", "r"]).slice(1, 4)]),
        pa.chunked_array([CELLS.cast(pa.large_string())]),
        pa.chunked_array([CELLS.dictionary_encode()]),
    ],
    ids=["two chunks", "a part", "large", "dictionary"],
)
def test_the_same_cells(column):
    assert of(column) == of(pa.chunked_array([CELLS]))


def test_other_cells():
    columns = [
        CELLS,
        ["xy", "y", None, "z"],
        ["x", "yy", "", "z"],
        ["x", "yy", "z", None],
        [1, 2],
        [[1], [2]],
        pa.nulls(4),
    ]
    assert len({of(pa.chunked_array([column])) for column in columns}) == len(columns)
