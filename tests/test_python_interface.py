"""What the command line does, from Python."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from afgrl import AFGRL, Graph, RawFeatures, UserError, check, compare, knn_graph, load, write_report
from afgrl.data.read_keywords import ReadKeywords
from afgrl.data.tables.options import ReadOptions
from afgrl.experiment.evaluation import evaluate_run
from afgrl.runs.folder import Run
from tests.cli.test_commands import afgrl


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
    import json

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
    rows = compare([model, tmp_path / "mine", model], device="cpu")
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


def test_a_missing_package_is_one_sentence_with_the_command(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"needs pandas: pip install 'afgrl\[pandas\]'\.$"):
        model.to_pandas()
