"""Tables and figures from records of runs."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from afgrl.graph import Graph
from afgrl.reproduce import best_epoch, curves, figure_ratio, figure_tsne, layout, paper, since, table1, table2
from afgrl.reproduce.scope import Scope
from tests.reproduce.records import record


def test_a_value_below_the_published_one_by_more_than_its_spread_is_marked(available):
    available("photo")
    scope = Scope(("photo",), ("bgrl", "gca"), seeds=2)
    values = {"bgrl": (93.00, 92.60), "gca": (91.0, 91.2)}
    records = {
        scope.spec("photo", name, seed): record(value)
        for name, pair in values.items()
        for seed, value in enumerate(pair)
    }
    (table,) = table2.result(scope, records).tables
    rows = {row[0]: row for row in table.rows}
    assert rows["bgrl"][1:6] == [93.07, pytest.approx(92.8), pytest.approx(0.2), pytest.approx(-0.27), layout.BELOW]
    assert rows["gca"][5] == layout.BELOW
    near = layout.comparison(92.39, 92.3, 0.1)
    assert near[3] == ""
    assert layout.comparison(92.39, 80.0, 0.0)[3] == ""  # one run, whose spread is unknown
    assert layout.comparison(None, 92.3, 0.1)[2] is None


def test_the_spread_is_the_larger_of_that_within_and_between_runs():
    assert layout.over_seeds([{"mean": 1.0, "std": 0.5}, {"mean": 3.0, "std": 0.5}]) == (2.0, 1.0)
    assert layout.over_seeds([{"mean": 1.0, "std": 0.5}]) == (1.0, 0.5)


def test_the_best_epoch_is_shown_beside_the_last(available):
    available("photo")
    scope = Scope(("photo",), ("bgrl", "raw", "supervised_gcn"), seeds=2)
    found = {**record(93.0), "epochs": 10}
    for task in found["best-epoch"].values():
        task["epoch"] = 7
    found["evaluations"] = [
        {"epoch": epoch, "accuracy": value, "nmi": value / 100, "sim@5": 0.9}
        for epoch, value in ((7, 93.0), (10, 92.0))
    ]
    records = {scope.spec("photo", name, seed): found for name in scope.methods for seed in range(2)}
    result = best_epoch.result(scope, records)
    accuracy, clusters, _ = result.tables
    assert accuracy.rows == [["photo", "bgrl", 93.07, 92.0, 93.0, 1.0, "7, 7 of 10"]]
    assert clusters.rows[0][2:6] == [0.6841, 0.92, 0.93, pytest.approx(0.01)]
    (panel,) = result.pictures["best-epoch-classification"]().axes
    assert panel.lines[0].get_xydata().tolist() == [[70, 93], [100, 92]]
    assert not best_epoch.result(scope, {}).tables


def test_table_1_is_the_loss_from_best_to_worst(available):
    available("photo")
    scope = Scope(("photo",), ("bgrl",))
    records = {spec: record(90.0 - i) for i, spec in enumerate(table1.specs(scope))}
    assert len(records) == len(table1.RATES) == 5
    (table,) = table1.result(scope, records).tables
    row = table.rows[0]
    assert row[:3] == ["classification", "bgrl", "last-epoch"]
    assert row[3] == paper.SENSITIVITY["classification"]["bgrl"][1]
    assert row[4] == pytest.approx(-100 * 4 / 90)
    del records[table1.specs(scope)[2]]
    assert table1.result(scope, records).tables[0].rows[0][4] is None  # the missing run may be the worst


def test_shares_of_neighbors_with_the_same_label_by_hand():
    """Two triangles with one label each, joined by an edge: all but two nodes have only neighbors with their label."""
    edges = torch.tensor([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]])
    features = torch.zeros(6, 4)
    features[:3, 0], features[3:, 1] = 1, 1

    class Triangles:
        graph, y = Graph(features + 0.01 * torch.eye(6, 4), edges), np.array([0, 0, 0, 1, 1, 1])

    (near, adjacent, both), *_ = figure_ratio.ratios(Triangles)
    assert adjacent == pytest.approx((4 * 1 + 2 * 2 / 3) / 6)
    assert 0 < near <= 1
    assert both == pytest.approx(adjacent)  # the four nearest of six include all adjacent nodes


def test_all_forms_of_a_table():
    table = layout.Table(
        "A & B", [layout.Column("name_1"), layout.Column("value", 2), layout.Column("gap", 1, signed=True)],
        [["x|y", 1234.5678, -0.04], ["z", None, 0.25]],
    )  # fmt: skip
    assert "| x\\|y | 1,234.57 | -0.0 |" in layout.markdown(table)
    assert "| z | – | +0.2 |" in layout.markdown(table)
    assert layout.comma_separated(table).splitlines()[1:] == ["x|y,1234.5678,-0.04", "z,,0.25"]
    assert r"name\_1 & value & gap \\" in layout.latex(table)


def test_the_projection_shows_both_methods(rng):
    vectors = torch.randn(1797, 5, generator=rng).numpy()
    scope = Scope(("demo",), ("gca", "afgrl"), quick=True, embedding=lambda spec: vectors)
    found = figure_tsne.result(scope, {})
    assert [row[0] for row in found.tables[0].rows] == ["gca", "afgrl"]
    assert isinstance(found.pictures["tsne"](), Figure)


def test_a_method_that_fails_does_not_flatten_the_others():
    found = {
        ("photo", "afgrl", "best-epoch"): [(32, 92.0, 0.1), (64, 93.0, 0.1)],
        ("photo", "gca", "best-epoch"): [(32, 27.0, 1.0), (64, 91.0, 0.1)],
        ("cs", "bgrl", "best-epoch"): [(32, 91.0, 0.1), (64, 92.0, 0.1)],
    }
    figure = curves.picture(found, "D", doubling=True)
    bottom, top = figure.axes[0].get_ylim()
    assert 27 < bottom < 91 < 93 < top
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["afgrl", "gca", "bgrl"]


def test_small_differences_look_small():
    figure = curves.picture({("cs", "afgrl", "best-epoch"): [(2, 93.0, 0.1), (4, 93.1, 0.1)]}, "k", doubling=True)
    bottom, top = figure.axes[0].get_ylim()
    assert top - bottom == pytest.approx(0.03 * 93.2)  # the best value and its spread
    assert (bottom + top) / 2 == pytest.approx(93.05, abs=0.1)


def test_methods_since_the_paper_have_a_table_of_their_own(available):
    available("photo", "cs")
    scope = Scope(("photo", "cs"), ("node_embedder", "signa", "raw"))
    wanted = since.specs(scope)
    assert {(spec.method, spec.recipe) for spec in wanted} == {
        ("node_embedder", "default"), ("signa", "paper"), ("signa", "default"),
    }  # fmt: skip
    assert not {"signa"} & {spec.method for spec in table2.specs(scope)}

    def record(value):
        score = {"mean": value, "std": 0.0}
        tasks = {"classification": {"accuracy": score}, "clustering": {"nmi": score}, "similarity": {"sim@5": score}}
        return {"last-epoch": tasks, "seconds": 2.0, "peak_bytes": 2**31}

    assert since.result(scope, {}).tables == []  # nothing is measured yet
    records = {spec: record(float(i)) for i, spec in enumerate(wanted) if spec.source == "photo"}
    records[next(spec for spec in wanted if spec.source == "cs")] = record(7.0)  # the others are missing
    accuracy, *_, cost = since.result(scope, records).tables
    assert [row[0] for row in accuracy.rows] == ["node_embedder", "signa", "signa, default"]
    assert [row[1:] for row in accuracy.rows] == [[0.0, 7.0, 3.0], [1.0, None, 2.0], [2.0, None, 1.0]]
    assert cost.rows[0] == ["photo", "node_embedder", 2.0, 2.0]
