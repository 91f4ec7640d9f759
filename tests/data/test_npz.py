import numpy as np
import pytest
import torch

from afgrl.data import load
from afgrl.errors import UserError
from tests.data.small_files import csr_arrays, small_arrays, write_npz


def test_features_are_not_changed(tmp_path):
    dataset = load(write_npz(tmp_path / "own.npz"))
    assert (dataset.name, dataset.graph.n, dataset.graph.n_edges, dataset.n_classes) == ("own", 12, 12, 3)
    assert dataset.graph.x.layout == torch.sparse_csr
    assert sorted(dataset.graph.x.values().unique().tolist()) == [2, 3]
    assert len(dataset.splits) == 20


def test_a_path_may_be_a_string_and_without_suffix(tmp_path, monkeypatch):
    write_npz(tmp_path / "own.npz").rename(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    assert load("own").graph.n == load(str(tmp_path / "own")).graph.n == 12


def test_dense_features(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(12, 5))
    without = dict.fromkeys(("attr_data", "attr_indices", "attr_indptr", "attr_shape"))
    graph = load(write_npz(tmp_path / "own.npz", attr_matrix=matrix, **without)).graph
    assert graph.x.layout == torch.strided
    np.testing.assert_array_equal(graph.x, matrix.astype(np.float32))


def test_without_labels_there_are_no_splits(tmp_path):
    dataset = load(write_npz(tmp_path / "own.npz", labels=None), splits="random")
    assert dataset.y is None
    assert dataset.splits is None
    assert dataset.n_classes == 0


def test_pickled_names_are_not_opened(tmp_path):
    names = np.array([{"a": 1}, None], dtype=object)
    assert load(write_npz(tmp_path / "own.npz", node_names=names, attr_names=names)).graph.n == 12


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"adj_indptr": None, "adj_shape": None}, "has no arrays adj_indptr, adj_shape"),
        ({"attr_data": None}, "has no array attr_data"),
        ({"labels": np.zeros(5, int)}, r"labels has shape \(5,\), but the graph has 12 nodes"),
        ({"labels": np.full(12, -2)}, "integers from 0"),
        ({"labels": np.full(12, 0.5)}, "integers from 0"),
        ({"labels": np.array(12 * ["a"], dtype=object)}, "contains Python objects, which are not loaded"),
        ({"adj_indices": np.full(12, 99)}, "damaged or has another layout"),
        ({"attr_indices": np.full(24, 99)}, "damaged or has another layout"),
        ({"adj_shape": np.array([12, 12, 12])}, "damaged or has another layout"),
        (csr_arrays("adj", np.ones((12, 3))), "must be square"),
        (csr_arrays("attr", np.ones((11, 3))), "12 nodes but the features have 11 rows"),
        (csr_arrays("attr", np.full((12, 3), np.nan)), "NaN or infinite"),
        ({"attr_matrix": np.ones(12)}, "must be numbers of shape"),
        ({"attr_matrix": np.full((12, 2), "a")}, "must be numbers of shape"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_it(changes, sentence, tmp_path):
    path = write_npz(tmp_path / "own.npz", **changes)
    with pytest.raises(UserError, match=sentence) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_npz(tmp_path):
    whole = write_npz(tmp_path / "own.npz").read_bytes()
    for content in (b"", b"source,target\n1,2\n", whole[: len(whole) // 2]):
        path = tmp_path / "other.npz"
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"other\.npz is not an \.npz file or is truncated"):
            load(path)


def test_a_flipped_bit_is_detected(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **small_arrays())
    content = bytearray(path.read_bytes())
    position = content.index(small_arrays()["adj_indices"].tobytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"The array 'adj_indices' in .* is damaged: Bad CRC-32"):
        load(path)


def test_paths_that_do_not_exist(tmp_path):
    with pytest.raises(UserError, match=r"File or folder not found: .*none\.npz"):
        load(tmp_path / "none.npz")
    with pytest.raises(UserError, match="has no edge or node table"):
        load(str(tmp_path))


@pytest.mark.real_data
def test_wordnet(real_data):
    dataset = load(f"{real_data}/WordNet/raw/wordnet30.npz")
    graph = dataset.graph
    assert (graph.n, graph.n_edges, graph.n_isolated) == (117_659, 183_789, 1_009)
    assert (graph.n_features, dataset.n_classes) == (6_852, 45)
    assert graph.x.layout == torch.sparse_csr
