import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from typer.testing import CliRunner

from afgrl.cli import METHODS, app
from afgrl.methods import methods
from afgrl.runs import Run

QUICK = ["epochs=12", "n_components=32", "predictor_width=32", "n_clusters=5", "n_restarts=2", "kmeans_iters=2"]
FILES = {
    "config.toml", "environment.json", "history.jsonl", "model.safetensors", "model.json", "checkpoint.pt",
    "embeddings.parquet", "splits.npz",
}  # fmt: skip


def afgrl(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(*arguments, settings=QUICK):
    sets = [word for setting in settings for word in ("--set", setting)]
    return afgrl("fit", "demo", "--device", "cpu", "--quiet", *arguments, *sets)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on the demo graph, with a trace for the paper's protocol."""
    path = tmp_path_factory.mktemp("cli") / "run"
    answer = fit("--out", path, "--evaluate-every", 12, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout)["run"] == str(path)
    return path


def test_fit_writes_the_files_of_a_run(run):
    assert {path.name for path in run.iterdir()} >= FILES
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_a_run_can_be_run_again_from_its_own_config(run, tmp_path):
    again = fit("--out", tmp_path / "again", "--config", run / "config.toml", settings=[])
    assert again.exit_code == 0, again.stderr
    first, second = (pq.read_table(folder / "embeddings.parquet") for folder in (run, tmp_path / "again"))
    assert first.equals(second)


def test_evaluate_prints_and_keeps_scores_beside_what_needs_no_training(run):
    answer = afgrl("evaluate", run, "--device", "cpu", "--json")
    assert answer.exit_code == 0, answer.stderr
    scores = json.loads(answer.stdout)
    assert scores == json.loads((run / "scores.json").read_text())
    assert (scores["dataset"], scores["method"], scores["seed"]) == ("demo", "afgrl", 0)
    assert scores["baselines"].keys() == {"raw", "hops", "random"}
    for parts in (scores["label-free"], scores["paper"], *scores["baselines"].values()):
        assert 0 <= parts["clustering"]["nmi"]["mean"] <= 1
        assert parts["similarity"].keys() >= {"sim@5", "sim@10"}
        accuracy = parts["classification"]["accuracy"]
        assert accuracy.keys() == {"mean", "std", "values"}
        assert len(accuracy["values"]) == 20
        assert 50 < accuracy["mean"] <= 100
    assert scores["paper"]["classification"]["epoch"] in (0, 12)
    table = afgrl("evaluate", run, "--device", "cpu").stdout
    for row in ("trained", "trained (paper)", "untrained", "[X | SX | S²X]", "raw features"):
        assert f" {row} " in table


@pytest.mark.parametrize("method", ["bgrl", "deepwalk", "raw", "supervised_gcn"])
def test_every_kind_of_method_has_the_same_commands(method, tmp_path):
    path, settings = tmp_path / "run", [] if method == "raw" else ["epochs=30"]
    answer = fit("--method", method, "--out", path, "--json", settings=settings)
    assert answer.exit_code == 0, answer.stderr
    scores = json.loads(afgrl("evaluate", path, "--device", "cpu", "--json").stdout)
    assert scores["method"] == method
    accuracy = scores["label-free"]["classification"]["accuracy"]
    assert len(accuracy["values"]) == 20
    assert accuracy["mean"] > 50
    again = afgrl("embed", path, "--device", "cpu", "--out", tmp_path / "again.parquet")
    assert again.exit_code == 0, again.stderr
    first, second = (pq.read_table(file) for file in (path / "embeddings.parquet", tmp_path / "again.parquet"))
    assert first.equals(second)
    assert afgrl("search", path, "5", "--json").exit_code == 0
    resumed = afgrl("fit", "demo", "--out", path, "--resume", "--device", "cpu", "--quiet")
    assert resumed.exit_code == 0, resumed.stderr


def test_a_method_of_one_graph_refuses_another(tmp_path):
    fit("--method", "deepwalk", "--out", tmp_path / "run", settings=["epochs=2", "n_components=8"])
    write_npz(tmp_path / "new.npz", 64)
    answer = afgrl("embed", tmp_path / "run", "--graph", tmp_path / "new.npz", "--device", "cpu")
    assert answer.exit_code == 2
    assert "cannot embed another" in answer.stderr


def test_a_supervised_method_needs_labels(tmp_path):
    write_npz(tmp_path / "plain.npz", 8)
    answer = afgrl("fit", tmp_path / "plain.npz", "--method", "supervised_gcn", "--out", tmp_path / "run")
    assert answer.exit_code == 2
    assert "has no labels" in answer.stderr
    assert not (tmp_path / "run").exists()


def test_help_names_every_method():
    assert set(re.split(r", | or ", METHODS)) == set(methods())


def test_search(run):
    answer = afgrl("search", run, "5", "9", "-k", "3", "--json")
    found = json.loads(answer.stdout)
    assert [len(found[name]) for name in ("5", "9")] == [3, 3]
    assert found["5"][0]["similarity"] >= found["5"][1]["similarity"]
    assert "nearest to 5" in afgrl("search", run, "5").stdout


def test_embed_repeats_the_runs_own_vectors(run, tmp_path):
    answer = afgrl("embed", run, "--device", "cpu", "--out", tmp_path / "new.parquet", "--json")
    expected = {"file": str(tmp_path / "new.parquet"), "nodes": 1797, "width": 32, "ids_changed": 0}
    assert json.loads(answer.stdout) == expected
    assert pq.read_table(tmp_path / "new.parquet").equals(pq.read_table(run / "embeddings.parquet"))
    again = afgrl("embed", run, "--device", "cpu", "--out", tmp_path / "new.parquet")
    assert again.exit_code == 2
    assert "exists; --force replaces it" in again.stderr


def write_npz(path, n_features, n=12):
    identity = np.eye(n, n_features, dtype=np.float32)
    ring = sp.csr_array(np.roll(np.eye(n), 1, axis=1))
    np.savez(path, adj_data=ring.data, adj_indices=ring.indices, adj_indptr=ring.indptr, adj_shape=ring.shape,
             attr_matrix=identity)  # fmt: skip


def test_embed_a_new_graph(run, tmp_path):
    write_npz(tmp_path / "ring.npz", 64)
    answer = afgrl("embed", run, "--graph", tmp_path / "ring.npz", "--out", tmp_path / "ring.parquet")
    assert answer.exit_code == 0, answer.stderr
    assert pq.read_table(tmp_path / "ring.parquet").num_rows == 12
    write_npz(tmp_path / "other.npz", 3)
    answer = afgrl("embed", run, "--graph", tmp_path / "other.npz")
    assert answer.exit_code == 2
    assert "was trained on 64 features, but 'other' has 3" in answer.stderr


def test_a_graph_without_labels_is_fitted_but_not_evaluated(tmp_path):
    write_npz(tmp_path / "ring.npz", 12)
    sets = [word for setting in QUICK for word in ("--set", setting)]
    answer = afgrl("fit", tmp_path / "ring.npz", "--out", tmp_path / "run", "--quiet", *sets)
    assert answer.exit_code == 0, answer.stderr
    answer = afgrl("evaluate", tmp_path / "run")
    assert answer.exit_code == 2
    assert "has no labels" in answer.stderr
    answer = afgrl("fit", tmp_path / "ring.npz", "--out", tmp_path / "run2", "--evaluate-every", 2, "--quiet")
    assert answer.exit_code == 2
    assert not (tmp_path / "run2").exists()


def test_datasets_and_doctor_answer_for_people_and_machines():
    assert "Amazon Photo" in afgrl("datasets").stdout
    rows = json.loads(afgrl("datasets", "--json").stdout)
    assert [row["name"] for row in rows] == [
        "demo", "wikics", "computers", "photo", "cs", "physics", "cora", "citeseer", "pubmed",
    ]  # fmt: skip
    findings = json.loads(afgrl("doctor", "--json").stdout)
    assert findings["works"] is True
    assert findings["versions"]["torch"] == torch.__version__
    assert "works" in afgrl("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "foto"], "There is no dataset 'foto'; did you mean 'photo'?"),
        (["fit", "demo", "--method", "afgrll"], "There is no method 'afgrll'; did you mean 'afgrl'?"),
        (["fit", "demo", "--recipe", "papr"], "There is no recipe 'papr'; did you mean 'paper'?"),
        (["fit", "demo", "--set", "n_neighbours=3"], "did you mean 'n_neighbors'?"),
        (["fit", "demo", "--set", "epochs=many"], "'epochs' cannot be 'many'"),
        (["fit", "demo", "--set", "epochs"], "--set takes name=value"),
        (["fit", "demo", "--device", "tpu"], "auto, cpu or cuda, not 'tpu'"),
        (["fit", "demo", "--config", "none.toml"], "There is no settings file 'none.toml'"),
        (["fit", "demo", "--resume"], "--resume goes on with the run named by --out"),
        (["fit", "none.npz"], "There is no file or folder none.npz"),
        (["fit", "photo", "--data-dir", "nowhere"], "does not exist or is no folder: nowhere"),
        (["evaluate", "nowhere"], "There is no run in 'nowhere'"),
        (["search", "nowhere", "1"], "There is no run in 'nowhere'"),
        (["embed", "nowhere"], "There is no run in 'nowhere'"),
    ],
)
def test_a_users_mistake_gets_one_sentence_and_status_2(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = afgrl(*arguments)
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_status_2():
    assert afgrl("fit", "demo", "--nonsense").exit_code == 2


def test_an_existing_run_is_kept_unless_forced(run):
    before = (run / "config.toml").read_text()
    answer = fit("--out", run)
    assert answer.exit_code == 2
    assert "--force replaces it" in answer.stderr
    assert (run / "config.toml").read_text() == before


def test_resuming_a_finished_run_changes_nothing(run):
    before = (run / "embeddings.parquet").read_bytes()
    answer = afgrl("fit", "demo", "--out", run, "--resume", "--quiet", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert (run / "embeddings.parquet").read_bytes() == before
    assert [line["epoch"] for line in Run.open(run).lines("history.jsonl")] == [1, 10, 12]
    wrong = afgrl("fit", "photo", "--out", run, "--resume")
    assert wrong.exit_code == 2
    assert "was trained on 'demo'" in wrong.stderr


def process(*arguments):
    command = [sys.executable, "-m", "afgrl", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


LONG = ["epochs=60", "n_components=32", "predictor_width=32", "n_clusters=20", "refresh_every=3", "checkpoint_every=7"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run"
    assert fit("--out", path, settings=LONG).exit_code == 0
    return path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_at_any_point_and_resumed_equals_uninterrupted(number, uninterrupted, tmp_path):
    path = tmp_path / "run"
    sets = [word for setting in LONG for word in ("--set", setting)]
    child = process("fit", "demo", "--device", "cpu", "--quiet", "--out", path, *sets)
    while not (path / "checkpoint.pt").exists():
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.01)
    time.sleep(np.random.default_rng().uniform(0, 0.5))  # a point nobody chose
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    if number != signal.SIGKILL and child.returncode != 0:  # it may have finished first
        assert child.returncode == 130
        assert f"Go on with: afgrl fit demo --out {path} --resume" in said
    resumed = afgrl("fit", "demo", "--out", path, "--resume", "--quiet", "--device", "cpu")
    assert resumed.exit_code == 0, resumed.stderr
    for name in ("embeddings.parquet", "history.jsonl", "model.safetensors"):
        assert (path / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_the_demo_beats_raw_pixels_and_the_untrained_encoder(tmp_path):
    began = time.process_time()
    answer = afgrl("demo", "--out", tmp_path / "run", "--device", "cpu", "--quiet", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert time.process_time() - began < 120  # a minute of two cores; a shared machine's clock tells less
    scores = json.loads(answer.stdout)
    for task, name in (("clustering", "nmi"), ("similarity", "sim@5")):
        trained = scores["label-free"][task][name]["mean"]
        for other in ("raw", "random"):
            assert trained > scores["baselines"][other][task][name]["mean"], (name, other)
