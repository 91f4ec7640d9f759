import json
import shlex
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from afgrl.data.splits import random_splits
from afgrl.environment import _commit
from afgrl.errors import Interrupted, UserError
from afgrl.order import Order
from afgrl.runs import Run
from afgrl.search import search
from afgrl.writing import replace_file


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run")
    made.write_config({"source": "demo", "method": "afgrl", "data_dir": None}, {"epochs": 3, "schedule": "cosine"})
    return made


def test_the_config_comes_back(run):
    assert run.config() == {
        "run": {"source": "demo", "method": "afgrl"},
        "settings": {"epochs": 3, "schedule": "cosine"},
    }


def test_awkward_strings_survive_the_config(run):
    source = 'C:\\data\\"my graph" – ü\x7f\n.npz'
    run.write_config({"source": source}, {})
    assert run.config()["run"]["source"] == source


def test_a_name_that_is_no_text_gets_one_sentence(run):
    with pytest.raises(UserError, match="no text in any encoding"):
        run.write_config({"source": "\udcff.npz", "method": "afgrl"}, {})


def test_a_config_of_another_version_gets_one_sentence():
    with pytest.raises(UserError, match=r"another version of afgrl: .*'later'"):
        Order.from_toml({"source": "cora", "later": 1})


def test_a_damaged_model_gets_one_sentence(run):
    (run.path / "model.safetensors").write_bytes(b"half of a fi")
    (run.path / "model.json").write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        run.model()


def test_the_folder_one_is_in_gives_its_name(tmp_path, monkeypatch):
    (tmp_path / "my graph").mkdir()
    monkeypatch.chdir(tmp_path / "my graph")
    assert Order(".").run_name == "my graph-afgrl"
    assert Order("/").run_name == "graph-afgrl"
    assert Order("cora", recipe="paper").run_name == "cora-afgrl-paper"


def test_a_run_is_never_overwritten_without_force(run):
    with pytest.raises(UserError, match="exists; --resume goes on with it, --force replaces it"):
        Run.create(run.path)
    replace(run.path)
    assert {path.name for path in run.path.iterdir()} == {"model.safetensors", "model.json"}


def replace(path):
    """As a training does that comes to its end."""
    new = Run.create(path, force=True)
    with new.replacing():
        new.save_model({}, {})


def test_a_run_is_replaced_only_by_one_that_came_to_its_end(run):
    (run.path / "embeddings.parquet").write_text("dear")
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    for _ in range(2):  # the second finds what the first, which was killed, left
        new = Run.create(run.path, force=True)
        new.write_config({"method": "afgrl"}, {})
        assert not (run.path / "embeddings.parquet").exists()
    with pytest.raises(MemoryError), new.replacing():
        raise MemoryError
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_a_run_that_was_interrupted_stays_and_goes_on(run):
    (run.path / "embeddings.parquet").write_text("dear")
    new = Run.create(run.path, force=True)
    new.write_config({"method": "afgrl"}, {})
    with pytest.raises(Interrupted), new.replacing():
        raise Interrupted("Stopped.")
    assert {path.name for path in run.path.iterdir()} == {"config.toml", ".former"}
    Run.open(run.path).save_model({}, {})
    assert {path.name for path in run.path.iterdir()} == {"config.toml", "model.safetensors", "model.json"}


def test_what_is_no_run_is_never_replaced(tmp_path):
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(UserError, match="is not a run"):
        Run.create(tmp_path, force=True)
    assert (tmp_path / "thesis.doc").exists()


@pytest.mark.parametrize("config", ["baseURL = 'https://example.org/'\n", "[run]\nspeed = 3\n", "run = 1\n", "[run"])
def test_a_config_of_another_program_makes_no_run(tmp_path, config):
    (tmp_path / "config.toml").write_text(config)
    (tmp_path / "content").mkdir()
    for force in (False, True):
        with pytest.raises(UserError, match="is not a run"):
            Run.create(tmp_path, force=force)
    with pytest.raises(UserError, match="There is no run in"):
        Run.open(tmp_path)
    assert (tmp_path / "config.toml").read_text() == config
    assert (tmp_path / "content").is_dir()


def test_what_others_put_into_a_run_stays(run):
    foreign = {"notes.txt", "embeddings.ods", ".git", "model.json.bak", "report.html"}
    (run.path / ".git").mkdir()
    (run.path / "report.html").mkdir()  # a run has a file of that name, and no such folder
    for name in foreign - {".git", "report.html"}:
        (run.path / name).write_text("mine")
    own = ["embeddings-new week.csv", "embeddings.npy.ids.txt", "map-pca.npy", "checkpoint.pt", ".model.json.4711"]
    for name in own:
        (run.path / name).write_text("made by afgrl")
    (run.path / "embeddings.lance").mkdir()
    replace(run.path)
    assert {path.name for path in run.path.iterdir()} == foreign | {"model.safetensors", "model.json"}


def test_an_empty_folder_becomes_a_run(tmp_path):
    assert Run.create(tmp_path).path == tmp_path


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(UserError, match="There is no run in"):
        Run.open(tmp_path)


def test_an_unused_name_is_taken_at_once(tmp_path):
    assert [Run.unused(tmp_path / "runs", "demo").path.name for _ in range(3)] == ["demo", "demo-2", "demo-3"]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made"):
        Run.unused(tmp_path / "file", "demo")


def test_the_config_begins_with_the_command_that_repeats_it(run):
    told = {
        "source": "my files",
        "method": "dgi",
        "data_dir": "raw",
        "file_label": "topic",
        "file_columns": ("a=text",),
    }
    run.write_config(told, {"epochs": 3})
    first, second = (run.path / "config.toml").read_text().splitlines()[:2]
    assert first == "# All of this again: " + shlex.join(
        ["afgrl", "fit", "my files", "--method", "dgi", "--data-dir", "raw", "--label", "topic", "--column", "a=text",
         "--config", str(run.path / "config.toml")]
    )  # fmt: skip
    assert "settings" in second


@pytest.mark.parametrize("source", ["", "two\nlines"])
def test_a_run_without_a_command_of_one_line_says_none(run, source):
    run.write_config({"source": source, "method": "dgi"}, {})
    assert run.config()["run"]["source"] == source
    assert "again" not in (run.path / "config.toml").read_text()


def test_an_embedding_is_a_table_of_ids_and_fixed_size_lists(run):
    ids, vectors = np.array(["ä", "b", "c"], dtype=object), np.arange(6, dtype=np.float32).reshape(3, 2)
    run.save_embedding(ids, vectors)
    schema = pq.read_schema(run.path / "embeddings.parquet")
    assert str(schema.field("embedding").type).startswith("fixed_size_list<")
    assert schema.field("embedding").type.list_size == 2
    found_ids, found = run.embedding()
    assert found_ids.tolist() == ids.tolist()
    assert np.array_equal(found, vectors)


def test_history_of_a_process_that_died_while_writing(run):
    for epoch in (1, 10, 20):
        run.append("history.jsonl", {"epoch": epoch})
    with open(run.path / "history.jsonl", "a") as file:
        file.write('{"epoch": 3')
    run.forget_after(10)
    assert [line["epoch"] for line in run.lines("history.jsonl")] == [1, 10]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    file = tmp_path / "scores.json"
    file.write_text("old")

    def fail(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        replace_file(file, fail)
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_what_is_not_there_yet_is_named(run):
    with pytest.raises(UserError, match=r"has no embeddings.parquet: the training has not finished"):
        run.embedding()
    with pytest.raises(UserError, match=r"has no scores.json: `afgrl evaluate` makes it"):
        run.scores()


def test_splits_are_kept(run):
    splits = random_splits(50, seed=3)
    run.save_splits(splits)
    assert run.splits().name == splits.name
    assert np.array_equal(run.splits().roles, splits.roles)


def test_the_environment_says_what_a_figure_was_measured_with(run):
    run.write_environment(torch.device("cpu"))
    stored = json.loads((run.path / "environment.json").read_text())
    assert stored["versions"]["torch"].startswith("2.")
    assert "CPU" in stored["device"]


def test_the_commit_of_someone_elses_project_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.delenv("AFGRL_COMMIT", raising=False)
    monkeypatch.setattr("afgrl.environment.__file__", str(tmp_path / "site-packages" / "environment.py"))
    (tmp_path / "site-packages").mkdir()
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert _commit() is None


def test_search_by_hand(run):
    angles = np.array([0.0, 0.1, 0.3, 2.0])
    run.save_embedding(np.array([7, 8, 9, 10]), np.stack([np.cos(angles), np.sin(angles)], axis=1))
    found = search(run, ["7", "10"], k=2)
    assert [row["id"] for row in found["7"]] == [8, 9]
    assert found["7"][0]["similarity"] == pytest.approx(np.cos(0.1), abs=1e-5)
    assert [row["id"] for row in found["10"]] == [9, 8]
    with pytest.raises(UserError, match="There is no node '3'; the ids are 7 to 10"):
        search(run, ["3"])
    with pytest.raises(UserError, match="At least one neighbor"):
        search(run, ["7"], k=0)
    assert len(search(run, ["7"], k=10)["7"]) == 3


def test_search_by_name_suggests(run):
    run.save_embedding(np.array(["anna", "bo"], dtype=object), np.eye(2, dtype=np.float32))
    with pytest.raises(UserError, match="no node 'ana'; did you mean 'anna'"):
        search(run, ["ana"], k=1)


def test_a_twin_of_the_node_is_found_before_itself(run):
    run.save_embedding(np.arange(5), np.ones((5, 3), dtype=np.float32))
    assert all(row["id"] != 2 for row in search(run, ["2"], k=3)["2"])
    assert len(search(run, ["2"], k=4)["2"]) == 4
