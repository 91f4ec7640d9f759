"""Which runs a table or figure needs, and how often they are evaluated."""

import math

import pytest

from afgrl.config import EpochSettings
from afgrl.reproduce import best_epoch, table2
from afgrl.reproduce.pipeline import RESULTS
from afgrl.reproduce.result import seeds_of
from afgrl.reproduce.scope import Scope, evaluation_plan
from afgrl.runs.spec import EvaluationPlan
from tests.reproduce.records import record


@pytest.mark.parametrize(
    ("epochs", "patience", "every", "every_in_a_grid"),
    [
        (3000, 0, 500, 1500),
        (1000, 0, 167, 500),  # a sixth, rounded up, so that the last epoch is not evaluated right after another one
        (10_000, 0, 500, 5000),
        (10_000, 20, 50, 50),  # patience may end it early
        (100, 20, 17, 50),
        (0, 0, 1, 1),  # the untrained encoder is evaluated
    ],
)
def test_a_run_is_evaluated_six_times_or_more_and_twice_in_a_grid(epochs, patience, every, every_in_a_grid):
    settings = EpochSettings(epochs=epochs, patience=patience)
    assert evaluation_plan(settings) == EvaluationPlan(every=every)
    assert evaluation_plan(settings, grid=True) == EvaluationPlan(every=every_in_a_grid)
    assert evaluation_plan(settings, quick=True).every == max(1, epochs)


def test_tables_share_their_runs():
    scope = Scope(("demo",), ("node_embedder", "afgrl", "bgrl", "raw"), quick=True)
    specs = [RESULTS[name].specs(scope) for name in ("table2", "table3", "table4")]
    assert specs[0] == specs[1] == specs[2]
    assert len(set(specs[0])) == 4


def test_in_a_grid_published_settings_are_evaluated_as_often_as_others(available):
    available("photo")
    scope = Scope(("photo",), ("afgrl", "gca"), seeds=2, grid_seeds=1)
    grids = [RESULTS[name].specs(scope) for name in ("table1", "figure-sensitivity", "figure-ablation")]
    epochs = {"afgrl": 3000, "gca": 2000}
    for spec in (spec for specs in grids for spec in specs):
        assert spec.evaluation.every == math.ceil(spec.settings.get("epochs", epochs[spec.method]) / 2)
    published = [spec for spec in grids[1] if spec.settings == {"seed": 0}]
    assert len(published) == 2  # once as a value of k, once as a value of M
    assert set(published) <= set(grids[0]) & set(grids[2])  # one run for all three
    assert {spec.evaluation.every for spec in table2.specs(scope) if spec.recipe == "paper"} == {334, 500}


def test_a_spec_repeats_a_run_by_its_command(available):
    available("photo")
    spec = Scope(("photo",), ("afgrl",), data_dir="raw").spec("photo", "afgrl", 1, n_neighbors=8, n_restarts=5)
    assert spec.settings == {"n_neighbors": 8, "seed": 1}  # 5 restarts are in the recipe
    assert spec.command() == (
        "afgrl fit photo --method afgrl --recipe paper --data-dir raw --splits random --evaluate-every 500 "
        "--set n_neighbors=8 --set seed=1"
    )


def test_only_methods_that_train_without_labels_have_a_best_epoch():
    scope = Scope(("demo",), ("afgrl", "raw", "supervised_gcn", "deepwalk"), quick=True)
    assert {spec.method for spec in best_epoch.specs(scope)} == {"afgrl", "deepwalk"}


def test_grids_may_have_fewer_seeds():
    scope = Scope(("demo",), ("afgrl", "raw"), seeds=3, grid_seeds=1, quick=True)
    assert {spec.settings["seed"] for spec in table2.specs(scope) if spec.method == "afgrl"} == {0, 1, 2}
    assert {spec.settings["seed"] for spec in table2.specs(scope) if spec.method == "raw"} == {0}  # nothing is drawn
    grids = [spec for name in ("table1", "figure-ablation") for spec in RESULTS[name].specs(scope)]
    assert {spec.settings["seed"] for spec in grids} == {0}


def test_missing_seeds_are_left_out():
    scope = Scope(("demo",), ("raw",), seeds=3, quick=True)
    records = {scope.spec("demo", "raw", 1): record(50.0)}
    assert seeds_of(records, scope, "demo", "raw") == [record(50.0)]
