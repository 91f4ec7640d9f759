"""How text columns write numbers."""

import numpy as np
import pyarrow as pa
import pytest

from afgrl.data.tables.numbers import detect_format, to_numbers


def text(*cells):
    return pa.chunked_array([pa.array(cells, pa.string())])


@pytest.mark.parametrize(
    ("number_format", "cells", "numbers"),
    [
        ("number", ["1", "-2.5", "+3.", ".5", "1e3", "-2E-2", " 7 "], [1, -2.5, 3, 0.5, 1000, -0.02, 7]),
        ("thousands", ["1,234", "-5,678.5", "12", "1,000,000"], [1234, -5678.5, 12, 1e6]),
        ("decimal_comma", ["3,06", "-0,5", "12", "1.234,5", "1.000.000"], [3.06, -0.5, 12, 1234.5, 1e6]),
        ("boolean", ["true", "FALSE", "True"], [1, 0, 1]),
        ("date", ["1970-01-02", "1970-01-01T00:01", "1970-01-01 01:00:02.5"], [86_400, 60, 3602.5]),
        ("date", ["1970-01-01T02:00Z", "1970-01-01T12:00+11:30", "1970-01-01T02:00-0130"], [7200, 1800, 12_600]),
    ],
)
def test_each_format_is_detected_and_read(number_format, cells, numbers):
    assert detect_format(text(*cells)) == (number_format, 1.0)
    np.testing.assert_allclose(to_numbers(text(*cells), number_format), numbers)


@pytest.mark.parametrize(
    ("number_format", "cells"),
    [
        ("number", ["", "x", "1 2", "1.2.3", "e5", "inf", "-Infinity", "nan", None]),
        ("thousands", ["12,34", "1234,567", ",5"]),
        ("decimal_comma", ["1.23,4", "1,2,3"]),
        ("boolean", ["yes", "truee", "1"]),
        ("date", ["2021-13-01", "2021-01-32", "21-01-01", "2021-01-01T1:00", "1/2/2021"]),
    ],
)
def test_cells_in_another_format_are_nan(number_format, cells):
    assert np.isnan(to_numbers(text(*cells), number_format)).all()


def test_the_share_counts_filled_cells_only():
    assert detect_format(text("1", "2", "x", "3", None)) == ("number", 0.75)
    assert detect_format(text(None, None))[1] == 0


def test_a_column_of_several_formats_has_the_most_frequent_one():
    cells = ["true", "false", "1", "true"]
    assert detect_format(text(*cells)) == ("boolean", 0.75)


def test_plain_numbers_take_precedence_if_they_are_95_percent():
    assert detect_format(text(*["12"] * 19, "1,5")) == ("number", 0.95)
    assert detect_format(text(*["12"] * 18, "1,5")) == ("decimal_comma", 1.0)
    assert detect_format(text("12")) == ("number", 1.0)


def test_numbers_that_a_float_cannot_hold_exactly_are_rounded():
    large = pa.chunked_array([pa.array([2**60 + 1])])
    assert to_numbers(large).tolist() == [2.0**60]
    time = pa.chunked_array([pa.array([1_500_000], pa.timestamp("us"))])
    assert to_numbers(time).tolist() == [1]


@pytest.mark.parametrize("arrow_type", [pa.int8(), pa.float32(), pa.bool_(), pa.decimal128(5, 2)])
def test_columns_of_numbers_need_no_format(arrow_type):
    column = pa.chunked_array([pa.array([1, 0, None]).cast(pa.int8()).cast(arrow_type)])
    assert detect_format(column) == ("number", 1.0)
    np.testing.assert_array_equal(to_numbers(column), [1, 0, np.nan])
