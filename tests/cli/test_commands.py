import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from typer.testing import CliRunner

from afgrl import AFGRL
from afgrl.analysis.new_nodes import embed_dataset
from afgrl.cli.entry_point import app
from afgrl.cli.options import METHODS
from afgrl.config import resolve
from afgrl.data import load
from afgrl.data.tables.options import ReadOptions
from afgrl.errors import AfgrlError, Interrupted
from afgrl.methods import available_methods
from afgrl.methods.parts.embedder_settings import NodeEmbedderSettings
from afgrl.runs.embeddings import read_parquet
from afgrl.runs.folder import Run

QUICK = ["steps=12", "n_components=32", "predictor_width=32", "n_clusters=5", "n_restarts=2", "kmeans_iters=2"]
FILES = {
    "config.toml", "environment.json", "history.jsonl", "model.safetensors", "model.json",
    "embeddings.parquet", "splits.npz", "graph.safetensors", "nodes.parquet", "data.json",
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
    assert not [path for path in run.iterdir() if path.name.startswith((".", "checkpoint"))]


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
    assert (scores["dataset"], scores["method"], scores["seed"]) == ("demo", "node_embedder", 0)
    assert scores["baselines"].keys() == {"raw", "hops", "random", "svd", "ppr"}
    assert scores["last-epoch"]["clustering-readout"].keys() == {"nmi", "homogeneity", "ari"}
    for parts in (scores["last-epoch"], scores["best-epoch"], *scores["baselines"].values()):
        assert 0 <= parts["clustering"]["nmi"]["mean"] <= 1
        assert parts["similarity"].keys() >= {"sim@5", "sim@10"}
        accuracy = parts["classification"]["accuracy"]
        assert accuracy.keys() == {"mean", "std", "values"}
        assert len(accuracy["values"]) == 20
        assert 50 < accuracy["mean"] <= 100
    assert scores["best-epoch"]["classification"]["epoch"] in (0, 12)
    table = afgrl("evaluate", run, "--device", "cpu").stdout
    for row in ("trained", "best epoch", "untrained", "[X | SX | S²X]", "raw features", "SVD of 3 hops"):
        assert f" {row} " in table
    _, readout = table.split("Clustering readout")
    nmi = scores["last-epoch"]["clustering-readout"]["nmi"]["mean"]
    assert re.search(rf" trained +\*?{nmi:.4f} ", readout)
    assert " PageRank of SVD " in readout
    assert " raw features " in readout
    assert "best epoch" not in readout
    assert "best of 10 restarts" in " ".join(readout.split())
    assert max(len(line) for line in table.splitlines() if not line.startswith("  afgrl fit")) <= 80
    assert table.count("*best of its column") + table.count("* best of its column") == 1
    assert re.search(r"Best accuracy: .* above .* on\s+the\s+same\s+20\s+splits", table)
    assert "Best NMI, clustering readout: " in " ".join(readout.split())


def test_cluster_says_what_it_clustered(run):
    shown = afgrl("cluster", run, "-k", 3)
    assert shown.exit_code == 0, shown.stderr
    assert "3 clusters of the clustering readout" in shown.stdout
    assert Run.open(run).clusters()[1]["clustered"] == "clustering readout"
    plain = json.loads(afgrl("cluster", run, "-k", 3, "--plain", "--json").stdout)
    assert plain["clustered"] == "embedding"


@pytest.mark.parametrize("method", ["bgrl", "deepwalk", "raw", "supervised_gcn"])
def test_every_kind_of_method_has_the_same_commands(method, tmp_path):
    path, settings = tmp_path / "run", [] if method == "raw" else ["epochs=30"]
    answer = fit("--method", method, "--out", path, "--json", settings=settings)
    assert answer.exit_code == 0, answer.stderr
    scores = json.loads(afgrl("evaluate", path, "--device", "cpu", "--json").stdout)
    assert scores["method"] == method
    accuracy = scores["last-epoch"]["classification"]["accuracy"]
    assert len(accuracy["values"]) == 20
    assert accuracy["mean"] > 50
    again = embed_dataset(Run.open(path), Run.open(path).dataset(), torch.device("cpu")).to_dense().numpy()
    assert np.array_equal(again, read_parquet(path / "embeddings.parquet")[1])  # computed from the saved model
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


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["fit", "demo", "--seed", "9" * 30], 2, "The setting 'seed' cannot be"),
        (["fit", "demo", "--set", "weight_decay=inf"], 2, "The setting 'weight_decay' cannot be"),
        (["fit", "demo", "--set", "n_components=10000000000000"], 2, "Training needs"),
    ],
)
def test_what_cannot_be_asked_for_gets_one_sentence(arguments, status, sentence, tmp_path):
    answer = afgrl(*arguments, "--out", tmp_path / "run", "--device", "cpu", "--quiet")
    assert answer.exit_code == status, answer.stderr
    assert answer.stderr.startswith(sentence)
    assert answer.stderr.count("\n") == 1


def test_a_place_nobody_can_write_to_gets_one_sentence(run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "model.onnx")

    monkeypatch.setattr("afgrl.onnx.export_encoder", full)
    answer = afgrl("export", run, "--out", run.parent / "there.onnx")
    assert answer.exit_code == 1
    assert answer.stderr == "No space left on device: 'model.onnx'; free some space, then repeat the command.\n"


def test_output_in_an_encoding_without_our_signs(tmp_path):
    source = tmp_path / "käfer.csv"
    source.write_text("source,target\na,b\nb,c\n")
    code = "import sys; from afgrl.cli.entry_point import main; sys.argv = ['', 'check', sys.argv[1]]; main()"
    answer = subprocess.run(
        [sys.executable, "-c", code, source], capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert answer.returncode == 0, answer.stderr
    assert b"k?fer" in answer.stdout


def test_sources_are_read_whatever_the_locale():
    code = "from afgrl.config import recipe; recipe('afgrl', 'paper', 'cs')"
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, env=plain)
    assert answer.returncode == 0, answer.stderr


def test_help_names_every_method():
    assert set(re.split(r", | or ", METHODS)) == set(available_methods())


def test_search(run):
    answer = afgrl("search", run, "5", "9", "-k", "3", "--json")
    found = json.loads(answer.stdout)
    assert [len(found[name]) for name in ("5", "9")] == [3, 3]
    assert found["5"][0]["similarity"] >= found["5"][1]["similarity"]
    assert "most similar to 5" in afgrl("search", run, "5").stdout


def test_embed_writes_the_vectors_in_other_formats(run, tmp_path):
    answer = afgrl("embed", run, "--device", "cpu", "--out", tmp_path / "new.npz", "--json")
    expected = {"file": str(tmp_path / "new.npz"), "nodes": 1797, "width": 32, "ids_changed": 0}
    assert json.loads(answer.stdout) == expected
    with np.load(tmp_path / "new.npz") as stored:
        ids, vectors = stored["ids"], stored["embedding"]
    computed = embed_dataset(Run.open(run), load("demo"), torch.device("cpu")).numpy()
    assert np.array_equal(vectors, computed)
    assert ids.tolist() == list(range(1797))
    again = afgrl("embed", run, "--device", "cpu", "--out", tmp_path / "new.npz")
    assert again.exit_code == 2
    assert "exists; use --force to replace it" in again.stderr


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
    assert findings["versions"]["torch"] == metadata.version("torch")
    assert "works" in afgrl("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "foto"], "There is no file or folder 'foto', and no dataset of this name; did you mean 'photo'?"),
        (["fit", "demo", "--method", "afgrll"], "Unknown method 'afgrll'; did you mean 'afgrl'?"),
        (["fit", "demo", "--recipe", "papr"], "Unknown recipe 'papr'; did you mean 'paper'?"),
        (["fit", "demo", "--set", "n_neigbors=3"], "did you mean 'n_neighbors'?"),
        (["fit", "demo", "--set", "steps=many"], "'steps' cannot be 'many'"),
        (["fit", "demo", "--set", "steps"], "--set takes name=value"),
        (["fit", "demo", "--device", "tpu"], "auto, cpu or cuda, not 'tpu'"),
        (["fit", "demo", "--config", "none.toml"], "Settings file not found: 'none.toml'"),
        (["fit", "demo", "--resume"], "--resume continues the run given by --out"),
        (["fit", "none.npz"], "File or folder not found: none.npz"),
        (["fit", "photo", "--data-dir", "nowhere"], "does not exist or is not a folder: nowhere"),
        (["evaluate", "nowhere"], "'nowhere' is not a run"),
        (["search", "nowhere", "1"], "'nowhere' is not a run"),
        (["embed", "nowhere"], "'nowhere' is not a run"),
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
    assert "use --resume to continue it, --force to replace it" in answer.stderr
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


def write_tables(folder, names, *, label=False):
    """A ring of nodes, with one column and, if asked for, labels."""
    folder.mkdir(parents=True)
    rows = [f"{name},{place % 3 + 0.5 * place}" + f",{'xy'[place % 2]}" * label for place, name in enumerate(names)]
    (folder / "nodes.csv").write_text("\n".join(["id,size" + ",topic" * label, *rows, ""]))
    edges = [f"{name},{names[place - 1]}" for place, name in enumerate(names)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    return folder


def fit_tables(folder, out, *arguments, settings=QUICK):
    sets = [word for setting in settings for word in ("--set", setting)]
    answer = afgrl("fit", folder, "--out", out, "--device", "cpu", "--quiet", *arguments, *sets)
    assert answer.exit_code == 0, answer.stderr
    return answer


@pytest.fixture
def ring(tmp_path):
    """A folder of tables and the run trained on it."""
    folder = write_tables(tmp_path / "ring", [str(i) for i in range(12)])
    fit_tables(folder, tmp_path / "run")
    return folder, tmp_path / "run"


def test_a_run_whose_successor_fails_comes_back(ring, monkeypatch):
    folder, path = ring
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def fails(*arguments):
        raise AfgrlError("Training diverged.")

    with monkeypatch.context() as patch:
        patch.setattr("afgrl.experiment.training.training_loop", fails)
        answer = afgrl("fit", folder, "--out", path, "--device", "cpu", "--quiet", "--force", "--set", "steps=4")
    assert answer.exit_code == 1
    assert answer.stderr == "Training diverged.\n"
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    fit_tables(folder, path, "--force", settings=["steps=4"])
    assert {file.name for file in path.iterdir()} == set(before)
    assert "steps = 4" in (path / "config.toml").read_text()


@pytest.mark.parametrize(
    "option",
    [
        ["--method", "afgrl"], ["--recipe", "paper"], ["--splits", "random"], ["--evaluate-every", 2], ["--label", "x"],
        ["--seed", 0], ["--set", "steps=3"], ["--column", "a=text"], ["--undirected"], ["--force"],
    ],
    ids=lambda option: option[0],
)  # fmt: skip
def test_resume_refuses_what_it_would_not_heed(run, option):
    answer = afgrl("fit", "demo", "--out", run, "--resume", *option)
    assert answer.exit_code == 2
    sentence = f"--resume continues the run given by --out with that run's own settings, so {option[0]} cannot be set."
    assert answer.stderr.strip() == sentence


def test_every_command_works_after_the_source_is_deleted(tmp_path):
    """What is computed from the run alone equals what is computed beside the source."""
    names = [f"n{i}" for i in range(40)]
    folder = write_tables(tmp_path / "ring", names, label=True)
    new = write_tables(tmp_path / "new", [*names[-4:], "a", "b", "c"])
    fit_tables(folder, tmp_path / "run", "--label", "topic", "--evaluate-every", 6)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    answers = {}
    for path in (tmp_path / "copy", tmp_path / "run"):  # the first beside the source, the second without
        if path.name == "run":
            shutil.rmtree(folder)
        for command in (
            ["evaluate", path, "--json"], ["cluster", path, "-k", 3, "--json"], ["search", path, "n5", "--json"],
            ["embed", path, "--graph", new, "--out", tmp_path / f"{path.name}.npz"], ["report", path],
            ["export", path],
        ):  # fmt: skip
            answer = afgrl(*command)
            assert answer.exit_code == 0, answer.stderr
            answers[path.name, command[0]] = answer.stdout if "--json" in command else None
        with np.load(tmp_path / f"{path.name}.npz") as stored:
            answers[path.name, "vectors"] = stored["embedding"].tobytes()
    for name in ("evaluate", "cluster", "search", "vectors"):
        assert answers["run", name] == answers["copy", name], name
    assert json.loads(answers["run", "cluster"])["clusters"][0]["features"]  # described by the features


@pytest.mark.parametrize("gone", [True, False])
def test_resume_uses_the_data_of_the_run(ring, gone):
    """Whatever became of the source since: it is gone, or it has other edges."""
    folder, path = ring
    before = (path / "embeddings.parquet").read_bytes()
    for name in ("embeddings.parquet", "model.safetensors", "model.json", "history.jsonl"):
        (path / name).unlink()
    if gone:
        shutil.rmtree(folder)
    else:
        (folder / "edges.csv").write_text("source,target\n0,6\n")
    answer = afgrl("fit", folder, "--out", path, "--resume", "--quiet", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert (path / "embeddings.parquet").read_bytes() == before


def test_a_run_saved_from_python_serves_the_same_commands(tmp_path):
    folder = write_tables(tmp_path / "ring", [f"n{i}" for i in range(30)], label=True)
    dataset = load(folder, options=ReadOptions(label="topic"))
    AFGRL(epochs=4, n_components=8, device="cpu").fit(dataset).save(tmp_path / "run")
    new = write_tables(tmp_path / "new", ["n3", "n4", "a"])
    path = tmp_path / "run"
    for command in (
        ["evaluate", path], ["cluster", path], ["search", path, "n5"], ["report", path], ["export", path],
        ["embed", path, "--graph", new], ["fit", "", "--out", path, "--resume"],
    ):  # fmt: skip
        answer = afgrl(*command)
        assert answer.exit_code == 0, (command, answer.stderr, answer.exception)


def test_a_run_can_be_used_from_any_folder(tmp_path, monkeypatch):
    write_tables(tmp_path / "ring", [str(i) for i in range(12)])
    monkeypatch.chdir(tmp_path)
    fit_tables("ring", tmp_path / "run")
    new = write_tables(tmp_path / "elsewhere" / "new", [str(i) for i in range(6, 18)])
    monkeypatch.chdir(tmp_path / "elsewhere")
    answer = afgrl("embed", tmp_path / "run", "--graph", new, "--out", "new.csv", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert (tmp_path / "elsewhere" / "new.csv").read_text().startswith('"id","e0"')
    monkeypatch.chdir(tmp_path)
    assert afgrl("fit", "ring", "--out", "run", "--resume", "--quiet", "--device", "cpu").exit_code == 0


def test_a_folder_with_a_datasets_name(tmp_path, monkeypatch):
    write_tables(tmp_path / "demo", [str(i) for i in range(12)])
    monkeypatch.chdir(tmp_path)
    answer = fit("--out", "run", settings=["steps=1", "n_components=8"])
    assert answer.stderr == "Using the dataset 'demo'; for the folder of that name write ./demo.\n"
    assert "write ./demo" in afgrl("check", "demo").stderr


def test_new_nodes_without_edges_and_with_columns_in_another_order(ring, tmp_path):
    path = ring[1]
    (tmp_path / "new").mkdir()
    rows = [line.split(",") for line in (ring[0] / "nodes.csv").read_text().splitlines()]
    turned = [",".join([*row[1:], f"new{row[0]}" if i else "customer"]) for i, row in enumerate(rows)]
    (tmp_path / "new" / "nodes.csv").write_text("\n".join(turned) + "\n")
    answer = afgrl("embed", path, "--graph", tmp_path / "new", "--out", tmp_path / "new.parquet", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert read_parquet(tmp_path / "new.parquet")[0].tolist() == [f"new{row[0]}" for row in rows[1:]]


def test_a_run_killed_before_it_knew_its_data_is_resumed(ring):
    folder, path = ring
    first = (path / "embeddings.parquet").read_bytes()
    for file in path.iterdir():
        if file.name != "config.toml":
            file.unlink()
    answer = afgrl("fit", folder, "--out", path, "--resume", "--quiet", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert (path / "embeddings.parquet").read_bytes() == first
    assert {"nodes.parquet", "data.json", "preprocessing.json"} <= {file.name for file in path.iterdir()}


def test_the_command_in_the_config_repeats_the_run(tmp_path):
    folder = write_tables(tmp_path / "my ring", [f"n{i}" for i in range(12)], label=True)
    told = ("--label", "topic", "--column", "size=category", "--method", "bgrl")
    fit_tables(folder, tmp_path / "run", *told, settings=["epochs=3", "n_components=8"])
    first = (tmp_path / "run" / "config.toml").read_text().splitlines()[0]
    words = shlex.split(first.removeprefix("# Repeat this run: "))
    answer = afgrl(*words[1:], "--out", tmp_path / "again", "--quiet", "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    for name in ("embeddings.parquet", "preprocessing.json", "data.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_fit_without_out_takes_a_name_that_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("demo-raw", "demo-raw-2"):
        answer = fit("--method", "raw", "--json", settings=[])
        assert json.loads(answer.stdout)["run"] == f"runs/{name}"


def test_fit_names_a_next_step_that_works(tmp_path):
    for label, step in ((False, "report"), (True, "evaluate")):
        folder = write_tables(tmp_path / f"ring {step}", [f"n{i}" for i in range(12)], label=label)
        told = ("--label", "topic") if label else ()
        answer = fit_tables(folder, tmp_path / f"run {step}", *told)
        assert f"Next: afgrl {step} '{tmp_path}/run {step}'" in answer.stdout


def test_an_interrupted_run_names_a_command_that_a_shell_reads(tmp_path, monkeypatch):
    folder = write_tables(tmp_path / "a ring", [f"n{i}" for i in range(12)])

    def interrupted(*arguments):
        raise Interrupted("Interrupted.")

    monkeypatch.setattr("afgrl.experiment.training.training_loop", interrupted)
    answer = afgrl("fit", folder, "--out", tmp_path / "a run", "--quiet")
    assert answer.exit_code == 130
    assert f"Resume with: afgrl fit '{folder}' --out '{tmp_path}/a run' --resume" in answer.stderr


def test_names_with_brackets_are_shown_as_they_are(tmp_path):
    names = ["user[admin]", "a[/b]", ":cat:", *(f"n{i}[bold]" for i in range(9))]
    folder = write_tables(tmp_path / "a[" / "b]", names)
    fit_tables(folder, tmp_path / "run")
    for name in names[:3]:
        answer = afgrl("search", tmp_path / "run", name, "-k", 11)
        assert answer.exit_code == 0, answer.exception
        assert f"most similar to {name}" in " ".join(answer.stdout.split())
        assert all(other in answer.stdout for other in names)
    shown = afgrl("cluster", tmp_path / "run", "-k", 4)
    assert shown.exit_code == 0, shown.exception
    central = Run.open(tmp_path / "run").clusters()[1]["clusters"]
    assert all(name in shown.stdout for row in central for name in row["closest"][:3])


def test_embed_joins_known_ids_with_the_training_graph_unless_alone(ring, tmp_path):
    path = ring[1]
    new = write_tables(tmp_path / "new", [str(i) for i in range(6, 18)])
    joined = afgrl("embed", path, "--graph", new, "--out", tmp_path / "joined.parquet", "--device", "cpu")
    assert joined.exit_code == 0, joined.stderr
    assert "Joined with the training graph by id: 6 of the 12 nodes" in " ".join(joined.stderr.split())
    alone = afgrl("embed", path, "--graph", new, "--out", tmp_path / "alone.parquet", "--alone", "--device", "cpu")
    assert alone.exit_code == 0, alone.stderr
    assert "Joined" not in alone.stderr
    assert "Files read: nodes.csv, edges.csv." in alone.stderr  # the ingest report
    (ids, beside), (own, apart) = (read_parquet(tmp_path / f"{name}.parquet") for name in ("joined", "alone"))
    assert ids.tolist() == own.tolist() == list(range(6, 18))
    assert not np.allclose(beside, apart)
    # Other names for the same graph: nothing of it is known, so it is alone without being told.
    named = write_tables(tmp_path / "named", [f"n{i}" for i in range(6, 18)])
    answer = afgrl("embed", path, "--graph", named, "--out", tmp_path / "named.parquet", "--device", "cpu")
    assert "Joined" not in answer.stderr
    np.testing.assert_array_equal(read_parquet(tmp_path / "named.parquet")[1], apart)
    assert "--graph" in afgrl("embed", path, "--alone").stderr


def test_points_alone_are_linked_to_each_other(tmp_path):
    points = write_tables(tmp_path / "ring", [str(i) for i in range(12)]) / "nodes.csv"
    fit_tables(points, tmp_path / "run", "--knn-graph", 3)
    command = ["embed", tmp_path / "run", "--graph", points, "--alone", "--out", tmp_path / "alone.parquet"]
    answer = afgrl(*command, "--device", "cpu")
    assert answer.exit_code == 0, answer.stderr
    assert pq.read_table(tmp_path / "alone.parquet").equals(pq.read_table(tmp_path / "run" / "embeddings.parquet"))


def test_all_that_commands_write_into_a_run_is_removed_by_force(ring, tmp_path):
    path = ring[1]
    labeled = write_tables(tmp_path / "labeled", [f"n{i}" for i in range(40)], label=True)
    told = ("--label", "topic", "--evaluate-every", 6, "--method", "supervised_gcn")
    fit_tables(labeled, path, "--force", *told, settings=["epochs=12"])
    for form in ("csv", "npy", "npz"):
        afgrl("embed", path, "--format", form, "--device", "cpu")
    new = write_tables(tmp_path / "new", ["a", "b", "c"])
    for command in (["evaluate", path], ["embed", path, "--graph", new], ["cluster", path], ["report", path]):
        answer = afgrl(*command)
        assert answer.exit_code == 0, answer.stderr
    afgrl("search", path, "n1", "--index")
    assert len(list(path.iterdir())) > 20
    Run.create(path, force=True)
    assert [file.name for file in path.iterdir()] == [f".aside.{os.getpid()}"]  # until the new run begins


def process(*arguments):
    command = [sys.executable, "-m", "afgrl", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


LONG = ["steps=60", "n_components=32", "predictor_width=32", "n_clusters=20", "refresh_every=3", "checkpoint_every=7"]


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
        assert f" -m afgrl fit demo --out {path} --resume" in said
    resumed = afgrl("fit", "demo", "--out", path, "--resume", "--quiet", "--device", "cpu")
    assert resumed.exit_code == 0, resumed.stderr
    for name in ("embeddings.parquet", "history.jsonl", "model.safetensors"):
        assert (path / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_the_demo_has_the_settings_of_fit_and_scores_them_beside_what_needs_no_training(tmp_path):
    began = time.process_time()
    answer = afgrl("demo", "--out", tmp_path / "run", "--device", "cpu", "--quiet", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert time.process_time() - began < 150  # one to two minutes of two cores; a shared machine's clock tells less
    settings = Run.open(tmp_path / "run").spec().settings
    assert settings == resolve(NodeEmbedderSettings, graph=load("demo").graph).model_dump()
    scores = json.loads(answer.stdout)
    accuracy = {name: parts["classification"]["accuracy"]["mean"] for name, parts in scores["baselines"].items()}
    assert accuracy.keys() == {"raw", "hops", "random", "svd", "ppr"}
    assert scores["last-epoch"]["classification"]["accuracy"]["mean"] > accuracy["raw"] + 4


def test_a_page_of_another_program_is_not_overwritten(run, tmp_path):
    page = tmp_path / "thesis.html"
    page.write_text("years of work")
    answer = afgrl("compare", run, "--page", page, "--map", "pca", "--quiet")
    assert answer.exit_code == 2
    assert answer.stderr == f"The file {str(page)!r} exists; use --force to replace it, or another --page.\n"
    assert page.read_text() == "years of work"
    answer = afgrl("compare", run, "--page", page, "--map", "pca", "--quiet", "--force")
    assert answer.exit_code == 0, answer.stderr
    assert page.read_text().startswith("<!doctype html>")


def test_vectors_of_new_nodes_belong_to_the_run_that_embedded_them(ring):
    _, path = ring
    new = write_tables(path.parent / "new", ["n3", "n4", "a"])
    assert afgrl("embed", path, "--graph", new, "--format", "csv").exit_code == 0
    (path / "embeddings-mine.csv").write_text("mine")
    assert fit_tables(ring[0], path, "--force").exit_code == 0
    assert {file.name for file in path.glob("embeddings-*")} == {"embeddings-mine.csv"}
