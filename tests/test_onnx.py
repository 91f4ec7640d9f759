import sys

import numpy as np
import pytest
import torch

import afgrl
from afgrl import estimator
from afgrl.errors import UserError
from afgrl.experiment import load_method
from afgrl.graph import Graph
from afgrl.methods import methods
from afgrl.ops import smoothing
from afgrl.runs import Run
from tests.conftest import communities, weighted

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

from afgrl.onnx import encoder, export  # noqa: E402
from afgrl.onnx.sums import sum_runs  # noqa: E402

SMALL = {"epochs": 3, "n_components": 8, "predictor_width": 6, "n_clusters": 4, "device": "cpu"}
HUB = np.stack([np.zeros(70, dtype=int), np.arange(1, 71)])  # more neighbors than 64: seven rounds of additions


def graphs():
    """Of other sizes than the one learned from."""
    draw = np.random.default_rng(3)
    yield communities(seed=1, size=13, n_isolated=5)
    yield Graph(draw.normal(size=(1, 12)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(6, 12)), np.empty((2, 0)))
    yield Graph(draw.normal(size=(80, 12)), HUB)
    yield Graph(np.zeros((3, 12)), np.array([[0], [1]]))


def trained(path, graph=None, **settings):
    model = estimator.AFGRL(**SMALL | settings).fit(graph or communities())
    model.save(path)
    return model, Run.open(path)


def session(file, threads=0):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def vectors(opened, graph, *, weighted=False):
    given = {"x": graph.x.to_dense().numpy(), "edge_index": graph.edge_index.numpy()}
    if weighted:
        weight = torch.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
        given["edge_weight"] = weight.numpy()
    return opened.run(["embedding"], given)[0]


def agrees(file, model, graph):
    # Sums in another order, and one product less where smoothing comes first.
    return np.allclose(
        vectors(session(file), graph, weighted=model.weighted_), model.transform(graph), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("n_hops", "n_layers", "normalization"),
    [(0, 1, "frozen"), (1, 1, "frozen"), (2, 1, "batch"), (0, 2, "layer"), (2, 2, "frozen"), (1, 2, "none")],
)
def test_afgrl_in_onnxruntime(tmp_path, n_hops, n_layers, normalization):
    model, run = trained(tmp_path / "run", n_hops=n_hops, n_layers=n_layers, normalization=normalization)
    export(run, tmp_path / "model.onnx")
    own = vectors(session(tmp_path / "model.onnx"), communities())
    assert np.allclose(own, run.embedding()[1], rtol=1e-4, atol=1e-4)
    for graph in graphs():
        assert agrees(tmp_path / "model.onnx", model, graph), graph


def test_weights_of_edges_are_a_third_input_where_training_had_them(tmp_path):
    model, run = trained(tmp_path / "run", weighted(communities()), n_hops=1)
    export(run, tmp_path / "model.onnx")
    assert [given.name for given in session(tmp_path / "model.onnx").get_inputs()] == ["x", "edge_index", "edge_weight"]
    for graph in [weighted(communities(seed=1), seed=5), *graphs()]:
        assert agrees(tmp_path / "model.onnx", model, graph), graph
    again = estimator.AFGRL.load(tmp_path / "run", device="cpu")
    again.save(tmp_path / "again")
    assert Run.open(tmp_path / "again").learned_from_weights


@pytest.mark.parametrize("name", ["BGRL", "DGI", "GCA", "GMI", "GRACE", "RandomEncoder"])
def test_other_encoders_in_onnxruntime(tmp_path, name):
    cls = getattr(estimator, name)
    few = {key: value for key, value in SMALL.items() if key in cls().get_params()}
    model = cls(**few | ({"epochs": 0} if name == "RandomEncoder" else {})).fit(communities())
    model.save(tmp_path / "run")
    export(Run.open(tmp_path / "run"), tmp_path / "model.onnx")
    for graph in graphs():
        assert agrees(tmp_path / "model.onnx", model, graph), graph


REFUSED = {"deepwalk", "deepwalk_feats", "hops", "mvgrl", "node2vec", "raw"}


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_is_exported_or_refused_by_name(rng, name):
    cls = methods()[name]
    method = cls(cls.Config().adapted(communities()), afgrl.methods.Size(62, 12), rng)
    if name not in REFUSED:
        assert encoder.plain_encoder(method).layers.weights
        return
    with pytest.raises(UserError, match=f"The method '{name}' has no encoder that ONNX could hold") as caught:
        encoder.plain_encoder(method)
    assert all(other in str(caught.value) for other in methods().keys() - REFUSED)


def test_the_first_network_of_the_supervised_method(rng):
    cls, graph = methods()["supervised_gcn"], communities()
    config = cls.Config(n_components=5, n_classes=3, n_splits=2, row_sums=True)
    method = cls(config, afgrl.methods.Size(graph.n, graph.n_features), rng).eval()
    found = encoder.plain_encoder(method)(graph.x, graph.edge_index)
    assert torch.allclose(found, method.embed(graph), atol=1e-6)  # sums in another order


@pytest.mark.parametrize("columns", [512, 5])
def test_smoothing_is_that_of_training(monkeypatch, columns):
    monkeypatch.setattr(encoder, "COLUMNS", columns)
    for graph in [communities(), weighted(communities()), *graphs()]:
        found = encoder.Smoothing(graph.edge_index, graph.n, graph.edge_weight) @ graph.x
        assert torch.allclose(found, smoothing(graph) @ graph.x, atol=1e-5)  # sums in another order
    directed = Graph(torch.randn(4, 3), torch.tensor([[0, 1, 1, 2], [1, 2, 3, 0]]), directed=True)
    found = encoder.Smoothing(directed.edge_index, 4) @ directed.x
    assert torch.allclose(found, smoothing(directed) @ directed.x, atol=1e-6)


def test_wide_features_go_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "COLUMNS", 5)
    model, run = trained(tmp_path / "run", n_hops=2)
    export(run, tmp_path / "model.onnx")
    assert agrees(tmp_path / "model.onnx", model, communities(seed=2))


def test_sums_of_runs_by_hand():
    rows = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])
    assert sum_runs(rows, torch.tensor([0, 1, 2, 0]), 2).tolist() == [[6, 60], [4, 40]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A trained model, and its file in a folder of its own."""
    folder = tmp_path_factory.mktemp("exported")
    model, run = trained(folder / "run", n_hops=1, n_components=64)
    (folder / "file").mkdir()
    return model, folder / "file" / "model.onnx", export(run, folder / "file" / "model.onnx")


def test_many_edges_and_threads_lose_no_summand(exported):
    """As onnxruntime's own scattered sums do: the hubs came out otherwise each time."""
    model, file, _ = exported
    draw = np.random.default_rng(0)
    ends = np.stack([draw.integers(0, 3, 60_000), draw.integers(3, 40_000, 60_000)])
    graph = Graph(draw.normal(size=(40_000, 12)), ends)
    opened = session(file, threads=2)
    first, second = vectors(opened, graph), vectors(opened, graph)
    assert np.array_equal(first, second)
    assert np.allclose(first, model.transform(graph), rtol=1e-4, atol=1e-4)  # sums in another order


def test_another_runtime_agrees(exported):
    from onnx.reference import ReferenceEvaluator

    model, file, _ = exported
    for graph in graphs():
        found = vectors(ReferenceEvaluator(str(file)), graph)
        assert np.allclose(found, model.transform(graph), rtol=1e-4, atol=1e-4), graph


def test_a_value_that_is_not_finite_stays_with_its_neighbors(exported):
    _, file, _ = exported
    graph = Graph(np.ones((5, 12)), np.array([[0, 2], [1, 3]]))
    graph.x[1] = torch.inf
    found = vectors(session(file), graph)
    assert not np.isfinite(found[0]).all()
    assert np.isfinite(found[2:]).all()


def test_what_the_file_says_of_itself(exported):
    _, file, says = exported
    assert (says["method"], says["features"], says["afgrl"]) == ("afgrl", "12", afgrl.__version__)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert {entry.key: entry.value for entry in model.metadata_props}.items() >= says.items()
    shapes = {
        value.name: [axis.dim_param or axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in [*model.graph.input, *model.graph.output]
    }
    assert shapes == {"x": ["nodes", 12], "edge_index": [2, "edges"], "embedding": ["nodes", 64]}
    assert b"afgrl/onnx" not in file.read_bytes()  # no lines of source
    assert [path.name for path in file.parent.iterdir()] == ["model.onnx"]


def test_exporting_changes_nothing_and_is_quiet(tmp_path, capfd, recwarn):
    _, run = trained(tmp_path / "run", n_hops=0)
    before = {name: value.clone() for name, value in load_method(run, torch.device("cpu")).state_dict().items()
              if isinstance(value, torch.Tensor)}  # fmt: skip
    capfd.readouterr()
    recwarn.clear()
    export(run, tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    after = load_method(run, torch.device("cpu")).state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_what_is_missing_is_said(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"pip install 'afgrl\[onnx\]'"):
        export(Run(tmp_path), tmp_path / "model.onnx")
