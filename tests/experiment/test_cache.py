"""Grids of runs over the run cache: interruptions, failures, processes and changed data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from afgrl.data import load
from afgrl.errors import Interrupted
from afgrl.experiment import cache as cache_module
from afgrl.experiment.cache import RunCache, run_grid
from afgrl.runs.folder import Run
from afgrl.runs.spec import EvaluationPlan, RunSpec
from afgrl.train.callbacks import Checkpoints

CPU = torch.device("cpu")
QUICK = EvaluationPlan(every=1, n_splits=2, n_fits=1, n_init=1)


def random_encoder(width):
    return RunSpec("demo", "random", settings={"n_components": width}, evaluation=QUICK)


def test_an_interruption_keeps_finished_runs_and_stops_the_grid(tmp_path, monkeypatch):
    specs, cache, started = [random_encoder(width) for width in (4, 5, 6)], RunCache(tmp_path), []
    fit = cache_module.fit

    def interrupted_at_the_second(spec, *arguments, **options):
        started.append(spec)
        if len(started) == 2:
            raise Interrupted("Stopped after epoch 3.")
        return fit(spec, *arguments, **options)

    monkeypatch.setattr(cache_module, "fit", interrupted_at_the_second)
    with pytest.raises(Interrupted, match="the same command continues"):
        run_grid(specs, cache, CPU)
    assert [cache.record(spec) is not None for spec in specs] == [True, False, False]
    run_grid(specs, cache, CPU)
    assert started[2:] == specs[1:]


def test_a_run_continues_after_its_last_checkpoint_with_the_same_evaluations(tmp_path, monkeypatch):
    plan = replace(QUICK, every=11)
    spec = RunSpec("demo", "bgrl", "paper", {"epochs": 41, "n_components": 8, "hidden_width": 8}, evaluation=plan)
    whole = run_grid([spec], RunCache(tmp_path / "whole"), CPU)[spec]
    steps = []

    def killed_after_25(self, state, loss):
        steps.append(state.step)
        if state.step == 25:
            self.save(state)
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "__call__", killed_after_25)
    cache = RunCache(tmp_path / "parts")
    with pytest.raises(KeyboardInterrupt):
        run_grid([spec], cache, CPU)
    assert cache.record(spec) is None
    found = run_grid([spec], cache, CPU)[spec]
    assert steps == [*range(1, 26), *range(26, 42)]
    for name in ("last-epoch", "best-epoch", "evaluations", "epochs"):
        assert found[name] == whole[name]
    assert [each["epoch"] for each in found["evaluations"]] == [0, 11, 22, 33, 41]


def test_a_run_that_does_not_fit_in_memory_is_left_out(tmp_path, monkeypatch):
    fit = cache_module.fit

    def out_of_memory(spec, *arguments, **options):
        if spec.method == "raw":
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 80 GiB")
        return fit(spec, *arguments, **options)

    monkeypatch.setattr(cache_module, "fit", out_of_memory)
    specs, messages = [RunSpec("demo", "raw", evaluation=QUICK), random_encoder(4)], []
    assert list(run_grid(specs, RunCache(tmp_path), CPU, message=messages.append)) == specs[1:]
    assert messages[1] == "1/2 demo raw failed and is left out: CUDA out of memory."


def test_several_processes_give_the_same_scores(tmp_path):
    specs = [random_encoder(width) for width in (4, 5)]
    alone = run_grid(specs, RunCache(tmp_path / "one"), CPU)
    together = run_grid(specs, RunCache(tmp_path / "two"), CPU, workers=2)
    for spec in specs:
        accuracy = [found[spec]["last-epoch"]["classification"]["accuracy"]["values"] for found in (alone, together)]
        assert accuracy[0] == pytest.approx(accuracy[1], abs=0.5)  # with fewer threads, sums have another order


def test_an_embedding_that_was_not_kept_is_computed_again(tmp_path, monkeypatch):
    cache, spec = RunCache(tmp_path), random_encoder(4)
    record = run_grid([spec], cache, CPU)[spec]
    assert cache.embedding(spec) is None
    assert run_grid([spec], cache, CPU, cached_only=True, keep_embedding=lambda spec: True)[spec] == record
    again = run_grid([spec], cache, CPU, keep_embedding=lambda spec: True)[spec]
    assert again["last-epoch"] == record["last-epoch"]
    first = cache.embedding(spec)
    assert first.shape == (1797, 4)
    monkeypatch.setattr(cache_module, "fit", None)
    run_grid([spec], cache, CPU, keep_embedding=lambda spec: True)
    assert np.array_equal(cache.embedding(spec), first)


def test_changed_data_is_another_run(tmp_path, monkeypatch):
    """Edges, features, labels and splits; the location of the raw files does not matter."""
    demo, cache, spec = load("demo"), RunCache(tmp_path), random_encoder(4)
    x = demo.graph.x.clone()
    x[0] = x[0].flip(0)
    edges = demo.graph.edge_index
    y = np.roll(demo.y, 1)
    splits = replace(demo.splits, roles=np.roll(demo.splits.roles, 1, axis=1))
    datasets = [
        demo,
        replace(demo, graph=replace(demo.graph, x=x)),
        replace(demo, graph=replace(demo.graph, edge_index=edges[:, edges[0] + edges[1] != edges[:, 0].sum()])),
        replace(demo, y=y),
        replace(demo, splits=splits),
    ]
    paths = []
    for dataset in datasets:
        cache_module.loaded.cache_clear()
        monkeypatch.setattr(RunSpec, "load", lambda self, data_dir=None, own=dataset: own)
        paths.append(cache.path(spec))
        assert cache.path(replace(spec, data_dir="elsewhere")) == paths[-1]
    cache_module.loaded.cache_clear()
    assert len(set(paths)) == len(datasets)


def test_another_version_of_the_package_is_another_run(tmp_path, monkeypatch):
    before = RunCache(tmp_path).path(random_encoder(4))
    monkeypatch.setattr("afgrl.__version__", "0.0.0")
    assert RunCache(tmp_path).path(random_encoder(4)) != before


def test_a_cached_run_is_a_run_folder_without_large_files(tmp_path):
    cache, spec = RunCache(tmp_path), random_encoder(4)
    run_grid([spec], cache, CPU)
    run = Run.open(cache.path(spec))
    assert run.is_complete
    assert run.scores()["method"] == "random"
    assert not {"checkpoint.pt", "model.safetensors", "embeddings.parquet"} & {file.name for file in run.path.iterdir()}
