import sys

import numpy as np
import pytest
import torch

import afgrl
from afgrl import estimators
from afgrl.config import resolve
from afgrl.errors import UserError
from afgrl.experiment.model import load_method
from afgrl.graph import Graph
from afgrl.methods import Size, available_methods
from afgrl.ops.propagation import gcn_norm
from afgrl.runs.folder import Run
from tests.conftest import communities, weighted

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from afgrl.onnx import encoder, export_encoder  # noqa: E402
from afgrl.onnx.segments import segment_sum  # noqa: E402

SMALL = {"epochs": 3, "n_components": 8, "predictor_width": 6, "n_clusters": 4, "device": "cpu"}
HUB = np.stack([np.zeros(70, dtype=int), np.arange(1, 71)])  # over 64 neighbors: seven rounds of sums


def graphs():
    """Graphs of other sizes than the training graph."""
    draw = np.random.default_rng(3)
    yield communities(seed=1, size=13, n_isolated=5)
    yield Graph(draw.normal(size=(1, 12)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(6, 12)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(80, 12)), HUB)
    yield Graph(np.zeros((3, 12)), np.array([[0], [1]]))


def trained(path, graph=None, **settings):
    model = estimators.AFGRL(**SMALL | settings).fit(graph or communities())
    model.save(path)
    return model, Run.open(path)


def session(file, threads=0):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def embed(opened, graph, *, weighted=False):
    given = {"x": graph.x.to_dense().numpy(), "edge_index": graph.edge_index.numpy()}
    if weighted:
        weight = torch.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
        given["edge_weight"] = weight.numpy()
    return opened.run(["embedding"], given)[0]


def is_close(file, model, graph):
    # The order of sums differs, and S(XW) is computed as (SX)W where that is cheaper.
    return np.allclose(
        embed(session(file), graph, weighted=model.weighted_), model.transform(graph), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("n_hops", "n_layers", "normalization"),
    [(0, 1, "frozen"), (1, 1, "frozen"), (2, 1, "batch"), (0, 2, "batch"), (2, 2, "frozen"), (1, 2, "none")],
)
def test_onnxruntime_gives_the_vectors_of_afgrl(tmp_path, n_hops, n_layers, normalization):
    model, run = trained(tmp_path / "run", n_hops=n_hops, n_layers=n_layers, normalization=normalization)
    export_encoder(run, tmp_path / "model.onnx")
    own = embed(session(tmp_path / "model.onnx"), communities())
    assert np.allclose(own, run.embedding()[1], rtol=1e-4, atol=1e-4)
    for graph in graphs():
        assert is_close(tmp_path / "model.onnx", model, graph), graph


def test_edge_weights_are_an_input_if_training_had_them(tmp_path):
    model, run = trained(tmp_path / "run", weighted(communities()), n_hops=1)
    export_encoder(run, tmp_path / "model.onnx")
    assert [given.name for given in session(tmp_path / "model.onnx").get_inputs()] == ["x", "edge_index", "edge_weight"]
    for graph in [weighted(communities(seed=1), seed=5), *graphs()]:
        assert is_close(tmp_path / "model.onnx", model, graph), graph
    again = estimators.AFGRL.load(tmp_path / "run", device="cpu")
    again.save(tmp_path / "again")
    assert Run.open(tmp_path / "again").model_description()["weighted"]


@pytest.mark.parametrize("name", ["BGRL", "DGI", "GCA", "GMI", "GRACE", "RandomEncoder"])
def test_onnxruntime_gives_the_vectors_of_other_methods(tmp_path, name):
    cls = getattr(estimators, name)
    few = {key: value for key, value in SMALL.items() if key in cls().get_params()}
    model = cls(**few).fit(communities())
    model.save(tmp_path / "run")
    export_encoder(Run.open(tmp_path / "run"), tmp_path / "model.onnx")
    for graph in graphs():
        assert is_close(tmp_path / "model.onnx", model, graph), graph


NOT_EXPORTABLE = {
    "cca_ssg", "deepwalk", "deepwalk_feats", "graphmae2", "hops", "mvgrl", "node2vec", "ns4gc", "ppr", "raw", "sgrl",
    "signa", "supervised_gcn", "svd",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(available_methods()))
def test_every_method_is_exported_or_named_in_the_error(rng, name):
    cls = available_methods()[name]
    method = cls(resolve(cls.settings_class, graph=communities()), Size(62, 12), rng)
    if name not in NOT_EXPORTABLE:
        assert encoder.exportable_encoder(method).layers.weights
        return
    with pytest.raises(UserError, match=f"The method '{name}' cannot be exported to ONNX") as caught:
        encoder.exportable_encoder(method)
    assert all(other in str(caught.value) for other in available_methods().keys() - NOT_EXPORTABLE)


@pytest.mark.parametrize("columns", [512, 5])
def test_the_normalized_adjacency_equals_that_of_training(monkeypatch, columns):
    monkeypatch.setattr(encoder, "MAX_COLUMNS", columns)
    for graph in [communities(), weighted(communities()), *graphs()]:
        found = encoder.NormalizedAdjacency(graph.edge_index, graph.n, graph.edge_weight) @ graph.x
        assert torch.allclose(found, gcn_norm(graph) @ graph.x, atol=1e-5)  # the order of sums differs
    directed = Graph(torch.randn(4, 3), torch.tensor([[0, 1, 1, 2], [1, 2, 3, 0]]), directed=True)
    found = encoder.NormalizedAdjacency(directed.edge_index, 4) @ directed.x
    assert torch.allclose(found, gcn_norm(directed) @ directed.x, atol=1e-6)


def test_wide_features_are_propagated_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "MAX_COLUMNS", 5)
    model, run = trained(tmp_path / "run", n_hops=2)
    export_encoder(run, tmp_path / "model.onnx")
    assert is_close(tmp_path / "model.onnx", model, communities(seed=2))


def test_segment_sums_by_hand():
    rows = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])
    assert segment_sum(rows, torch.tensor([0, 1, 2, 0]), 2).tolist() == [[6, 60], [4, 40]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A trained model, its ONNX file in a separate folder, and the metadata."""
    folder = tmp_path_factory.mktemp("exported")
    model, run = trained(folder / "run", n_hops=1, n_components=64)
    (folder / "file").mkdir()
    return model, folder / "file" / "model.onnx", export_encoder(run, folder / "file" / "model.onnx")


def test_hubs_lose_no_summand_with_two_threads(exported):
    """The scatter operators of onnxruntime do: their sums at hubs differed from call to call."""
    model, file, _ = exported
    draw = np.random.default_rng(0)
    ends = np.stack([draw.integers(0, 3, 60_000), draw.integers(3, 40_000, 60_000)])
    graph = Graph(draw.normal(size=(40_000, 12)), ends)
    opened = session(file, threads=2)
    first, second = embed(opened, graph), embed(opened, graph)
    assert np.array_equal(first, second)
    assert np.allclose(first, model.transform(graph), rtol=1e-4, atol=1e-4)  # the order of sums differs


def test_the_reference_runtime_of_onnx_agrees(exported):
    from onnx.reference import ReferenceEvaluator

    model, file, _ = exported
    for graph in graphs():
        found = embed(ReferenceEvaluator(str(file)), graph)
        assert np.allclose(found, model.transform(graph), rtol=1e-4, atol=1e-4), graph


def test_an_infinite_feature_affects_only_its_neighbors(exported):
    _, file, _ = exported
    graph = Graph(np.ones((5, 12)), np.array([[0, 2], [1, 3]]))
    graph.x[1] = torch.inf
    found = embed(session(file), graph)
    assert not np.isfinite(found[0]).all()
    assert np.isfinite(found[2:]).all()


def test_metadata_and_shapes_of_the_file(exported):
    _, file, metadata = exported
    assert (metadata["method"], metadata["features"], metadata["afgrl"]) == ("afgrl", "12", afgrl.__version__)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.key: entry.value for entry in model.metadata_props}.items() >= metadata.items()
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {"x": ["nodes", 12], "edge_index": [2, "edges"], "embedding": ["nodes", 64]}
    assert b"afgrl/onnx" not in file.read_bytes()  # no source lines
    assert [path.name for path in file.parent.iterdir()] == ["model.onnx"]


def test_an_export_changes_no_weight_and_prints_nothing(tmp_path, capfd, recwarn):
    _, run = trained(tmp_path / "run", n_hops=0)
    before = {name: value.clone() for name, value in load_method(run, torch.device("cpu")).state_dict().items()
              if isinstance(value, torch.Tensor)}  # fmt: skip
    capfd.readouterr()
    recwarn.clear()
    export_encoder(run, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    after = load_method(run, torch.device("cpu")).state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"pip install 'afgrl\[onnx\]'"):
        export_encoder(Run(tmp_path), tmp_path / "model.onnx")
