"""A folder of .npy files as a source."""

from pathlib import Path

import numpy as np
import pytest
import torch

from afgrl import UserError, load
from afgrl.data.formats import array_folder, arrays

X = np.array([[1, 0.5], [2, 3], [4, 5], [0.25, 8]])
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 3], [1, 0]])


def write(folder, **found):
    given = {"features": X.astype(np.float32), "edges": EDGES} | found
    for name, values in given.items():
        np.save(folder / f"{name}.npy", values)
    return str(folder)


def test_a_folder_of_arrays_is_a_graph(tmp_path):
    ids, labels = np.array(["a", "b", "c", "d"]), np.array([2, -1, 0, 2])
    dataset = load(write(tmp_path, ids=ids, labels=labels, weights=np.array([1.0, 2, 3, 4, 5])))
    assert dataset.graph.ids.tolist() == ["a", "b", "c", "d"]
    assert dataset.graph.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert dataset.graph.edge_weight.tolist() == [3, 3, 1, 1, 1.5, 1.5]
    assert dataset.y.tolist() == [1, -1, 0, 1]
    assert dataset.ingested.classes == ["0", "2"]
    assert dataset.ingested.columns["label"].to_pylist() == ["2", None, "0", "2"]
    assert torch.equal(dataset.graph.x, torch.from_numpy(X).float())
    sentences = " ".join(dataset.ingested.report.sentences)
    assert "Self-loops of edges.npy, dropped: 1." in sentences
    assert "in one direction only, used in both: 2." in sentences
    without = load(str(tmp_path), label="none", weight="none")
    assert without.y is None
    assert without.graph.edge_weight is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, ">f4"])
def test_every_type_and_orientation_gives_the_same_graph(tmp_path, monkeypatch, dtype):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "graph"
    folder.mkdir()
    values = np.round(X * 4).astype(dtype)
    small = load(write(folder, features=values, edges=EDGES.T.astype(np.int32)))
    for module in (arrays, array_folder):
        monkeypatch.setattr(module, "MAPPED_BYTES", 0)
    large = load(write(folder, features=np.asfortranarray(values), edges=EDGES))
    assert torch.equal(small.graph.x, large.graph.x)
    assert torch.equal(small.graph.edge_index, large.graph.edge_index)
    assert not list((tmp_path / "cache" / "spill").iterdir())


def test_arrays_of_another_byte_order_give_the_same_graph(tmp_path):
    """As R, Java and mainframes write them."""
    ids, labels, weights = np.arange(4) + 7, np.array([2, -1, 0, 2]), np.array([1.0, 2, 3, 4, 5])
    (tmp_path / "native").mkdir()
    native = load(write(tmp_path / "native", ids=ids, labels=labels, weights=weights))
    swapped = {
        "features": X.astype(">f8"), "edges": EDGES.astype(">i8"), "ids": ids.astype(">i4"),
        "labels": labels.astype(">i2"), "weights": weights.astype(">f2"),
    }  # fmt: skip
    dataset = load(write(tmp_path, **swapped))
    assert torch.equal(dataset.graph.x, native.graph.x)
    assert torch.equal(dataset.graph.edge_index, native.graph.edge_index)
    assert torch.equal(dataset.graph.edge_weight, native.graph.edge_weight)
    assert dataset.graph.ids.tolist() == native.graph.ids.tolist()
    assert dataset.y.tolist() == native.y.tolist()


def test_labels_that_are_all_missing_are_none(tmp_path):
    dataset = load(write(tmp_path, labels=np.full(4, -1)))
    assert dataset.y is None
    assert dataset.ingested.columns.column_names == ["id"]
    assert "No node has a label in labels.npy." in dataset.ingested.report.sentences


def test_large_features_stay_in_their_file(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    for module in (arrays, array_folder):
        monkeypatch.setattr(module, "MAPPED_BYTES", 0)
    (tmp_path / "graph").mkdir()
    graph = load(write(tmp_path / "graph")).graph
    assert str(tmp_path / "graph" / "features.npy") in Path("/proc/self/maps").read_text()
    graph.x[0, 0] = 7.0  # private to this process
    assert np.load(tmp_path / "graph" / "features.npy")[0, 0] == 1


def test_text_labels_are_classes(tmp_path):
    dataset = load(write(tmp_path, labels=np.array(["x", "y", "x", "z"])))
    assert dataset.y.tolist() == [0, 1, 0, 2]
    assert dataset.ingested.classes == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"edges": np.ones((3, 3), dtype=int)}, r"edges.npy must have shape \[e, 2\] or \[2, e\]"),
        ({"edges": np.array([[0, 4]])}, "refers to node 4"),
        ({"ids": np.array([1, 2, 3])}, "4 nodes but 3 ids"),
        ({"labels": np.array([0, 1])}, "labels.npy cannot be used"),
        ({"features": np.array([["a", "b"]] * 4)}, "must be numbers"),
        ({"features": np.ones(4)}, r"shape \[nodes, features\]"),
        ({"weights": np.ones(2)}, "edge weights have shape"),
        ({"weights": np.array(["heavy"] * 5)}, "edge weights must be real numbers, but their type is <U5"),
        ({"weights": np.ones(5, complex)}, "edge weights must be real numbers"),
        ({"edges": EDGES.astype(str)}, "edges must be real numbers"),
        ({"ids": np.array([["a"], ["b"], ["c"], ["d"]])}, r"ids must have shape \[4\], .* shape is \(4, 1\)"),
        ({"ids": np.arange(4)[:, None]}, r"ids must have shape \[4\]"),
    ],
)
def test_arrays_that_do_not_fit_are_an_error_of_one_sentence(tmp_path, found, sentence):
    with pytest.raises(UserError, match=sentence):
        load(write(tmp_path, **found))


def test_a_truncated_large_file_is_an_error(tmp_path, monkeypatch):
    folder = write(tmp_path)
    content = (tmp_path / "features.npy").read_bytes()
    (tmp_path / "features.npy").write_bytes(content[:-8])
    for limit in (arrays.MAPPED_BYTES, 0):
        monkeypatch.setattr(arrays, "MAPPED_BYTES", limit)
        with pytest.raises(UserError, match=r"features.npy contains no array or is damaged"):
            load(folder)
