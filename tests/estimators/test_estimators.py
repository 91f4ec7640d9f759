import ast
import copy
import inspect
import pickle
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from torch_geometric.data import Data

import afgrl
from afgrl import AFGRL, Dataset, Graph, NodeEmbedder, RandomEncoder, UserError, from_pandas
from afgrl.analysis.clustering import cluster_run, cluster_vectors
from afgrl.analysis.neighbors import find_similar
from afgrl.analysis.new_nodes import embed_new_nodes
from afgrl.csr import csr_from_scipy
from afgrl.data.splits import random_splits
from afgrl.estimators.base import MethodEstimator
from afgrl.experiment.evaluation import evaluate_run
from afgrl.methods import method_class
from afgrl.methods.afgrl import AFGRLSettings
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from tools import generate_estimators

SMALL = {
    "epochs": 5,
    "n_components": 8,
    "predictor_width": 8,
    "n_clusters": 4,
    "n_restarts": 2,
    "kmeans_iters": 3,
    "n_hops": 0,
    "device": "cpu",
}


@pytest.fixture
def fitted(small_graph):
    return AFGRL(**SMALL).fit(small_graph)


def test_the_generated_classes_are_up_to_date():
    """`make generate` writes them; formatting does not matter."""
    stored, current = (
        ast.parse(text) for text in (generate_estimators.FILE.read_text(encoding="utf-8"), generate_estimators.source())
    )
    assert ast.dump(stored) == ast.dump(current)


def test_parameters_are_the_settings_with_their_defaults():
    parameters = AFGRL().get_params()
    fields = AFGRLSettings.model_fields
    expected = {
        name: None if field.is_required() else field.default for name, field in fields.items() if name != "seed"
    }
    assert parameters == expected | {"random_state": 0, "device": "auto", "verbose": False}
    documented = inspect.getdoc(AFGRL)
    for name in parameters:
        assert f"{name} : " in documented


def test_a_misspelled_parameter_is_a_type_error():
    """Type checkers see it too: tests/typing/estimator_signatures.py."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        AFGRL(epoch=3)


def test_the_scikit_learn_api():
    estimator = AFGRL(n_neighbors=8, random_state=3)
    assert estimator.get_params()["n_neighbors"] == 8
    assert estimator.set_params(n_neighbors=6) is estimator
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()
    assert "n_neighbors=6" in repr(estimator)
    with pytest.raises(ValueError, match="Invalid parameter 'neighbors'"):
        estimator.set_params(neighbors=3)


def test_random_state_is_the_seed(small_graph):
    assert AFGRL(**SMALL, random_state=5).fit(small_graph).method_.settings.seed == 5
    drawn = [AFGRL(**SMALL, random_state=np.random.RandomState(1)).fit_transform(small_graph) for _ in range(2)]
    assert np.array_equal(*drawn)
    assert not np.array_equal(drawn[0], AFGRL(**SMALL).fit_transform(small_graph))


def test_a_subclass_has_the_method_of_its_parent(small_graph):
    class Mine(AFGRL):
        pass

    fitted = Mine(**SMALL).fit(small_graph)
    assert type(clone(fitted)) is Mine
    assert clone(fitted).get_params() == AFGRL(**SMALL).get_params()
    assert np.array_equal(fitted.embedding_, AFGRL(**SMALL).fit_transform(small_graph))


def test_encoder_is_the_trained_network(fitted, small_graph):
    assert isinstance(fitted.encoder_, torch.nn.Module)
    vectors = fitted.encoder_(fitted.method_.prepare(small_graph).propagated)
    assert np.allclose(vectors.detach().numpy(), fitted.embedding_)
    with pytest.raises(AttributeError, match="'raw' has no encoder"):
        _ = afgrl.RawFeatures(device="cpu").fit(small_graph).encoder_


def test_vectors_that_are_the_features_may_be_changed():
    features = np.ones((3, 2), dtype=np.float32)
    graph = Graph(features, np.array([[0, 1], [1, 2]]))
    estimator = afgrl.RawFeatures(device="cpu")
    estimator.fit_transform(graph)[:] = 7
    estimator.transform(graph)[:] = 7
    assert (features == 1).all()


def test_vectors_for_pyg_are_where_its_edges_are(fitted, small_graph, monkeypatch):
    data = Data(x=small_graph.x, edge_index=small_graph.edge_index)
    assert np.array_equal(fitted.to_pyg(data).x, fitted.embedding_)
    monkeypatch.setattr(fitted, "transform", lambda graph: fitted.embedding_)
    assert fitted.to_pyg(data.to("meta")).x.device.type == "meta"  # stands for a GPU


def test_a_wrong_value_is_said_at_fit(small_graph):
    with pytest.raises(UserError, match="'n_neighbors' cannot be 0"):
        AFGRL(n_neighbors=0).fit(small_graph)


def test_fit_keeps_what_it_promises(fitted, small_graph):
    assert fitted.embedding_.shape == (small_graph.n, 8)
    assert fitted.embedding_.dtype == np.float32
    assert np.array_equal(fitted.node_ids_, small_graph.ids)
    assert fitted.history_[0]["epoch"] == 1
    assert fitted.n_features_in_ == 12


def test_labels_passed_to_fit_are_never_read(fitted, small_graph):
    labels = np.full(small_graph.n, np.nan)
    assert np.array_equal(AFGRL(**SMALL).fit_transform(small_graph, labels), fitted.embedding_)


def test_every_kind_of_graph_gives_the_same_vectors(fitted, small_graph):
    n, x, edges = small_graph.n, small_graph.x, small_graph.edge_index
    adjacency = sp.coo_array((np.ones(edges.shape[1]), edges.numpy()), shape=(n, n))
    network = nx.Graph()
    network.add_nodes_from((i, {"x": x[i].numpy()}) for i in range(n))
    network.add_edges_from(edges.T.tolist())
    for source in (Data(x=x, edge_index=edges), (adjacency, x.numpy()), network):
        assert np.array_equal(AFGRL(**SMALL).fit_transform(source), fitted.embedding_)


def test_transform_embeds_new_graphs_without_training(fitted, small_graph):
    assert np.array_equal(fitted.transform(small_graph), fitted.embedding_)
    one_more = Graph(np.vstack([small_graph.x, small_graph.x[:1]]), small_graph.edge_index)
    assert fitted.transform(one_more).shape == (small_graph.n + 1, 8)
    # A node's vector depends on its own neighborhood only, and the new node has no edge.
    assert np.allclose(fitted.transform(one_more)[:-1], fitted.embedding_, atol=1e-6)
    with pytest.raises(UserError, match="Fitted on 12 features, but the graph has 3"):
        fitted.transform(Graph(np.eye(3), np.empty((2, 0))))


def tables(n=40, first=0):
    names = [f"p{i}" for i in range(first, first + n)]
    nodes = pd.DataFrame(
        {
            "id": names,
            "age": [20 + (7 * i) % 41 for i in range(n)],
            "city": [["Rome", "Oslo", "Lima"][i % 3] for i in range(n)],
        }
    )
    return nodes, pd.DataFrame({"source": names, "target": [*names[1:], names[0]]})


def test_new_tables_become_features_as_those_of_the_training(tmp_path):
    """One part of the graph, whose own means and cities are others, has the vectors it had in the whole."""
    (nodes, edges), (others, links) = tables(), tables(20, first=100)
    others["age"] += 30
    others["city"] = "Lima"
    both = pd.concat([nodes, others]), pd.concat([edges, links])
    model = AFGRL(epochs=5, n_components=8, device="cpu").fit(both)
    expected = model.embedding_[40:]
    np.testing.assert_allclose(model.transform((others, links)), expected, atol=1e-5)
    model.save(tmp_path / "run")
    with pytest.raises(UserError, match="force=True replaces a run"):
        model.save(tmp_path / "run")
    again = AFGRL.load(tmp_path / "run", device="cpu")
    np.testing.assert_allclose(again.transform((others, links)), expected, atol=1e-5)
    for name, table in (("nodes", others), ("edges", links)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    run = Run.open(tmp_path / "run")
    new = embed_new_nodes(run, str(tmp_path), torch.device("cpu"), alone=True)
    ids, vectors = new.ids, new.vectors
    assert ids.tolist() == others.id.tolist()
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    graph = from_pandas(others, links, like=from_pandas(*both))
    np.testing.assert_allclose(model.transform(graph), expected, atol=1e-5)
    with pytest.raises(UserError, match="other means and categories"):
        model.transform(from_pandas(others, links))
    with pytest.raises(UserError, match="not made from tables"):
        from_pandas(others, links, like=Graph(torch.eye(2), torch.empty(2, 0)))


def test_what_was_repaired_in_tables_is_a_warning():
    nodes, edges = tables()
    edges.loc[0, "target"] = None
    with pytest.warns(UserWarning, match="with a missing end, dropped: 1"):
        from_pandas(nodes, edges)


def test_neighbors_are_scikit_learns(fitted):
    expected = NearestNeighbors(n_neighbors=4, metric="cosine").fit(fitted.embedding_)
    distance, index = fitted.kneighbors(n_neighbors=4)
    assert np.allclose(distance, expected.kneighbors()[0], atol=1e-5)
    queries = fitted.embedding_[:3] + 0.1
    assert np.array_equal(fitted.kneighbors(queries, 4, return_distance=False), expected.kneighbors(queries)[1])
    assert index.shape == (len(fitted.embedding_), 4)


@pytest.mark.parametrize("shape", [(32,), (2, 31)])
def test_vectors_of_another_shape_get_one_sentence(shape, small_graph):
    model = AFGRL(epochs=1, n_components=32, device="cpu").fit(small_graph)
    with pytest.raises(UserError, match=r"X must have shape \[q, 32\], not"):
        model.kneighbors(np.ones(shape))


def test_what_is_not_fitted_says_so(small_graph, tmp_path):
    for call in (
        lambda e: e.transform(small_graph), lambda e: e.kneighbors(), lambda e: e.cluster(),
        lambda e: e.save(tmp_path / "run"),
    ):  # fmt: skip
        with pytest.raises(NotFittedError):
            call(AFGRL())


def test_clusters_are_those_of_the_command_line(small_graph, tmp_path):
    fitted = RandomEncoder(n_components=8, device="cpu").fit(small_graph)
    fitted.save(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    for k in (None, 3):
        cluster_run(run, k)
        labels = fitted.cluster(k)
        assert np.array_equal(labels, run.clusters()[0])
        assert np.array_equal(labels, RandomEncoder.load(tmp_path / "run", device="cpu").cluster(k))
        assert fitted.labels_ is labels


def test_fit_predict_learns_and_clusters(small_graph):
    estimator = AFGRL(**SMALL, random_state=2)
    labels = estimator.fit_predict(small_graph, np.zeros(small_graph.n), n_clusters=20)  # the second is never read
    assert np.array_equal(labels, estimator.labels_)
    assert sorted(set(labels.tolist())) == list(range(20))
    assert np.array_equal(labels, cluster_vectors(estimator.embedding_, 20, seed=2, graph=small_graph).labels)
    automatic = make_pipeline(clone(estimator)).fit_predict(small_graph)
    assert np.array_equal(automatic, estimator.cluster())
    with pytest.raises(UserError, match="between 1 and 62, not 63"):
        estimator.cluster(63)
    assert np.array_equal(automatic, estimator.labels_)
    estimator.fit(small_graph)
    assert not hasattr(estimator, "labels_")  # those of the earlier fit


def test_saved_and_loaded_it_is_the_same(fitted, small_graph, tmp_path):
    fitted.save(tmp_path / "run")
    loaded = AFGRL.load(tmp_path / "run", device="cpu")
    assert np.array_equal(loaded.embedding_, fitted.embedding_)
    assert np.array_equal(loaded.transform(small_graph), fitted.embedding_)
    assert loaded.history_ == fitted.history_
    given = {name: value for name, value in fitted.get_params().items() if value is not None}
    assert given.items() <= loaded.get_params().items()  # those that followed the graph have its values now
    with pytest.raises(UserError, match="force=True"):
        fitted.save(tmp_path / "run")
    assert len(find_similar(Run.open(tmp_path / "run"), ["0"], k=3)["0"]) == 3  # the command line reads it too
    with pytest.raises(UserError, match="has no labels"):
        evaluate_run(Run.open(tmp_path / "run"), torch.device("cpu"))


def test_a_dataset_is_saved_with_its_labels_which_training_does_not_read(fitted, small_graph, tmp_path):
    dataset = Dataset("mine", small_graph, np.arange(small_graph.n) % 2, random_splits(small_graph.n))
    model = AFGRL(**SMALL).fit(dataset)
    assert np.array_equal(model.embedding_, fitted.embedding_)
    model.save(tmp_path / "run")
    scores = evaluate_run(Run.open(tmp_path / "run"), torch.device("cpu"))
    assert scores["baselines"].keys() == {"raw", "hops", "random", "svd", "ppr"}


@pytest.mark.parametrize("in_batches", [False, True])
def test_it_can_be_copied(in_batches, small_graph):
    """Features in CSR are tensors that PyTorch does not copy."""
    settings = {name: value for name, value in SMALL.items() if name not in ("epochs", "n_hops")} | {"steps": 3}
    graph = replace(small_graph, x=csr_from_scipy(small_graph.x.numpy()))
    fitted = (NodeEmbedder(**settings) if in_batches else AFGRL(**SMALL)).fit(graph)
    copied = copy.deepcopy(fitted)
    assert np.array_equal(copied.transform(graph), fitted.transform(graph))
    copied.embedding_[:] = 0
    assert fitted.embedding_.any()


def test_it_can_be_pickled(fitted, small_graph):
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(small_graph), fitted.embedding_)


def test_a_verbose_fit_shows_progress(small_graph, capsys):
    AFGRL(**SMALL, verbose=True).fit(small_graph)
    assert "5/5" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(cls.__name__ for cls in MethodEstimator.__subclasses__()))
def test_every_sibling_fits_saves_and_loads(name, small_graph, tmp_path):
    cls = getattr(afgrl, name)
    small = {**SMALL, "hidden_width": 8, "projection_width": 8, "walk_length": 6, "batch_size": 32, "keep": 5}
    known = {key: value for key, value in small.items() if key in inspect.signature(cls).parameters}
    if method_class(cls.method).supports_batches:  # epochs are full batches
        del known["batch_size"]
    fitted = cls(**known).fit(small_graph)
    assert fitted.embedding_.shape[0] == small_graph.n
    assert clone(fitted).get_params() == fitted.get_params()
    assert np.array_equal(fitted.transform(small_graph), fitted.embedding_)
    fitted.save(tmp_path / "run")
    loaded = cls.load(tmp_path / "run", device="cpu")
    assert np.array_equal(loaded.transform(small_graph), fitted.embedding_)
    assert fitted.kneighbors(n_neighbors=3, return_distance=False).shape == (small_graph.n, 3)


def test_an_interrupted_save_can_be_repeated(fitted, tmp_path, monkeypatch):
    """In the same process, as in a notebook; ``tests/faults`` kills the process at every file operation."""
    path = tmp_path / "run"
    for name in ("save_spec", "save_dataset", "save_embedding", "save_model"):
        with monkeypatch.context() as patch:
            patch.setattr(Run, name, lambda *arguments, **options: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                fitted.save(path)
    fitted.save(path)
    assert np.array_equal(AFGRL.load(path, device="cpu").embedding_, fitted.embedding_)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for error in (KeyboardInterrupt, OSError):
        with monkeypatch.context() as patch:
            patch.setattr(Run, "save_embedding", lambda *arguments, error=error: (_ for _ in ()).throw(error))
            with pytest.raises(error):
                fitted.save(path, force=True)
        assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_run_of_the_command_line_is_not_an_unfinished_save(fitted, tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_spec(RunSpec("demo"))
    with pytest.raises(UserError, match="force=True replaces a run"):
        fitted.save(run.path)
