import os
import shutil

import numpy as np
import pytest
import torch

from afgrl.data import load
from afgrl.data.benchmarks import BENCHMARKS
from afgrl.data.splits import TEST, TRAIN, UNUSED, VALIDATION, random_splits
from afgrl.errors import UserError
from tests.data.small_files import csr_arrays, small_arrays, write_npz, write_planetoid, write_wikics

PHOTO = "Photo/raw/amazon_electronics_photo.npz"


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["computers", "photo", "cs", "physics"])
def test_gnn_benchmark_files_become_undirected_with_binary_sparse_features(name, tmp_path, any_counts):
    write_npz(BENCHMARKS[name].raw.under(tmp_path)[0])
    dataset = load(name, data_dir=tmp_path)
    assert (dataset.name, dataset.graph.n, dataset.graph.n_edges) == (name, 12, 12)
    assert dataset.graph.x.layout == torch.sparse_csr
    expected = np.zeros((12, 9))
    arrays = small_arrays()
    expected[np.repeat(np.arange(12), 2), arrays["attr_indices"]] = 1
    np.testing.assert_array_equal(dataset.graph.x.to_dense(), expected)
    np.testing.assert_array_equal(dataset.y, arrays["labels"])
    assert dataset.splits.name == "20 random 10/10/80, seed 0"


def test_random_splits_of_a_benchmark_are_those_of_the_published_results(tmp_path, any_counts):
    write_npz(tmp_path / PHOTO)
    folder = tmp_path / "photo"
    folder.mkdir()
    shutil.copy(tmp_path / PHOTO, folder / "graph.npz")
    published = random_splits(12, key=None).roles
    np.testing.assert_array_equal(load("photo", data_dir=tmp_path).splits.roles, published)
    of_a_user = load(folder / "graph.npz").splits.roles
    assert not np.array_equal(of_a_user, published)


def test_dense_features_stay_dense(tmp_path, any_counts):
    write_npz(tmp_path / PHOTO, **csr_arrays("attr", np.ones((12, 4), dtype=np.float32)))
    assert load("photo", data_dir=tmp_path).graph.x.layout == torch.strided


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_planetoid_files_have_one_public_split(name, tmp_path, any_counts):
    write_planetoid(tmp_path, BENCHMARKS[name].raw.folder)
    dataset = load(name, data_dir=tmp_path)
    assert dataset.graph.n == dataset.graph.n_edges == 530
    assert dataset.graph.x.layout == torch.sparse_csr
    assert dataset.splits.name == "1 canonical"
    assert np.bincount(dataset.splits.roles[0]).tolist() == [4, 6, 500, 20]
    assert load(name, data_dir=tmp_path, splits="random", seed=3).splits.name.endswith("seed 3")


def test_wikics_is_directed_as_in_the_paper_with_its_twenty_splits(tmp_path, any_counts):
    write_wikics(tmp_path)
    dataset = load("wikics", data_dir=tmp_path)
    assert dataset.graph.directed
    sources = torch.arange(30)
    assert torch.equal(dataset.graph.edge_index, torch.stack([sources, (sources + 1) % 30]))
    roles = dataset.splits.roles
    assert roles.shape == (20, 30)
    assert (roles[:, 15:] == TEST).all()
    assert roles[1].tolist()[:12] == [
        UNUSED,
        TRAIN,
        UNUSED,
        TRAIN,
        UNUSED,
        VALIDATION,
        UNUSED,
        VALIDATION,
    ] + 4 * [UNUSED]


def test_undirected_wikics_equals_that_of_pyg(tmp_path, any_counts):
    from torch_geometric.datasets import WikiCS
    from torch_geometric.utils import remove_self_loops

    write_wikics(tmp_path)
    graph = load("wikics", data_dir=tmp_path, directed=False).graph
    theirs = WikiCS(str(tmp_path / "WikiCS"), is_undirected=True)[0]
    assert not graph.directed
    assert torch.equal(graph.edge_index, remove_self_loops(theirs.edge_index)[0])
    assert torch.equal(graph.x, theirs.x)


def test_only_wikics_can_be_directed(tmp_path):
    for source in ("photo", "demo", "own.npz"):
        with pytest.raises(UserError, match="undirected; only 'wikics'"):
            load(source, data_dir=tmp_path, directed=True)


def test_a_read_only_data_folder_does_not_change(tmp_path, any_counts, monkeypatch, own_cache):
    data = tmp_path / "data"
    write_npz(data / PHOTO)
    before = tree(data)
    for folder in (data / "Photo" / "raw", data / "Photo", data):
        folder.chmod(0o555)
    monkeypatch.setenv("AFGRL_DATA", str(data))
    assert load("photo").graph.n == 12
    assert tree(data) == before
    assert len(tree(own_cache)) == 2, "one processed file in its folder, no scratch left"


def test_files_are_copied_if_links_fail(tmp_path, any_counts, monkeypatch):
    def refuse(self, target):
        raise OSError("links are not allowed here")

    write_npz(tmp_path / PHOTO)
    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    assert load("photo", data_dir=tmp_path).graph.n == 12


def test_the_second_load_uses_the_cache(tmp_path, any_counts, no_pyg):
    write_wikics(tmp_path)
    first = load("wikics", data_dir=tmp_path)
    no_pyg()
    second = load("wikics", data_dir=tmp_path)
    assert torch.equal(first.graph.x, second.graph.x)
    assert torch.equal(first.graph.edge_index, second.graph.edge_index)
    assert np.array_equal(first.y, second.y)
    assert np.array_equal(first.splits.roles, second.splits.roles)


def test_a_changed_raw_file_is_read_again(tmp_path, any_counts, own_cache):
    path = write_npz(tmp_path / PHOTO)
    first = load("photo", data_dir=tmp_path)
    status = path.stat()
    write_npz(path, labels=small_arrays()["labels"][::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    second = load("photo", data_dir=tmp_path)
    assert np.array_equal(second.y, first.y[::-1])
    assert len(tree(own_cache)) == 2


def test_two_data_folders_have_separate_caches(tmp_path, any_counts):
    for folder, labels in (("one", np.zeros(12, int)), ("two", np.ones(12, int))):
        path = write_npz(tmp_path / folder / PHOTO, labels=labels)
        os.utime(path, ns=(0, 0))
    assert load("photo", data_dir=tmp_path / "one").y.max() == 0
    assert load("photo", data_dir=tmp_path / "two").y.max() == 1


def test_a_damaged_raw_file_is_named_and_can_be_replaced(tmp_path, any_counts, own_cache):
    path = write_npz(tmp_path / PHOTO)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"amazon_electronics_photo\.npz") as caught:
        load("photo", data_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert tree(own_cache) == ["processed"]
    path.write_bytes(whole)
    assert load("photo", data_dir=tmp_path).graph.n == 12


def test_the_damaged_one_of_eight_planetoid_files_is_named(tmp_path, any_counts):
    raw = write_planetoid(tmp_path)
    (raw / "ind.cora.tx").write_bytes(b"no pickle")
    with pytest.raises(UserError, match=r"Cora cannot be read from .*/ind\.cora\.tx "):
        load("cora", data_dir=tmp_path)


def test_counts_other_than_the_papers_are_an_error(tmp_path):
    write_npz(tmp_path / PHOTO)
    sentence = "12 nodes instead of 7,650, 12 edges instead of 119,081, 9 features instead of 745, 3 classes"
    with pytest.raises(UserError, match=sentence):
        load("photo", data_dir=tmp_path)


def test_the_edges_of_wikics_include_self_loops(tmp_path):
    write_wikics(tmp_path)
    with pytest.raises(UserError, match="31 edges instead of 216,123"):
        load("wikics", data_dir=tmp_path)


def test_nothing_is_printed(tmp_path, any_counts, capfd, monkeypatch):
    write_npz(tmp_path / PHOTO)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # PyG prints nothing if this is set
    load("photo", data_dir=tmp_path)
    assert capfd.readouterr() == ("", "")


def test_raw_files_and_urls_are_those_of_pyg(tmp_path):
    import torch_geometric.datasets

    for benchmark in BENCHMARKS.values():
        kind = getattr(torch_geometric.datasets, benchmark.pyg_class)
        assert kind.url.rstrip("/") == benchmark.raw.url
        bare = kind.__new__(kind)  # its constructor would download
        bare.root, bare.name, bare.split = str(tmp_path), benchmark.raw.folder, "public"
        if benchmark.directed:
            bare.root = str(tmp_path / benchmark.raw.folder)
        assert bare.raw_paths == [str(path) for path in benchmark.raw.under(tmp_path)]


@pytest.mark.real_data
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "wikics"])
def test_real_graphs_have_the_papers_counts(name, real_data, no_pyg):
    if BENCHMARKS[name].raw.available() is None:
        pytest.skip(f"the files of {name} are not in AFGRL_DATA")
    dataset, counts = load(name), BENCHMARKS[name].counts
    graph = dataset.graph
    assert (graph.n, graph.n_edges) == (counts.nodes, counts.edges)
    assert (graph.n_features, dataset.n_classes) == (counts.features, counts.classes)
    assert graph.n_isolated == {"photo": 115, "computers": 281, "citeseer": 48}.get(name, 0)
    no_pyg()
    assert torch.equal(load(name).graph.edge_index, graph.edge_index)


def test_downloaded_files_are_cached(tmp_path, any_counts, monkeypatch, own_cache):
    source = write_npz(tmp_path / "web.npz")
    asked = []

    def fetch(url, target):
        asked.append(url)
        shutil.copyfile(source, target)

    monkeypatch.setattr("afgrl.data.benchmarks.raw.fetch", fetch)
    assert load("photo").graph.n == load("photo").graph.n == 12
    assert asked == ["https://github.com/shchur/gnn-benchmark/raw/master/data/npz/amazon_electronics_photo.npz"]
    assert (own_cache / "raw" / PHOTO).is_file()
