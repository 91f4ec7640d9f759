import numpy as np
import pyarrow as pa
import pytest

from afgrl.report.map_nodes import MapNodes
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
