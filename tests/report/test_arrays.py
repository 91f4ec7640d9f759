import base64
import json
import re

import numpy as np
import pyarrow as pa
import pytest

from afgrl.report import arrays

UNSAFE = ["</script><script>", "<!--", "<b>&lt;", "\u2028 \u2029", "${x} `tick`"]


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["base64"]), np.dtype(packed["type"]).newbyteorder("<"))


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, 2, 300]), "uint16", [1, 2, 300]),
        (pa.array([-1, 70_000]), "int32", [-1, 70_000]),
        (pa.array([2**40, 1]), "float64", [2**40, 1]),
        (pa.array([1, None, 2**30 + 1]), "float64", [1, np.nan, 2**30 + 1]),
        (pa.array([0.5, None, float("inf")]), "float32", [0.5, np.nan, np.nan]),
        (pa.array([0.7, None]), "float64", [0.7, np.nan]),  # float64, or a filter "at least 0.7" would drop it
        (pa.array([1e39]), "float64", [1e39]),
    ],
)
def test_numbers_use_the_smallest_exact_type(column, kind, values):
    packed = arrays.pack_column("c", pa.chunked_array([column]))
    assert packed["kind"] == "number"
    assert packed["numbers"]["type"] == kind
    assert np.array_equal(unpacked(packed["numbers"]), values, equal_nan=True)


@pytest.mark.parametrize(
    ("column", "values", "codes"),
    [
        (pa.array(["b 10", "b 9", None, "b 9"]), ["b 9", "b 10"], [1, 0, 2, 0]),
        (pa.array([True, False, None]), ["no", "yes"], [1, 0, 2]),
        (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"], [0, 1]),
        (pa.array([2**60, 1]), [str(1), str(2**60)], [1, 0]),
        (pa.array([[1, 2], None]), ["[1, 2]"], [0, 1]),
        (pa.array([None, None]), [], [0, 0]),
        (pa.array([9 * 10**12], pa.timestamp("s")), ["<value out of range: 9000000000000>"], [0]),
    ],
)
def test_other_types_become_category_codes(column, values, codes):
    packed = arrays.pack_column("c", pa.chunked_array([column]))
    assert packed["kind"] == "category"
    assert packed["values"] == values
    assert unpacked(packed["codes"]).tolist() == codes


@pytest.mark.parametrize(
    ("column", "unit", "milliseconds"),
    [
        (pa.array([0, None, 1], pa.date32()), "date", [0, np.nan, 86_400_000]),
        (pa.array([10**7], pa.date32()), "date", [864 * 10**12]),
        (pa.array([1500, None], pa.timestamp("ms")), "time", [1500, np.nan]),
        (pa.array([-1_500_000_001], pa.timestamp("ns")), "time", [-1500]),
        (pa.array([1], pa.timestamp("s", "Nowhere/Land")), "time", [1000]),
        (pa.array([None, None], pa.timestamp("s")), "time", [np.nan, np.nan]),
    ],
)
def test_dates_are_milliseconds(column, unit, milliseconds):
    packed = arrays.pack_column("c", pa.chunked_array([column]))
    assert (packed["kind"], packed["unit"]) == ("number", unit)
    assert np.array_equal(unpacked(packed["numbers"]), milliseconds, equal_nan=True)


def test_many_categories_are_ordered_by_frequency():
    column = pa.chunked_array([pa.array([f"v{i}" for i in range(20) for _ in range(i + 1)])])
    assert arrays.pack_column("c", column)["values"][:2] == ["v19", "v18"]


def test_json_cannot_end_the_element_around_it():
    text = arrays.safe_json({"a": UNSAFE, "nan": float("nan")})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"a": UNSAFE, "nan": None}


def test_long_cells_are_cut():
    column = pa.chunked_array([pa.array(["x" * 10_000])])
    assert arrays.pack_column("c", column)["values"] == ["x" * arrays.MAX_CELL_LENGTH + "…"]


@pytest.mark.parametrize(
    ("ids", "packed_type"), [([0, 300], "uint16"), ([2**53, 0], "float64"), ([2**53 + 1], None), (["a", "b"], None)]
)
def test_ids_are_sent_as_numbers_only_if_javascript_has_them_exactly(ids, packed_type):
    packed = arrays.pack_ids(np.array(ids))
    if packed_type is None:
        assert packed == [str(node_id) for node_id in ids]
    else:
        assert packed["type"] == packed_type
        assert unpacked(packed).tolist() == ids
