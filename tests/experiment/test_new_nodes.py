"""Accuracy on nodes that were held out of training."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl import Dataset, Graph, UserError
from afgrl.csr import csr_from_scipy
from afgrl.experiment import new_nodes
from afgrl.experiment.new_nodes import held_out_accuracy, held_out_nodes, new_node_accuracy, subgraph
from afgrl.runs.spec import RunSpec


def test_a_tenth_of_the_nodes_is_held_out():
    assert held_out_nodes(57, draw=0).sum() == 5
    assert np.array_equal(held_out_nodes(57, draw=1), held_out_nodes(57, draw=1))
    assert not np.array_equal(held_out_nodes(57, draw=0), held_out_nodes(57, draw=1))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_subgraph_has_the_edges_between_its_nodes(sparse):
    x = torch.arange(10.0).view(5, 2)
    edges = torch.tensor([[0, 0, 1, 3], [1, 4, 3, 4]])
    x = csr_from_scipy(sp.csr_array(x.numpy())) if sparse else x
    graph = Graph(x, edges, edge_weight=torch.tensor([2.0, 4.0, 6.0, 8.0]))  # each edge in one direction: half of it
    part = subgraph(graph, np.array([True, False, False, True, True]))
    assert part.x.to_dense().tolist() == [[0.0, 1.0], [6.0, 7.0], [8.0, 9.0]]
    assert part.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    assert part.edge_weight.tolist() == [2.0, 4.0, 2.0, 4.0]


def test_only_held_out_nodes_with_labels_are_tested():
    y = np.arange(200) % 2
    held_out = held_out_nodes(200, draw=0)
    vectors = np.eye(2, dtype=np.float32)[y]
    y[np.flatnonzero(held_out)[:3]] = -1  # unlabeled
    assert held_out_accuracy(vectors, y, held_out) == 100
    wrong = np.flatnonzero(held_out & (y >= 0))[:4]
    vectors[wrong] = 1 - vectors[wrong]
    assert held_out_accuracy(vectors, y, held_out) == pytest.approx(100 * 13 / 17)
    vectors[~held_out] = 1 - vectors[~held_out]  # the classifier learns from the others
    assert held_out_accuracy(vectors, y, held_out) == pytest.approx(100 * 4 / 17)
    with pytest.raises(UserError, match="needs labels"):
        held_out_accuracy(vectors, None, held_out)


def test_training_does_not_see_the_held_out_nodes(monkeypatch):
    rng = torch.Generator().manual_seed(0)
    y = np.arange(120) % 2
    x = torch.randn(120, 6, generator=rng) + 3.0 * torch.from_numpy(y)[:, None]
    first, second = torch.randint(60, (2, 300), generator=rng)
    dataset = Dataset("two", Graph(x, torch.stack([2 * first, 2 * second])), y)  # edges within a class
    trained, initial_state = [], new_nodes.initial_state

    def kept(method, settings, graph, device):
        trained.append((settings, graph))
        return initial_state(method, settings, graph, device)

    monkeypatch.setattr(new_nodes, "initial_state", kept)
    spec = RunSpec("two", "cca_ssg", settings={"epochs": 2, "n_components": 8})
    assert new_node_accuracy(spec, dataset, torch.device("cpu")) > 80
    (settings, graph), held_out = trained[0], held_out_nodes(120, draw=0)
    assert (settings.epochs, settings.n_components) == (2, 8)
    assert graph.n == 108
    assert torch.equal(graph.x, x[torch.from_numpy(~held_out)])
