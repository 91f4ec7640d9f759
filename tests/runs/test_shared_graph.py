"""The graph of a run as several processes read it: mapped files with the values of the dataset."""

import numpy as np
import pytest
import torch

from afgrl.data.dataset import Dataset
from afgrl.data.formats import array_folder, arrays
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.ops.propagation.adjacency import edge_numbers_from, gcn_norm_rows
from afgrl.ops.sparse.rows import row_range
from afgrl.runs import dataset_files, graph_file
from afgrl.runs.folder import Run
from afgrl.runs.shared_graph import FEATURES
from afgrl.runs.spec import RunSpec
from afgrl.runs.tensor_file import read_tensors, write_tensors
from tests.conftest import communities, weighted
from tests.methods.cases import sparse_graph

GRAPHS = {
    "dense": communities,
    "sparse": sparse_graph,
    "weighted": lambda: weighted(communities()),
    "directed": lambda: Graph(torch.eye(4), torch.tensor([[3, 0, 2], [0, 2, 1]]), directed=True),
    "without edges": lambda: Graph(torch.ones(3, 2), torch.empty(2, 0, dtype=torch.int64)),
}


def saved(folder, graph, source="somewhere.npz"):
    folder.mkdir()
    run = Run(folder)
    run.save_spec(RunSpec(source))
    run.save_dataset(Dataset("graph", graph))
    return run


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_rows_are_those_of_the_graph(tmp_path, monkeypatch, name, outside):
    monkeypatch.setattr(dataset_files, "MAX_FEATURE_BYTES", 0 if outside else 1 << 30)
    graph = GRAPHS[name]()
    run = saved(tmp_path / "run", graph)
    run.share_features(graph.x)
    assert (run.path / FEATURES).exists() == outside
    run.check_shared_graph()
    found = run.shared_graph()
    assert (found.n, found.n_features) == (graph.n, graph.n_features)
    for begin, end in ((0, graph.n), (1, graph.n - 1), (2, 2)):
        for one, other in (
            (row_range(found.x, begin, end), row_range(graph.x, begin, end)),
            (gcn_norm_rows(found, begin, end), gcn_norm_rows(graph, begin, end)),
        ):
            assert one.layout == other.layout
            assert torch.equal(one.to_dense(), other.to_dense())
        assert torch.equal(edge_numbers_from(found, begin, end), edge_numbers_from(graph, begin, end))
    assert run.ids().tolist() == graph.ids.tolist()


def test_features_of_a_folder_of_arrays_stay_there(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_files, "MAX_FEATURE_BYTES", 0)
    for module in (array_folder, arrays):
        monkeypatch.setattr(module, "MAPPED_BYTES", 0)
    source = tmp_path / "source"
    source.mkdir()
    x = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.save(source / "features.npy", x)
    np.save(source / "edges.npy", np.array([[0, 1], [1, 2]]))
    graph = RunSpec(str(source)).load().graph
    run = saved(tmp_path / "run", graph, str(source))
    run.share_features(graph.x)
    assert not (run.path / FEATURES).exists()
    run.check_shared_graph()
    assert np.array_equal(run.shared_graph().x.numpy(), x)
    np.save(source / "features.npy", x + 1)
    with pytest.raises(UserError, match="differ from those that"):
        run.check_shared_graph()
    # Of another type they are converted when they are read, so that processes need a copy.
    np.save(source / "features.npy", x.astype(np.float64))
    run.check_shared_graph()
    assert (run.path / FEATURES).exists()
    assert np.array_equal(run.shared_graph().x.numpy(), x)


def test_unsorted_edges_are_refused(tmp_path, monkeypatch):
    """A checksum does not say that the file has a graph."""
    monkeypatch.setattr(graph_file, "CHECKED_EDGES", 7)
    run = saved(tmp_path / "run", communities())
    file = run.path / "graph.safetensors"
    tensors, metadata = read_tensors(file)
    edges = tensors["edge_index"].clone()
    edges[:, [13, 14]] = edges[:, [14, 13]]  # the last edge of a block, and the first one of the next
    write_tensors(file, tensors | {"edge_index": edges}, {"n_features": metadata["n_features"]})
    with pytest.raises(UserError, match="not sorted"):
        run.check_shared_graph()


def test_a_complete_run_has_no_copy_for_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset_files, "MAX_FEATURE_BYTES", 0)
    graph = communities()
    run = saved(tmp_path / "run", graph)
    run.share_features(graph.x)
    run.save_model({}, {})
    assert not (run.path / FEATURES).exists()
