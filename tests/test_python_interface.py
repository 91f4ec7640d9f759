"""What the command line does, from Python."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from afgrl import (
    AFGRL,
    Graph,
    RawFeatures,
    UserError,
    add_nodes,
    catalog,
    check,
    cluster,
    compare,
    estimate,
    examine,
    export_encoder,
    knn_graph,
    load,
    measure_speed,
    remove_nodes,
    reproduce_results,
    search,
    serve_explorer,
    write_report,
)
from afgrl.cli.entry_point import app
from afgrl.data.read_keywords import ReadKeywords
from afgrl.data.tables.options import ReadOptions
from afgrl.doctor import EXTRAS
from afgrl.experiment.evaluation import evaluate_run
from afgrl.runs.embeddings import write_vectors
from afgrl.runs.folder import Run
from tests.cli.test_commands import afgrl
from tools.generate_reference import PYTHON, public


@pytest.fixture
def people():
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "email": [f"p{i}@x.org" for i in range(40)],
            "zip": [1000 + i % 3 for i in range(40)],
            "age": draw.normal(40, 9, 40).round(2),
            "team": [["red", "blue"][i % 2] for i in range(40)],
        }
    )


@pytest.fixture
def folder(people, tmp_path):
    people.to_csv(tmp_path / "nodes.csv", index=False)
    ends = {"from": people.email, "to": np.roll(people.email, 2)}
    pd.DataFrame(ends).to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path


@pytest.fixture
def dataset(folder):
    return load(folder, id="email", label="team", source="from", target="to", columns={"zip": "category"})


def test_load_takes_the_options_of_the_command_line_by_name(dataset, folder):
    assert dataset.ingested.label == "team"
    assert dataset.graph.ids[0] == "p0@x.org"
    assert dataset.graph.n_features == 4  # three categories and the age
    options = ReadOptions(id="email", label="team", source="from", target="to", columns=("zip=category",))
    same = load(folder, options=options)
    assert np.array_equal(same.graph.x.to_dense(), dataset.graph.x.to_dense())
    assert load(folder, options=options, label="none").y is None
    assert len(load(folder / "nodes.csv", knn_graph=3, label="team").graph.edge_index[0]) >= 120
    assert ReadKeywords.__annotations__.keys() == ReadOptions.__dataclass_fields__.keys()
    with pytest.raises(TypeError, match="labels"):
        load(folder, labels="team")


def test_check_answers_like_the_command(folder, dataset):
    expected = json.loads(afgrl("check", folder, "--label", "team", "--json").stdout)
    assert check(folder, label="team") == expected
    assert check(str(folder), label="team")["classes"] == 2
    assert check(dataset)["nodes"] == 40
    assert check(dataset.graph)["classes"] == 0


def test_a_graph_of_nearest_neighbors(people):
    points = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    graph = knn_graph(points, 3, ids=[f"n{i}" for i in range(30)])
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    similarity = unit @ unit.T - 2 * np.eye(30)
    expected = {(i, j) for i in range(30) for j in np.argsort(-similarity[i])[:3]}
    found = set(zip(*graph.edge_index.tolist(), strict=True))
    assert found == expected | {(j, i) for i, j in expected}
    assert graph.ids[7] == "n7"
    assert isinstance(knn_graph(sp.csr_array(points), 3), Graph)
    table = knn_graph(people, 5, label="team", id="email")
    assert table.ids[3] == "p3@x.org"
    again = knn_graph(people.head(10), 5, label="team", id="email", like=table)
    assert again.table_encoder == table.table_encoder
    with pytest.raises(UserError, match="must be from 1 to 29"):
        knn_graph(points, 30)


@pytest.fixture
def model(dataset):
    return RawFeatures(device="cpu").fit(dataset)


def test_a_model_is_evaluated_as_its_run_is(model, tmp_path):
    scores = model.evaluate(baselines=False)
    model.save(tmp_path / "run")
    again = evaluate_run(Run.open(tmp_path / "run"), model.method_.device, baselines=False)
    assert scores == again
    unlabeled = RawFeatures(device="cpu").fit(model._dataset.graph)
    with pytest.raises(UserError, match="has no labels"):
        unlabeled.evaluate()


def test_models_and_runs_are_compared(model, dataset, tmp_path):
    small = {"epochs": 2, "n_components": 8, "predictor_width": 8, "n_clusters": 4, "device": "cpu"}
    other = AFGRL(**small).fit(dataset)
    other.save(tmp_path / "mine")
    said: list[str] = []
    rows = compare([model, tmp_path / "mine", model], device="cpu", message=said.append)
    assert said[:2] == ["Measuring the vectors of raw.", "Scoring the vectors: trained."]
    assert "Measuring the vectors of mine." in said
    assert [row["name"] for row in rows] == ["raw", "mine", "raw-2"]
    assert [row["method"] for row in rows] == ["raw", "afgrl", "raw"]
    expected = Run.open(tmp_path / "mine").scores()["last-epoch"]
    assert rows[1]["classification accuracy"] == expected["classification"]["accuracy"]["mean"]
    assert rows[0] == rows[2] | {"name": "raw"}
    assert pd.DataFrame(rows).shape[0] == 3
    file = write_report([model, str(tmp_path / "mine")], tmp_path / "both.html", projection="pca")
    assert '"name":"mine"' in file.read_text()
    assert write_report(model, tmp_path / "one.html", projection="pca").is_file()
    with pytest.raises(UserError, match="at least one run"):
        compare([])


@pytest.fixture
def frames(people):
    return people, pd.DataFrame({"from": people.email, "to": np.roll(people.email, 2)})


def test_data_frames_are_read_like_files(frames, dataset, people, tmp_path):
    options = {"id": "email", "label": "team", "columns": {"zip": "category"}}
    same = load(frames, source="from", target="to", **options)
    assert np.array_equal(same.graph.x.to_dense(), dataset.graph.x.to_dense())
    assert np.array_equal(same.graph.edge_index, dataset.graph.edge_index)
    assert np.array_equal(same.y, dataset.y)
    assert same.splits.roles.shape == (20, 40)
    assert check(frames, source="from", target="to", **options)["homophily"] == check(dataset)["homophily"]
    assert load(people, knn_graph=3, **options).graph.n_edges >= 60


@pytest.mark.parametrize("fitted_on", ["dataset", "pair"])
def test_a_model_fitted_on_data_frames_keeps_their_columns(frames, fitted_on, tmp_path):
    model = RawFeatures(device="cpu").fit(load(frames, id="email") if fitted_on == "dataset" else frames)
    model.save(tmp_path / "run")
    assert Run.open(tmp_path / "run").nodes().column_names == ["id", "zip", "age", "team"]
    page = write_report(tmp_path / "run", tmp_path / "page.html", projection="pca").read_text()
    assert '"name":"team"' in page
    again = RawFeatures.load(tmp_path / "run", device="cpu")
    assert again._dataset.ingested.columns["age"].to_pylist() == frames[0].age.tolist()


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (lambda nodes, edges: nodes, {}, r"has no edges; pass \(nodes, edges\), or use load\(nodes, knn_graph=15\)"),
        (lambda nodes, edges: (nodes, edges), {"knn_graph": 3}, "cannot be used with a table of edges"),
        (lambda nodes, edges: (nodes, edges), {"encoding": "utf-8"}, "are for files, not for DataFrames"),
        (lambda nodes, edges: (nodes, 3), {}, "type tuple is not a source"),
        (lambda nodes, edges: 3, {}, "type int is not a source"),
    ],
)
def test_what_is_not_a_source_is_one_sentence(frames, source, options, sentence):
    with pytest.raises(UserError, match=sentence):
        load(source(*frames), **options)


def test_options_for_reading_are_refused_for_a_graph(dataset):
    with pytest.raises(UserError, match="The options label are for files, tables, NetworkX and PyG"):
        check(dataset.graph, label="team")


def test_search_and_cluster_answer_like_the_commands(model, tmp_path):
    model.save(tmp_path / "run")
    expected = json.loads(afgrl("search", tmp_path / "run", "p3@x.org", "-k", "4", "--json").stdout)
    assert search(tmp_path / "run", "p3@x.org", 4) == expected
    assert search(model, ["p3@x.org"], k=4) == expected
    described = cluster(model, 3)
    assert described == json.loads(afgrl("cluster", tmp_path / "run", "-k", "3", "--json").stdout)
    labels, _ = Run.open(tmp_path / "run").clusters()
    assert np.array_equal(model.labels_, labels)
    assert cluster(str(tmp_path / "run"), 2)["k"] == 2
    assert Run.open(tmp_path / "run").clusters()[0].max() == 1


def test_search_takes_ids_that_are_numbers():
    numbered = RawFeatures(device="cpu").fit(Graph(np.eye(6), [[0, 1], [1, 2]]))
    assert search(numbered, 2, 3) == search(numbered, np.array([2]), 3)
    assert list(search(numbered, range(2), 1)) == ["0", "1"]


def test_nodes_are_added_and_removed(model, tmp_path):
    model.save(tmp_path / "run")
    new = tmp_path / "june.csv"
    new.write_text("email,zip,age,team\nnew@x.org,1001,40,red\n")
    added = add_nodes(tmp_path / "run", new, device="cpu", alone=True)
    assert (added.name, added.ids.tolist()) == ("june", ["new@x.org"])
    assert len(search(tmp_path / "run", "new@x.org", 4)["new@x.org"]) == 4
    remove_nodes(tmp_path / "run", "june")
    with pytest.raises(UserError, match=r"Unknown node 'new@x\.org'"):
        search(tmp_path / "run", "new@x.org")


def test_estimates_are_those_of_the_command(folder, frames):
    expected = json.loads(afgrl("estimate", folder, "--set", "n_components=16", "--json").stdout)
    options = {"source": "from", "target": "to"}
    for source in (folder, frames):
        answer = estimate(source, settings={"n_components": 16}, **options)
        assert answer["settings"] == expected["settings"]
        assert (answer["nodes"], answer["edges"]) == (40, 40)


def test_an_estimator_is_exported(dataset, tmp_path):
    small = {"epochs": 2, "n_components": 8, "predictor_width": 8, "n_clusters": 4, "device": "cpu"}
    trained = AFGRL(**small).fit(dataset)
    assert export_encoder(trained, str(tmp_path / "model.onnx"))["method"] == "afgrl"
    assert (tmp_path / "model.onnx").stat().st_size > 1000


def test_an_estimator_is_explored(model, monkeypatch):
    from afgrl.explore.connections import ExplorerServer

    shown, sentences = [], []
    monkeypatch.setattr(ExplorerServer, "run", lambda self, sockets: shown.append(sockets[0].getsockname()))
    serve_explorer(model, open_browser=False, projection="pca", message=sentences.append)
    assert shown[0][0] == "127.0.0.1"
    assert f"http://127.0.0.1:{shown[0][1]}/?token=" in sentences[-2]


MISSING = {  # a package → what needs it, and the extra that installs it
    "pandas": (lambda model, folder: model.to_pandas(), "pandas"),
    "faiss": (lambda model, folder: search(model, "p3@x.org", index=True), "index"),
    "fastapi": (lambda model, folder: serve_explorer(model, open_browser=False), "explore"),
    "uvicorn": (lambda model, folder: serve_explorer(model, open_browser=False), "explore"),
    "onnx": (lambda model, folder: export_encoder(model, folder / "model.onnx"), "onnx"),
    "onnxscript": (lambda model, folder: export_encoder(model, folder / "model.onnx"), "onnx"),
    "lance": (
        lambda model, folder: write_vectors(folder / "v.lance", model.node_ids_, model.embedding_, "lance"),
        "lance",
    ),
    "sentence_transformers": (lambda model, folder: load(folder, columns={"team": "text"}, text_model=folder), "text"),
    "plotly": (lambda model, folder: model.plot(), "notebook"),
    "anywidget": (lambda model, folder: model._dataset.graph.plot(), "notebook"),
}


@pytest.mark.parametrize("package", MISSING)
def test_a_missing_package_is_one_sentence_with_the_command(model, folder, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    needs_it, extra = MISSING[package]
    name = package.replace("_", "-")
    with pytest.raises(UserError, match=rf"^[^.]+ needs?\b[^.]*\b{name}\b[^.]*: pip install 'afgrl\[{extra}\]'\.$"):
        needs_it(model, folder)


def test_every_optional_package_of_the_extras_is_covered():
    for package, extra in EXTRAS.items():
        assert MISSING[package][1] == extra


def test_every_command_has_a_public_counterpart_with_types():
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert commands == PYTHON.keys()
    for names in PYTHON.values():
        for name in names:
            counterpart = public(name)
            assert counterpart.__doc__
            assert "return" in counterpart.__annotations__, name
    with pytest.raises(AttributeError, match="no public name 'nothing'"):
        public("nothing")


def test_the_machine_and_the_datasets_are_data(tmp_path):
    found, printed = examine(), json.loads(afgrl("doctor", "--json").stdout)
    assert found["works"] is True
    assert found["optional"] == printed["optional"]
    assert catalog(tmp_path) == json.loads(afgrl("datasets", "--data-dir", tmp_path, "--json").stdout)


def test_speed_is_measured_as_the_command_does(monkeypatch):
    asked = []
    monkeypatch.setattr("afgrl.bench.run_bench", lambda *names, **options: asked.append((names, options)) or {})
    assert measure_speed(["demo"], methods=["raw"], device="cpu", settings={"epochs": "2"}) == {}
    afgrl("bench", "--datasets", "demo", "--methods", "raw", "--device", "cpu", "--set", "epochs=2", "--quiet")
    for _, options in asked:
        del options["message"]
    assert asked[0] == asked[1]
    assert asked[0][1]["settings"] == {"epochs": "2"}
    with pytest.raises(UserError, match="takes no --methods"):
        measure_speed(default=True, methods="all", device="cpu")


def test_results_of_the_paper_are_data(tmp_path):
    results = reproduce_results("datasets", str(tmp_path), "cpu", datasets=["demo"], quick=True)
    assert [table.rows[0][0] for table in results["datasets"].tables] == ["demo"]
    assert (tmp_path / "reproduction.html").is_file()
