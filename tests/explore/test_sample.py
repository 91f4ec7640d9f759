import io

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import image

from afgrl.explore.lasso import PointsByHeight
from afgrl.report.column_index import ColumnIndex
from afgrl.report.sample import MIN_OF_GROUP, Density, sampling_order
from tests.report.test_arrays import unpacked

N = 5000
IDS = np.arange(N) + 10


def indexed(values, *, category=False):
    return ColumnIndex.of(pa.chunked_array([pa.array(values)]), category=category)


@pytest.fixture(scope="module")
def columns():
    rare = np.arange(N) % 1000 == 7  # five nodes
    return [
        indexed(np.where(rare, "rare", "common")),
        indexed((np.arange(N) >= 4900).astype(np.int32), category=True),
        indexed([f"name {i}" for i in range(N)]),
        indexed(np.arange(N) / 7),
    ]


def sampled(columns, size, wanted):
    return np.sort(sampling_order(IDS, columns, wanted)[:size])


def test_a_sample_has_wanted_nodes_and_nodes_of_each_group(columns):
    rows = sampled(columns, 300, {"10", "5009"})
    assert {0, 4999} <= set(rows.tolist())
    assert {7, 1007, 2007, 3007, 4007} <= set(rows.tolist())
    assert (rows >= 4900).sum() >= MIN_OF_GROUP
    assert np.array_equal(rows, sampled(columns, 300, {"10", "5009"}))


def test_a_sample_is_spread_over_all_nodes(columns):
    rows = sampled(columns, 1000, set())
    per_fifth = np.bincount(rows[rows < 4500] // 900, minlength=5)
    assert per_fifth.min() > 130  # 178 expected, with a standard deviation below 13
    assert np.array_equal(np.sort(sampling_order(IDS, columns, set())), np.arange(N))


def test_an_index_of_categories_counts_and_accepts_values():
    column = indexed(["b", None, "a", "b", "a", "b"])
    assert column.summary() == {"values": ["a", "b"], "sizes": [2, 3], "rarer": 0, "missing": 1}
    assert column.accepts(None, None, [1]).tolist() == [True, False, False, True, False, True]
    assert column.accepts(None, None, [0, 3]).tolist() == [False, True, True, False, True, False]
    assert not column.accepts(None, None, [9, 65535]).any()


def test_rare_values_share_a_code(monkeypatch):
    monkeypatch.setattr("afgrl.report.column_index.MAX_VALUES", 2)
    column = indexed([f"v{i % 20}" for i in range(30)] + ["top"] * 9)
    assert column.values[0] == "top"
    assert (len(column.values), column.n_rarer, sum(column.sizes)) == (2, 19, 39)
    assert column.accepts(None, None, [2]).sum() == column.sizes[2] == 28


def test_an_index_of_numbers_has_ranges_without_missing_values():
    column = indexed([3.0, None, 1.0, 2.0])
    assert column.accepts(None, None, None).tolist() == [True, False, True, True]
    assert column.accepts(2, None, None).tolist() == [True, False, False, True]
    assert column.accepts(1, 2, None).tolist() == [False, False, True, True]
    assert (column.summary()["min"], column.summary()["max"]) == (1, 3)
    assert indexed([None, None], category=False).summary()["values"] == []


def test_a_lasso_contains_the_points_that_matplotlib_says():
    path = pytest.importorskip("matplotlib.path")
    draw = np.random.default_rng(0)
    points = draw.normal(size=(3000, 2)).astype(np.float32)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    corners = (np.stack([np.cos(angle), np.sin(angle)], 1) * draw.uniform(0.3, 2, (60, 1))).tolist()  # a star
    inside = PointsByHeight.of(points).inside(corners)
    assert np.array_equal(inside, path.Path(corners).contains_points(points))
    assert 300 < inside.sum() < 2700


def test_a_box_contains_its_points():
    points = np.array([[0, 0], [1, 1], [2, 2], [3, 1]], np.float32)
    box = [(0.5, 0.5), (3.5, 0.5), (3.5, 1.5), (0.5, 1.5)]
    assert PointsByHeight.of(points).inside(box).tolist() == [False, True, False, True]


def test_the_density_is_an_image_of_all_points():
    corners = np.array([[0, 0]] * 100 + [[8, 4]] + [[0, 4]] * 10, dtype=np.float32)
    density = Density.of(corners)
    packed = density.packed()
    cells = unpacked(packed["cells"]).reshape(packed["height"], packed["width"])
    assert (packed["width"], packed["height"]) == (400, 200)
    assert (packed["low"], packed["extent"]) == ([0, 0], [8, 4])
    assert cells[-1, 0] == 255  # the most nodes, below on the left
    assert 0 < cells[0, -1] < cells[0, 0] < 255
    assert (cells > 0).sum() == 3
    assert (density.shades(np.arange(111) >= 100) > 0).sum() == 2
    assert not density.shades(np.zeros(111, bool)).any()


def test_equal_points_have_a_density():
    assert Density.of(np.ones((3, 2), np.float32)).shades().max() == 255


def test_the_picture_is_a_png_with_the_margin_of_the_map():
    picture = image.imread(io.BytesIO(Density.of(np.array([[0, 0], [8, 4]], np.float32)).picture()))
    assert np.allclose(picture[..., :3], 136 / 255)
    assert picture.shape[:2] == (200 + 2 * 8, 400 + 2 * 16)
    assert picture[207, 16, -1] > 0.5
    assert picture[8, 415, -1] > 0.5
    assert (picture[..., -1] > 0).sum() == 2
