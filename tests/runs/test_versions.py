"""Runs of the format before this one are read as runs of this one."""

import json

import numpy as np
import pytest
import torch

from afgrl import AFGRL, NodeEmbedder
from afgrl.errors import UserError
from afgrl.experiment.model import load_method
from afgrl.experiment.training import fit, resume
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from afgrl.runs.versions import current

CPU = torch.device("cpu")
SMALL = {"n_components": 8, "n_clusters": 4, "n_restarts": 2, "kmeans_iters": 2}
# What format 3 wrote beside the settings that a method still has.
BATCHES = {"epochs": 0, "n_layers": 1}
FULL = {"steps": 0, "batch_size": 0, "dropout": 0.0, "encoder_width": 8, "skip": "none", "input": "features",
        "neighbor_weight": 0.0}  # fmt: skip


def as_format_3(run, method, more):
    """Rewrite what names the method and its settings."""
    config, model = run.path / "config.toml", run.path / "model.json"
    lines = [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    text = config.read_text().replace("format = 4", "format = 3")
    text = text.replace(f'method = "{run.spec().method}"', f'method = "{method}"') + "\n".join(lines) + "\n"
    config.write_text(text)
    description = json.loads(model.read_text())
    model.write_text(json.dumps(description | {"method": method, "settings": description["settings"] | more}))


@pytest.mark.parametrize(
    ("method", "own", "more", "estimator"),
    [("node_embedder", {"steps": 3}, BATCHES, NodeEmbedder), ("afgrl", {"epochs": 2}, FULL, AFGRL)],
)
def test_a_run_of_format_3_is_read_and_trained_again_with_the_same_bits(method, own, more, estimator, tmp_path):
    run = fit(RunSpec("demo", method, settings=SMALL | own), tmp_path / "run", CPU)
    vectors, ids = run.embedding()[1], run.embedding_ids()
    as_format_3(run, "afgrl", more)
    old = Run.open(run.path)
    assert old.spec().method == load_method(old, CPU).name == method
    assert np.array_equal(estimator.load(run.path, device="cpu").embedding_, vectors)
    assert np.array_equal(old.embedding_ids(), ids)
    (run.path / "model.json").unlink()
    assert np.array_equal(resume(old, CPU).embedding()[1], vectors)


def test_methods_that_do_not_train_had_epochs():
    assert current("svd", {"epochs": 0, "n_components": 3}) == ("svd", {"n_components": 3})
    assert current("bgrl", {"epochs": 5}) == ("bgrl", {"epochs": 5})
    assert current("no such method", {"epochs": 5}) == ("no such method", {"epochs": 5})


def test_formats_before_and_after_are_refused(tmp_path):
    run = fit(RunSpec("demo", "raw"), tmp_path / "run", CPU)
    config = run.path / "config.toml"
    for found, made_by in ((2, "an older"), (5, "a newer")):
        config.write_text(config.read_text().replace("format = 4", f"format = {found}"))
        with pytest.raises(UserError, match=f"was made by {made_by} version of afgrl"):
            Run.open(run.path)
        config.write_text(config.read_text().replace(f"format = {found}", "format = 4"))
