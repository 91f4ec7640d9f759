import json
import shlex
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from afgrl.data.tables.options import ReadOptions
from afgrl.errors import Interrupted, UserError
from afgrl.runs.environment import _commit
from afgrl.runs.files import replace_file
from afgrl.runs.folder import FORMAT, HISTORY, Run
from afgrl.runs.spec import EvaluationPlan, RunSpec


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run")
    made.save_spec(RunSpec("demo", settings={"epochs": 3, "schedule": "cosine"}))
    return made


def test_the_spec_survives_a_round_trip(run):
    spec = RunSpec(
        "my files", "dgi", "paper", {"epochs": 3, "learning_rate": 1e-3, "warm": True}, "raw", "random", False,
        EvaluationPlan(5, 3, 2, 1), ReadOptions(label="topic", columns=("a=text", "b=ignore"), knn_graph=4),
    )  # fmt: skip
    run.save_spec(spec)
    assert run.spec() == spec
    assert hash(run.spec()) == hash(spec)


def test_awkward_strings_survive_the_config(run):
    source = 'C:\\data\\"my graph" – ü\x7f\n.npz'
    run.save_spec(RunSpec(source))
    assert run.spec().source == source


def test_a_source_name_that_is_not_valid_text_gets_one_sentence(run):
    with pytest.raises(UserError, match="not valid text"):
        run.save_spec(RunSpec("\udcff.npz"))


def test_a_spec_with_an_unknown_entry_gets_one_sentence():
    with pytest.raises(UserError, match=r"config.toml cannot be read: .*'later'"):
        RunSpec.from_toml({"run": {"source": "cora", "later": 1}})


@pytest.mark.parametrize(("found", "age"), [(None, "an older"), (1, "an older"), (99, "a newer")])
def test_a_run_of_another_format_is_refused_with_one_sentence(run, found, age):
    text = (run.path / "config.toml").read_text()
    assert f"format = {FORMAT}\n" in text
    (run.path / "config.toml").write_text(text.replace(f"format = {FORMAT}\n", f"format = {found}\n" if found else ""))
    with pytest.raises(UserError, match=rf"made by {age} version of afgrl \(format {found or 1}, this is {FORMAT}\)"):
        Run.open(run.path)
    Run.create(run.path, force=True)  # it can still be replaced


def test_a_damaged_model_gets_one_sentence(run):
    (run.path / "model.safetensors").write_bytes(b"half of a fi")
    (run.path / "model.json").write_text("{}")
    with pytest.raises(UserError, match="is damaged"):
        run.model()


def test_the_folder_one_is_in_gives_its_name(tmp_path, monkeypatch):
    (tmp_path / "my graph").mkdir()
    monkeypatch.chdir(tmp_path / "my graph")
    assert RunSpec(".").run_name == "my graph"
    assert RunSpec("/", "afgrl").run_name == "graph-afgrl"
    assert RunSpec("cora", "afgrl", "paper").run_name == "cora-afgrl-paper"


def test_a_run_is_never_overwritten_without_force(run):
    with pytest.raises(UserError, match="exists; use --resume to continue it, --force to replace it"):
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
        new.save_spec(RunSpec("demo"))
        assert not (run.path / "embeddings.parquet").exists()
    with pytest.raises(MemoryError), new.replacing():
        raise MemoryError
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_a_run_that_was_interrupted_stays_and_goes_on(run):
    (run.path / "embeddings.parquet").write_text("dear")
    new = Run.create(run.path, force=True)
    new.save_spec(RunSpec("demo"))
    with pytest.raises(Interrupted), new.replacing():
        raise Interrupted("Stopped.")
    assert {path.name for path in run.path.iterdir()} == {"config.toml", ".previous"}
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
    with pytest.raises(UserError, match="is not a run"):
        Run.open(tmp_path)
    assert (tmp_path / "config.toml").read_text() == config
    assert (tmp_path / "content").is_dir()


def test_what_others_put_into_a_run_stays(run):
    foreign = [
        "notes.txt", "embeddings.ods", ".git/HEAD", "model.json.bak", "embeddings-mine.csv", "embeddings-mine.lance/a",
        "added-mine.parquet", "projection-mine.npy", "map-mine.npy", "quality/mine.txt", "quality/seed-1/mine.txt",
        "quality/edges-1-0123abcd/mine.txt", "checkpoint-backup/mine.txt", "checkpoint-10/mine.txt",
        "report.html/mine.txt",  # a run has a file of that name, and no such folder
    ]  # fmt: skip
    for name in foreign:
        write(run.path / name)
    own = [
        "embeddings.npy.ids.txt", "projection-pca.npy", "checkpoint.pt", "checkpoint-10/.metadata",
        "checkpoint-10/__0_0.distcp", "checkpoint-20/.metadata", "scores-partial.json", ".model.json.4711",
        "quality/edges-1-0123abcd/model.json", "quality/links-0123abcd/model.json", "embeddings.lance/data",
    ]  # fmt: skip
    for name in own:
        write(run.path / name)
    for name in ("edges-1-0123abcd", "links-0123abcd"):
        Run(run.path / "quality" / name).save_spec(RunSpec("demo"))
    before = files(run.path)
    new = Run.create(run.path, force=True)
    assert set(files(run.path)) - set(foreign) == {name for name in files(run.path) if name.startswith(".aside.")}
    with pytest.raises(MemoryError), new.replacing():
        raise MemoryError
    del before[".model.json.4711"]  # of a process that has ended
    assert files(run.path) == before
    replace(run.path)
    assert set(files(run.path)) == {*foreign, "model.safetensors", "model.json"}
    folders = {path.name for path in run.path.rglob("*") if path.is_dir()}
    assert not folders & {"checkpoint-20", "links-0123abcd", "embeddings.lance"}


def write(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"what is in {file.name}")


def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_files_whose_names_the_user_chose_belong_to_the_run_that_wrote_them(run):
    run.save_projection("mine", np.zeros((3, 2)))
    run.note_file(run.path / "embeddings-new week.npy")
    for name in ("embeddings-new week.npy", "embeddings-new week.npy.ids.txt", "projection-other.npy"):
        write(run.path / name)
    columns = {"id": ["a"], "embedding": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}
    pq.write_table(pa.table(columns), run.path / "added-week.parquet")  # also of a run from before there was a list
    replace(run.path)
    assert set(files(run.path)) == {"projection-other.npy", "model.safetensors", "model.json"}


@pytest.mark.parametrize("names", [["../thesis.doc", "notes.txt", 3, None], {"a": 1}, "projection-a.npy"])
def test_a_list_of_written_files_names_nothing_else(run, names):
    write(run.path.parent / "thesis.doc")
    write(run.path / "notes.txt")
    (run.path / "written.json").write_text(json.dumps({"names": names}))
    replace(run.path)
    assert (run.path.parent / "thesis.doc").is_file()
    assert set(files(run.path)) == {"notes.txt", "model.safetensors", "model.json"}


def test_checkpoints_of_other_programs_stay_while_a_run_saves_its_own(run):
    write(run.path / "checkpoint-7" / "trainer_state.json")
    write(run.path / "checkpoint-8" / ".metadata")
    run.save_checkpoint({"step": 9})
    assert {name for name in files(run.path) if name.startswith("checkpoint")} == {
        "checkpoint-7/trainer_state.json", "checkpoint.pt",
    }  # fmt: skip
    assert not (run.path / "checkpoint-8").exists()


def test_an_empty_folder_becomes_a_run(tmp_path):
    assert Run.create(tmp_path).path == tmp_path


def test_opening_what_is_no_run(tmp_path):
    with pytest.raises(UserError, match="is not a run"):
        Run.open(tmp_path)


def test_an_unused_name_is_taken_at_once(tmp_path):
    assert [Run.create_unused(tmp_path / "runs", "demo").path.name for _ in range(3)] == ["demo", "demo-2", "demo-3"]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be created"):
        Run.create_unused(tmp_path / "file", "demo")


def test_the_config_begins_with_the_command_that_repeats_the_run(run):
    read = ReadOptions(label="topic", source="from", columns=("a=text",))
    run.save_spec(RunSpec("my files", "dgi", settings={"epochs": 3}, data_dir="raw", read=read))
    first, second = (run.path / "config.toml").read_text().splitlines()[:2]
    assert first == "# Repeat this run: " + shlex.join(
        ["afgrl", "fit", "my files", "--method", "dgi", "--data-dir", "raw", "--source-column", "from", "--label",
         "topic", "--column", "a=text", "--config", str(run.path / "config.toml")]
    )  # fmt: skip
    assert "settings" in second


def test_without_a_file_the_command_has_the_settings():
    spec = RunSpec("cora", "gca", "paper", {"epochs": 3, "seed": 1})
    assert spec.command() == "afgrl fit cora --method gca --recipe paper --set epochs=3 --set seed=1"
    assert RunSpec("").command() is None


@pytest.mark.parametrize("source", ["", "two\nlines"])
def test_a_run_without_a_one_line_command_has_no_such_comment(run, source):
    run.save_spec(RunSpec(source))
    assert run.spec().source == source
    assert "Repeat this run" not in (run.path / "config.toml").read_text()


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
        run.append(HISTORY, {"epoch": epoch})
    with open(run.path / HISTORY, "a") as file:
        file.write('{"epoch": 3')
    run.drop_lines_after(10)
    assert [line["epoch"] for line in run.lines(HISTORY)] == [1, 10]


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
    with pytest.raises(UserError, match=r"has no embeddings.parquet: training has not finished; resume it"):
        run.embedding()
    with pytest.raises(UserError, match=r"has no scores.json: create it with `afgrl evaluate`"):
        run.scores()


def test_the_environment_records_versions_and_device(run):
    run.save_environment(torch.device("cpu"))
    stored = json.loads((run.path / "environment.json").read_text())
    assert stored["versions"]["torch"].startswith("2.")
    assert "CPU" in stored["device"]


def test_the_commit_of_someone_elses_project_is_not_ours(tmp_path, monkeypatch):
    monkeypatch.delenv("AFGRL_COMMIT", raising=False)
    monkeypatch.setattr("afgrl.runs.environment.__file__", str(tmp_path / "site-packages" / "environment.py"))
    (tmp_path / "site-packages").mkdir()
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert _commit() is None
