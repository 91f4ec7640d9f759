import numpy as np
import pyarrow as pa
import pytest

from afgrl.data.tables.options import ReadOptions
from afgrl.report import payload
from afgrl.runs.folder import Run
from afgrl.runs.spec import EvaluationPlan, RunSpec
from tests.report.test_arrays import unpacked
from tests.sample_runs import bare_run, make_run, ring_dataset, scores


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("payload") / "letters")


def payload_of(run, *, projection="pca"):
    return payload.run_payload(run, "run", projection, lambda sentence: None)


def test_neighbors_are_exact(run):
    ids, vectors = run.embedding()
    packed = payload_of(run)["neighbors"]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T - 9 * np.eye(len(unit))
    index = unpacked(packed["index"]).reshape(len(ids), 10)
    similarity = unpacked(packed["similarity"]).reshape(len(ids), 10) / 32767
    expected = -np.sort(-cosine, axis=1)[:, :10]
    assert np.abs(similarity - expected).max() < 1e-4  # resolution of int16
    assert np.abs(np.take_along_axis(cosine, index.astype(int), 1) - expected).max() < 1e-5  # float32


def test_the_lists_of_edges_and_words_are_bounded(run, monkeypatch):
    packed = payload_of(run)["facts"]["edges"]
    starts, values = unpacked(packed["starts"]), unpacked(packed["values"])
    assert sorted(values[starts[5] : starts[6]]) == [4, 6]  # a ring
    monkeypatch.setattr(payload, "MAX_ENTRIES", 300)
    packed = payload_of(run)["facts"]["edges"]
    assert len(unpacked(packed["values"])) == 240
    assert unpacked(packed["full"]).tolist() == [2] * 240


def test_a_single_node_has_no_neighbors(tmp_path):
    packed = payload_of(bare_run(tmp_path / "run", np.ones((1, 3))))["neighbors"]
    assert packed["k"] == 0


def test_spec_and_command_repeat_the_run(tmp_path):
    run = make_run(tmp_path / "run", 12)
    read = ReadOptions(id="name", columns=("a=text", "b=number"), knn_graph=15)
    run.save_spec(
        RunSpec(
            "my files/edges.csv", "grace", "paper", {"epochs": 7}, splits="random", directed=False,
            evaluation=EvaluationPlan(every=5), read=read,
        )
    )  # fmt: skip
    shown = payload_of(run)
    words = shown["command"]
    assert words.startswith("afgrl fit 'my files/edges.csv' --method grace --recipe paper --splits random --undirected")
    assert "--evaluate-every 5" in words
    for option in ("--id name", "--column a=text", "--column b=number", "--knn-graph 15"):
        assert option in words
    assert words.endswith(f"--config {run.path / 'config.toml'}")
    assert shown["settings"] == {"epochs": 7}
    assert shown["spec"].items() >= {"method": "grace", "evaluation.every": 5, "read.id": "name"}.items()
    assert not any(value in (None, ()) for value in shown["spec"].values())


def test_a_run_saved_from_python_has_no_command(tmp_path):
    shown = payload_of(bare_run(tmp_path / "run", np.eye(4)))
    assert shown["command"] is None
    assert shown["scores"] is None
    assert shown["clusters"] is None


def test_only_the_first_columns_of_a_wide_table_are_shown(tmp_path):
    run = bare_run(tmp_path / "run", np.eye(6))
    columns = {f"c{i}": np.arange(6.0) for i in range(1000)}
    run.save_dataset(ring_dataset(np.arange(6), pa.table({"id": np.arange(6), **columns, "region": list("aabbcc")})))
    shown = payload_of(run)
    assert [column["name"] for column in shown["columns"]] == [*(f"c{i}" for i in range(60)), "region"]
    assert shown["data"]["messages"][-1]["text"] == "This page shows the first 60 of 1,001 columns."


def test_score_rows_are_trained_vectors_and_then_baselines(tmp_path):
    run = make_run(tmp_path / "run", 12)
    run.save_scores(scores(0, best_epoch=True))
    shown = payload_of(run)["scores"]
    assert [row["kind"] for row in shown["rows"]] == ["trained", "best-epoch", "baseline", "baseline", "baseline"]
    assert [row["cells"][0]["mean"] for row in shown["rows"]] == [89, 90, 85, 84, 81]
    assert shown["rows"][0]["cells"][0]["n"] == 20
    assert shown["best"]["sentence"].startswith(
        "Best accuracy: trained, 4.00 ± 0.00 above untrained on the same 20 splits"
    )
    assert shown["best"]["commands"] == {}
    stored = scores(0)
    del stored["last-epoch"]["clustering"]
    run.save_scores(stored)
    assert payload_of(run)["scores"]["rows"][0]["cells"][1] is None


def test_runs_with_equal_folder_names_get_distinct_names(tmp_path):
    runs = [Run(tmp_path / name) for name in ("a/run", "b/run", "a/run")]
    assert payload.display_names(runs) == ["a/run", "b/run", "a/run (2)"]
    assert payload.display_names(runs[:1]) == ["run"]
