"""Quality on real graphs; runs where AFGRL_DATA points to their raw files."""

import os

import pytest
import torch

from afgrl import experiment

REAL_DATA = os.environ.get("AFGRL_DATA")


@pytest.mark.real_data
@pytest.mark.skipif(not REAL_DATA, reason="AFGRL_DATA is not set")
def test_cora_from_the_readme_in_small(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    order = experiment.Order("cora", data_dir=REAL_DATA, splits="random")
    cpu = torch.device("cpu")
    run = experiment.fit(order, {"epochs": 60, "n_components": 128, "predictor_width": 256}, tmp_path / "run", cpu)
    scores = experiment.evaluate(run.path, cpu)
    trained, untrained, raw = scores["label-free"], scores["baselines"]["random"], scores["baselines"]["raw"]
    for other in (untrained, raw):
        assert accuracy(trained) > accuracy(other) + 3  # measured: 79.7 against 66.2 and 64.8
        assert similarity(trained) > similarity(other) + 0.03  # measured: .810 against .741 and .593


def accuracy(scores):
    return scores["classification"]["accuracy"]["mean"]


def similarity(scores):
    return scores["similarity"]["sim@5"]["mean"]
