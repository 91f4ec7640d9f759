import numpy as np
import pyarrow as pa
import pytest

from afgrl.report.map_nodes import MIN_OF_GROUP, MapNodes, packed_density, sampled_rows
from tests.report.test_arrays import unpacked

N = 5000


@pytest.fixture(scope="module")
def nodes():
    rare = np.arange(N) % 1000 == 7  # five nodes
    columns = {
        "kind": pa.array(np.where(rare, "rare", "common")),
        "cluster": pa.array((np.arange(N) >= 4900).astype(np.int32)),
        "name": pa.array([f"name {i}" for i in range(N)]),
        "weight": pa.array(np.arange(N) / 7),
    }
    points = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
    return MapNodes(np.arange(N) + 10, points, pa.table(columns), ("", "cluster", "name", ""), "pca", 16)


def test_a_sample_has_wanted_nodes_and_nodes_of_each_group(nodes):
    rows = sampled_rows(nodes, 300, {"10", "5009"})
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert len(rows) == 300
    assert {0, 4999} <= set(rows.tolist())
    assert {7, 1007, 2007, 3007, 4007} <= set(rows.tolist())
    assert (rows >= 4900).sum() >= MIN_OF_GROUP
    assert np.array_equal(rows, sampled_rows(nodes, 300, {"10", "5009"}))


def test_a_sample_is_spread_over_all_nodes(nodes):
    rows = sampled_rows(nodes, 1000, set())
    per_fifth = np.bincount(rows[rows < 4500] // 900, minlength=5)
    assert per_fifth.min() > 130  # 178 expected, with a standard deviation below 13


def test_a_sample_has_the_size_even_with_more_groups(nodes):
    labeled = MapNodes(nodes.ids, nodes.points, nodes.columns.select(["name"]), ("label",), "pca", 16)
    assert len(sampled_rows(labeled, 300, set())) == 300


def test_rows_are_packed_with_their_own_values(nodes):
    packed = nodes.packed(np.array([3, 4999]), frozenset({"weight"}))
    kind, cluster, name, weight = packed["columns"]
    assert packed["n"] == 2
    assert unpacked(packed["ids"]).tolist() == [13, 5009]
    assert unpacked(packed["projection"]["x"]).tolist() == nodes.points[[3, 4999], 0].tolist()
    assert [cluster["values"][code] for code in unpacked(cluster["codes"])] == ["0", "1"]
    assert sorted(name["values"]) == ["name 3", "name 4999"]
    assert (kind["kind"], weight["kind"]) == ("category", "category")
    assert nodes.packed()["n"] == N


def test_the_density_is_an_image_of_all_points():
    corners = np.array([[0, 0]] * 100 + [[8, 4]] + [[0, 4]] * 10, dtype=np.float32)
    density = packed_density(corners)
    cells = unpacked(density["cells"]).reshape(density["height"], density["width"])
    assert (density["width"], density["height"]) == (400, 200)
    assert (density["low"], density["extent"]) == ([0, 0], [8, 4])
    assert cells[-1, 0] == 255  # the most nodes, below on the left
    assert 0 < cells[0, -1] < cells[0, 0] < 255
    assert (cells > 0).sum() == 3


def test_equal_points_have_a_density():
    density = packed_density(np.ones((3, 2), np.float32))
    assert unpacked(density["cells"]).max() == 255
