"""The export of the default embedding: the encoder, the vectors without training, and their projection."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from afgrl.config import resolve
from afgrl.experiment.model import describe_model, load_method
from afgrl.graph import Graph
from afgrl.methods.parts import batch_inputs, spectral
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.runs.folder import Run
from afgrl.train.loop import training_loop
from afgrl.train.state import initial_state
from tests.conftest import communities, weighted

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from afgrl.onnx import export_encoder
from tests.onnx.test_export import HUB, embed, session

CPU = torch.device("cpu")
SMALL = {"steps": 3, "batch_size": 16, "n_components": 8, "n_neighbors": 4, "n_clusters": 4, "kmeans_iters": 2}


def words(seed=0, n=60, n_features=40):
    """A graph whose sparse features and tables stay sparse."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, n, size=(2, n // 2))
    return Graph(sp.random_array((n, n_features), density=0.02, rng=draw, format="csr"), ends)


def others(n_features):
    """Graphs that were not trained on: another size, one node, no edges, a hub, features of length zero."""
    draw = np.random.default_rng(3)
    yield communities(seed=1, size=13, n_features=n_features, n_isolated=5)
    yield Graph(draw.normal(size=(1, n_features)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(6, n_features)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(80, n_features)), HUB)
    yield Graph(np.zeros((3, n_features)), np.array([[0], [1]]))


def exported(folder, graph, **given):
    """The trained method of a run, and an ONNX session of its export."""
    settings = resolve(NodeEmbedderSettings, SMALL | given, graph=graph)
    state, inputs = initial_state("node_embedder", settings, graph, CPU)
    training_loop(state, inputs)
    state.method.complete(inputs)
    run = Run.create(folder / "run")
    description = describe_model(state.method, weighted=graph.edge_weight is not None, epochs=state.step, seconds=0)
    run.save_model(state.method.state_dict(), description)
    export_encoder(run, folder / "model.onnx")
    return load_method(run, CPU), session(folder / "model.onnx")


def assert_same_vectors(method, opened, graph, *, has_weights=False):
    found, expected = embed(opened, graph, weighted=has_weights), method.embed_graph(graph).numpy()
    # The orders of sums differ, and S(XW) is computed as (SX)W where that is cheaper: a few roundings of 6e-8 in
    # vectors of length up to 20, which the scaling to unit rows may enlarge.
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4), (graph, np.abs(found - expected).max())


@pytest.mark.parametrize(("skip", "n_hops"), [("none", 0), ("none", 2), ("svd", 1), ("svd+ppr", 0), ("svd+ppr", 2)])
def test_sparse_features(tmp_path, skip, n_hops):
    graph = words()
    method, opened = exported(tmp_path, graph, input="features", skip=skip, n_hops=n_hops)
    for other in [graph, words(seed=1, n=33), *others(graph.n_features)]:
        assert_same_vectors(method, opened, other)


@pytest.mark.parametrize("graph", [words(), communities()])
def test_own_features_without_those_of_neighbors(tmp_path, graph):
    method, opened = exported(tmp_path, graph, input="own", skip="svd")
    for other in [graph, *others(graph.n_features)]:
        assert_same_vectors(method, opened, other)


@pytest.mark.parametrize("skip", ["none", "svd+ppr"])
def test_dense_features(tmp_path, skip):
    graph = communities()
    method, opened = exported(tmp_path, graph, skip=skip)
    assert method.settings.input == "svd"
    for other in [graph, *others(graph.n_features)]:
        assert_same_vectors(method, opened, other)


@pytest.mark.parametrize(("n_inputs", "n_components"), [(6, 9), (9, 6)])
def test_many_features_are_projected_and_the_encoder_reads_its_own_directions(
    tmp_path, monkeypatch, n_inputs, n_components
):
    monkeypatch.setattr(spectral, "RANK", 5)
    monkeypatch.setattr(batch_inputs, "SVD_WIDTH", n_inputs)
    method, opened = exported(tmp_path, communities(), n_components=n_components)
    assert method.spectral.basis.shape == (12, 5)
    assert method.encoder.weights[0].shape[0] == n_inputs
    for other in [communities(), *others(12)]:
        assert_same_vectors(method, opened, other)


def test_weighted_edges(tmp_path):
    graph = weighted(communities())
    method, opened = exported(tmp_path, graph)
    for other in [graph, weighted(communities(seed=1), seed=5), *others(graph.n_features)]:
        assert_same_vectors(method, opened, other, has_weights=True)


@pytest.mark.parametrize("n", [1, 6])
def test_training_without_edges(tmp_path, n):
    graph = Graph(np.random.default_rng(0).normal(size=(n, 12)), np.empty((2, 0)))
    method, opened = exported(tmp_path, graph, n_neighbors=1)
    for other in [graph, communities()]:
        assert_same_vectors(method, opened, other)
