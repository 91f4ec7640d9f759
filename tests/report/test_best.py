import shlex

import numpy as np
import pytest
import torch

from afgrl.cli.quality_tables import comparison
from afgrl.cli.tables import scores as score_tables
from afgrl.data import load
from afgrl.evaluate.columns import COLUMNS, READOUT_COLUMNS
from afgrl.experiment.training import fit
from afgrl.experiment.untrained import command_of_baseline, untrained_embeddings
from afgrl.report.best import best_run, best_vectors
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from tests.cli.test_commands import afgrl
from tests.sample_runs import make_run, scores

CPU = torch.device("cpu")


def test_the_best_untrained_vectors_have_the_command_that_makes_them(tmp_path):
    run = make_run(tmp_path / "run", 12)
    stored = scores(0)
    assert best_vectors(run, stored, READOUT_COLUMNS).commands == {}
    stored["baselines"]["svd"] = stored["last-epoch"] | {"similarity": {"sim@5": {"values": [0.99]}}}
    best = best_vectors(run, stored, COLUMNS)
    assert "best Sim@5: SVD of 3 hops, 0.1000 above trained (measured once)." in best.sentence
    assert list(best.commands) == ["SVD of 3 hops"]
    stored["baselines"] = {}
    assert best_vectors(run, stored, COLUMNS) is None


@pytest.mark.parametrize(
    ("method", "settings"), [("node_embedder", {"steps": 2, "n_components": 16}), ("afgrl", {"epochs": 2})]
)
def test_the_commands_give_the_vectors_that_were_scored(method, settings, tmp_path):
    small = {"n_clusters": 5, "predictor_width": 16, **settings}
    run = fit(RunSpec("demo", method, settings=small), tmp_path / "run", CPU)
    for name, vectors in untrained_embeddings(run.spec(), load("demo"), CPU):
        words = shlex.split(command_of_baseline(run, name))[1:]
        answer = afgrl(*words, "--out", tmp_path / name, "--device", "cpu", "--quiet")
        assert answer.exit_code == 0, answer.stderr
        made = Run.open(tmp_path / name).embedding()[1]
        assert np.array_equal(made, vectors.to_dense().numpy()), name


def test_runs_with_the_same_splits_are_compared_split_by_split(tmp_path, monkeypatch):
    runs = [make_run(tmp_path / name, 12) for name in ("a", "b")]
    stored = scores(0)
    y, splits = load("demo").y, load("demo").splits
    labels = {run.path: (y, splits) for run in runs}
    monkeypatch.setattr(Run, "labels", lambda run: labels[run.path])
    for run, shift in zip(runs, (0, 0.5), strict=True):
        stored["last-epoch"]["classification"]["accuracy"]["values"] = [80 + 3 * i + shift for i in range(20)]
        run.save_scores(stored)
    assert "Best accuracy: b, 0.50 ± 0.00 above a on the same 20 splits (more than noise)" in best_run(runs, ["a", "b"])
    labels[runs[1].path] = (np.roll(y, 1), splits)
    assert "Best accuracy: b, 0.50 ± 25.10 above a (within noise)" in best_run(runs, ["a", "b"])
    runs[1].save_scores(stored | {"dataset": "another graph"})
    assert best_run(runs, ["a", "b"]) is None
    assert best_run(runs[:1], ["a"]) is None


def marks(table):
    """The title of the row with the star, for each column."""
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    return [[name for name, cell in zip(cells[0], column, strict=True) if cell.startswith("*")] for column in cells[1:]]


def test_the_best_value_of_each_column_has_a_star():
    stored = scores(0, best_epoch=True)
    stored["baselines"]["raw"]["similarity"]["sim@5"]["mean"] = 0.95
    tasks, readout = score_tables(stored | {"sampled": None})
    assert marks(tasks) == [["trained"]] * 4 + [["raw features"], ["trained"]]  # the best epoch's are higher
    assert marks(readout) == [["trained"]] * 3


def test_the_scores_of_runs_are_marked_if_they_are_of_one_graph():
    rows = [
        {"name": name, "dataset": "letters", "n_clusters": 3, "modularity": 0.1, "classification accuracy": value}
        for name, value in (("a", 80.0), ("b", 90.0))
    ]
    scored, unlabeled = comparison(rows)
    assert (marks(scored), marks(unlabeled)) == ([["b"]], [[]])
    rows[0]["dataset"] = "digits"
    assert marks(comparison(rows)[0]) == [[], []]
