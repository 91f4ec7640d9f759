"""RunSpec → Run: training, resuming and evaluating in a run folder."""

import shutil

import numpy as np
import pytest
import torch

from afgrl.errors import UserError
from afgrl.experiment.cache import RunCache, run_grid
from afgrl.experiment.evaluation import evaluate_run
from afgrl.experiment.model import load_method
from afgrl.experiment.training import fit, resume
from afgrl.runs.folder import EVALUATIONS, HISTORY, Run
from afgrl.runs.spec import EvaluationPlan, RunSpec

CPU = torch.device("cpu")
SMALL = {
    "epochs": 6, "n_components": 8, "predictor_width": 8, "n_clusters": 4, "n_restarts": 2, "kmeans_iters": 2,
    "n_hops": 0, "n_layers": 1,
}  # fmt: skip
QUICK = EvaluationPlan(every=3, n_splits=2, n_fits=2, n_init=1)
SPEC = RunSpec("demo", "afgrl", settings=SMALL, evaluation=QUICK)
SAVED_TWICE = RunSpec("demo", "afgrl", settings=SMALL | {"checkpoint_every": 4}, evaluation=QUICK)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fit(SPEC, tmp_path_factory.mktemp("experiment") / "run", CPU)


def test_the_spec_of_a_run_has_complete_settings(run):
    spec = run.spec()
    assert spec.settings.items() >= SMALL.items()
    assert spec.settings["seed"] == 0
    assert spec.evaluation == QUICK
    again = fit(spec, run.path.parent / "again", CPU)
    assert np.array_equal(again.embedding()[1], run.embedding()[1])


def test_the_saved_model_gives_the_saved_vectors(run):
    method = load_method(run, CPU)
    assert not method.training
    assert np.array_equal(method.embed_graph(run.dataset().graph).numpy(), run.embedding()[1])
    description = run.model_description()
    assert (description["epochs"], description["n_nodes"], description["weighted"]) == (6, 1797, False)
    assert description["seconds"] > 0


def test_periodic_evaluations_include_the_untrained_encoder_and_the_last_epoch(run):
    records = run.lines(EVALUATIONS)
    assert [record["epoch"] for record in records] == [0, 3, 6]
    assert all(len(record["test"]) == 2 and len(record["nmi"]) == 2 for record in records)


def test_periodic_evaluation_does_not_change_training(run, tmp_path):
    plain = fit(RunSpec("demo", "afgrl", settings=SMALL), tmp_path / "plain", CPU)
    assert np.array_equal(plain.embedding()[1], run.embedding()[1])
    assert [line["loss"] for line in plain.lines(HISTORY)] == [line["loss"] for line in run.lines(HISTORY)]
    assert plain.lines(EVALUATIONS) == []


def test_scores_use_the_first_splits_of_the_plan(run):
    scores = evaluate_run(run, CPU, baselines=False)
    for protocol in ("last-epoch", "best-epoch"):
        assert len(scores[protocol]["classification"]["accuracy"]["values"]) == 2
    assert scores["best-epoch"]["classification"]["epoch"] in (0, 3, 6)
    assert scores == run.scores()


def test_a_resumed_run_repeats_evaluations_after_its_checkpoint(run, tmp_path):
    """Killed after epoch 4, with lines of later epochs in its logs."""
    whole = fit(SAVED_TWICE, tmp_path / "run", CPU)
    checkpoints = []
    save = Run.save_checkpoint
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Run, "save_checkpoint", lambda self, state: (checkpoints.append(state["step"]), save(self, state))
        )
        fit(SAVED_TWICE, tmp_path / "other", CPU)
        assert checkpoints == [4, 6]
        patch.setattr(Run, "save_checkpoint", lambda self, state: save(self, state) if state["step"] == 4 else None)
        patch.setattr(Run, "drop_checkpoint", lambda self: None)
        killed = fit(SAVED_TWICE, tmp_path / "k", CPU)
    for name in ("model.json", "model.safetensors", "embeddings.parquet"):
        (killed.path / name).unlink()
    assert killed.checkpoint(CPU)["step"] == 4
    resume(killed, CPU)
    for log in (HISTORY, EVALUATIONS):
        assert killed.lines(log) == whole.lines(log), log
    assert np.array_equal(killed.embedding()[1], whole.embedding()[1])


def test_a_finished_run_has_no_checkpoint_and_says_that_it_is_finished(run, monkeypatch):
    assert not run.has_checkpoint
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.path.iterdir()}
    said = []
    monkeypatch.setattr("afgrl.experiment.training.train_run", lambda *_, **__: pytest.fail("trained"))
    assert resume(run, CPU, message=said.append) == run
    assert said == [f"The run {str(run.path)!r} is finished, so nothing was trained; --force trains it again."]
    assert {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.path.iterdir()} == before


@pytest.mark.parametrize("name", ["embeddings.parquet", "environment.json", "model.safetensors", "model.json"])
@pytest.mark.parametrize("damage", [b"half of a fi", None])
def test_a_damaged_file_of_a_finished_run_is_written_again(run, name, damage, tmp_path):
    """As the sentence about such a file promises: from the model without training, or by training again."""
    copy = Run(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)
    (copy.path / name).unlink()
    if damage is not None:
        (copy.path / name).write_bytes(damage)
    trains = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save_checkpoint", lambda self, checkpoint: trains.append(checkpoint["step"]))
        resume(copy, CPU)
    assert bool(trains) == name.startswith("model")
    assert copy.environment() or (name, damage) == ("environment.json", None)
    for log in (HISTORY, EVALUATIONS):
        assert copy.lines(log) == run.lines(log), log
    for one in ("embeddings.parquet", "model.safetensors"):
        assert (copy.path / one).read_bytes() == (run.path / one).read_bytes()
    assert copy.model_description()["epochs"] == 6


def test_a_checkpoint_that_a_killed_process_left_in_a_complete_run_is_removed(run, tmp_path):
    copy = Run(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)
    (copy.path / "checkpoint.pt").write_bytes(b"of the last epoch")
    (copy.path / "checkpoint-6").mkdir()
    (copy.path / "checkpoint-6" / ".metadata").write_bytes(b"of several processes")
    Run.open(copy.path)
    assert not list(copy.path.glob("checkpoint*"))


def test_a_graph_without_labels_cannot_be_evaluated_during_training(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    with pytest.raises(UserError, match="has no labels, so it cannot be evaluated during training"):
        fit(RunSpec(str(tmp_path / "edges.csv"), evaluation=QUICK), tmp_path / "run", CPU)
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_refused_before_the_source_is_read(run, monkeypatch):
    monkeypatch.setattr(RunSpec, "load", lambda *_: pytest.fail("read"))
    with pytest.raises(UserError, match="exists; use --resume"):
        fit(run.spec(), run.path, torch.device("cpu"))


def test_the_cache_runs_a_spec_once(tmp_path, monkeypatch):
    cache, messages = RunCache(tmp_path / "cache"), []
    other = RunSpec("demo", "raw", evaluation=QUICK)
    records = run_grid([SPEC, SPEC, other], cache, CPU, message=messages.append)
    assert list(records) == [SPEC, other]
    assert messages[0] == "0 of 2 runs are cached"
    monkeypatch.setattr("afgrl.experiment.cache.fit", lambda *arguments, **options: pytest.fail("trained again"))
    again = run_grid([SPEC, other], cache, CPU, message=messages.append)
    assert again == records
    assert messages[-1] == "2 of 2 runs are cached"
    same = RunSpec("demo", "afgrl", settings={**SMALL, "momentum": 0.9, "seed": 0}, evaluation=QUICK)  # defaults
    assert cache.path(same) == cache.path(SPEC)
    for changed in (
        RunSpec("demo", "afgrl", settings=SMALL | {"seed": 1}, evaluation=QUICK),
        RunSpec("demo", "afgrl", settings=SMALL),
        RunSpec("demo", "dgi", evaluation=QUICK),
    ):
        assert cache.path(changed) != cache.path(SPEC)
        assert run_grid([changed], cache, CPU, cached_only=True) == {}


def test_the_cache_gives_the_bits_of_fit_and_keeps_little(run, tmp_path):
    cache = RunCache(tmp_path / "cache")
    record = run_grid([SPEC], cache, CPU, keep_embedding=lambda spec: True)[SPEC]
    assert np.array_equal(cache.embedding(SPEC), run.embedding()[1])
    assert record["epochs"] == 6
    assert [part["epoch"] for part in record["evaluations"]] == [0, 3, 6]
    assert record["command"].startswith("afgrl fit demo --method afgrl --evaluate-every 3 --set ")
    assert " --set epochs=6 " in record["command"]
    folder = cache.path(SPEC)
    assert not (folder / "checkpoint.pt").exists()
    assert (folder / "graph.safetensors").stat().st_size < 200_000  # without the features


def test_the_cache_continues_an_interrupted_run(tmp_path):
    cache = RunCache(tmp_path)
    expected = run_grid([SPEC], RunCache(tmp_path / "other"), CPU)[SPEC]
    path = cache.path(SPEC)
    run = fit(SPEC, path, CPU, with_features=False)
    for name in ("model.json", "model.safetensors", "embeddings.parquet"):
        (run.path / name).unlink()
    found = run_grid([SPEC], cache, CPU)[SPEC]
    assert found["last-epoch"] == expected["last-epoch"]


def test_a_run_that_fails_is_reported_and_the_others_are_kept(tmp_path):
    messages = []
    broken = RunSpec("demo", "afgrl", settings=SMALL | {"learning_rate": 1e17}, evaluation=QUICK)
    records = run_grid([broken, SPEC], RunCache(tmp_path), CPU, message=messages.append)
    assert list(records) == [SPEC]
    assert any("learning_rate=1e+17 failed and is left out: " in message for message in messages)
