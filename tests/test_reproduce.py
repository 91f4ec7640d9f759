"""Tables and figures of the paper: what is made of records, and the whole path in small."""

import csv
import io
import json
import os
import re

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from afgrl.data.digest import arrays_of
from afgrl.errors import UserError
from afgrl.graph import Graph
from afgrl.reproduce import (
    RESULTS,
    choice,
    claims,
    curves,
    figure_dimension,
    figure_ratio,
    figure_tsne,
    layout,
    paper,
    reproduce,
    table1,
    table2,
    versions,
)
from afgrl.reproduce.cells import Cell, measure
from afgrl.reproduce.looks import GRID, QUICK, THOROUGH, Effort
from afgrl.reproduce.result import Scope, seeds_of
from afgrl.reproduce.store import Store, run_all
from tests.test_cli import afgrl

CPU = torch.device("cpu")
REAL_DATA = os.environ.get("AFGRL_DATA")


def silent(line):
    pass


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Everything, in small; with Cora where its files are at hand."""
    out = tmp_path_factory.mktemp("reproduction")
    datasets = ["demo", "cora"] if REAL_DATA else ["demo"]
    arguments = ["all", "--quick", "--datasets", ",".join(datasets), "--out", out, "--device", "cpu", "--quiet"]
    answer = afgrl("reproduce", *arguments)
    assert answer.exit_code == 0, answer.stderr
    return out, datasets, arguments, answer.stdout


def test_every_table_and_figure_is_made(made):
    out, datasets, _, shown = made
    for name in RESULTS:
        text = (out / f"{name}.md").read_text()
        assert datasets[0] in text, name
    for stem in ("ratio", "sensitivity-k", "sensitivity-M", "ablation", "dimension", "tsne"):
        assert (out / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{stem}.svg").read_text()
    tables = sorted(out.glob("*.csv"))
    assert len(tables) >= len(RESULTS)
    for file in tables:
        rows = list(csv.reader(io.StringIO(file.read_text())))
        assert len(rows) > 1, file.name
        assert len({len(row) for row in rows}) == 1
        assert r"\toprule" in file.with_suffix(".tex").read_text()
    assert "label-free" in shown
    assert "paper protocol" in shown


def test_the_page_needs_nothing_but_itself(made):
    out, _, _, _ = made
    text = (out / "reproduction.html").read_text()
    assert all(f'<section id="{name}">' in text for name in RESULTS)
    assert not re.search(r"""(src|href)=["'](?!#)""", re.sub(r"xlink:href=\"#[^\"]*\"", "", text))
    assert "afgrl fit demo --method bgrl --recipe paper --seed 0 --set" in text
    assert "&quot;n_components&quot;: 32" in text


def test_a_second_call_trains_nothing(made, monkeypatch):
    out, _, arguments, _ = made
    before = {file.name: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    monkeypatch.setattr("afgrl.reproduce.store.measure", None)
    answer = afgrl("reproduce", *arguments[:-1], "--json")
    assert answer.exit_code == 0, answer.stderr
    assert json.loads(answer.stdout)["results"].keys() == RESULTS.keys()
    assert {file.name: file.stat().st_mtime_ns for file in (out / "runs").iterdir()} == before


def test_tables_share_their_trainings():
    scope = Scope(("demo",), ("afgrl", "bgrl", "raw"), quick=True)
    cells = [RESULTS[name].cells(scope) for name in ("table2", "table3", "table4")]
    assert cells[0] == cells[1] == cells[2]
    assert len(cells[0]) == 4  # AFGRL with two recipes


def test_in_a_grid_published_settings_are_looked_at_no_more_often_than_others(monkeypatch):
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo"])
    scope = Scope(("photo",), ("afgrl", "gca"), seeds=2, grid_seeds=1)
    grids = [RESULTS[name].cells(scope) for name in ("table1", "figure-sensitivity", "figure-ablation")]
    assert {cell.effort for cells in grids for cell in cells} == {GRID}
    published = [cell for cell in grids[1] if not cell.settings]
    assert len(published) == 2  # as one value of k, and of M
    assert set(published) <= set(grids[0]) & set(grids[2])  # one training serves them all
    assert {cell.effort for cell in table2.cells(scope)} == {THOROUGH}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table9"], "no result 'table9'; did you mean 'table"),
        (["table2", "--methods", "bgrll"], "no method 'bgrll'; did you mean 'bgrl'"),
        (["table2", "--datasets", "foto"], "no dataset 'foto'; did you mean 'photo'"),
        (["table2", "--seeds", "0"], "at least one seed"),
        (["table1", "--grid-seeds", "0"], "at least one seed"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments, sentence, tmp_path):
    answer = afgrl("reproduce", *arguments, "--out", tmp_path / "out")
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_not_at_hand_is_named_and_not_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("AFGRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AFGRL_DATA", raising=False)
    found = reproduce("table2", tmp_path / "out", CPU, datasets=["wikics", "photo"])["table2"]
    assert list(found.tables) == []
    assert found.notes[0] == "Not at hand: wikics, photo."


def small(**settings):
    return Cell("demo", "random", 0, "paper", tuple(sorted(settings.items())), QUICK)


def test_a_training_is_found_again_by_settings_data_and_code(tmp_path, monkeypatch):
    store = Store(tmp_path)
    keys = {store.key(small()), store.key(small(n_components=8)), store.key(Cell("demo", "random", 1, effort=QUICK))}
    assert len(keys) == 3
    assert store.key(small(n_components=512)) == store.key(small())  # the default, said aloud
    monkeypatch.setattr("afgrl.reproduce.store.code_version", lambda method: "other")
    other_code = store.key(small())
    monkeypatch.setattr("afgrl.reproduce.store.data_version", lambda name, data_dir: "other")
    assert len(keys | {other_code, store.key(small())}) == 5


def test_code_counts_and_comments_do_not(tmp_path, monkeypatch):
    def version(source):
        (tmp_path / "one.py").write_text(source)
        versions.code_version.cache_clear()
        return versions.code_version("dgi")

    plain = versions._file
    monkeypatch.setattr(versions, "_file", lambda name: tmp_path / "one.py" if name == "afgrl.nn" else plain(name))
    first = version('def f(x):\n    """Once."""\n    return x + 1\n')
    assert version('# why\ndef f(x):\n    """Twice."""\n\n    return x + 1  # so\n') == first
    assert version("def f(x):\n    return x + 2\n") != first
    versions.code_version.cache_clear()
    assert versions.code_version("dgi") != versions.code_version("bgrl")


def test_features_of_other_columns_are_other_data():
    values, rows = torch.ones(3), torch.tensor([0, 1, 2, 3])
    tables = [
        torch.sparse_csr_tensor(rows, torch.tensor(columns), values, (3, 4)) for columns in ([0, 1, 2], [0, 1, 3])
    ]
    digests = [[versions._digest(part) for part in arrays_of(Graph(x, torch.tensor([[0], [1]])).x)] for x in tables]
    assert digests[0] != digests[1]


def test_a_training_that_does_not_fit_is_left_out_and_the_rest_goes_on(tmp_path, monkeypatch):
    def measured(cell, *rest):
        if cell.method == "raw":
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 80 GiB")
        return measure(cell, *rest)

    monkeypatch.setattr("afgrl.reproduce.store.measure", measured)
    told = []
    cells = [Cell("demo", "raw", effort=QUICK), Cell("demo", "hops", effort=QUICK)]
    assert list(run_all(cells, Store(tmp_path), CPU, say=told.append)) == cells[1:]
    assert told[1] == "1/2 demo raw, seed 0 failed, and is left out: CUDA out of memory."


def test_an_interruption_keeps_what_is_done(tmp_path, monkeypatch):
    cells, store, calls = [small(n_components=width) for width in (4, 5, 6)], Store(tmp_path), []

    def fails_at_the_third(cell, *rest):
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return measure(cell, *rest)

    monkeypatch.setattr("afgrl.reproduce.store.measure", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run_all(cells, store, CPU, say=silent)
    assert [store.get(cell) is not None for cell in cells] == [True, True, False]
    run_all(cells, store, CPU, say=silent)
    assert calls[3:] == [cells[2]]


def test_a_training_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    """With the scores, and the epochs looked at, of one that was not."""
    settings = {"epochs": 41, "n_components": 8, "patience": 0}
    cell = Cell("demo", "bgrl", 0, "paper", tuple(sorted(settings.items())), Effort(4, None, 3, 2, 1))
    whole = run_all([cell], Store(tmp_path / "whole"), CPU, say=silent)[cell]
    store, steps = Store(tmp_path / "parts"), []

    def interrupted_after_25(self, state, loss):
        steps.append(state.step)
        if state.step == 25:
            self.save(state.to_checkpoint())
            raise KeyboardInterrupt

    monkeypatch.setattr("afgrl.reproduce.cells.Checkpoints.__call__", interrupted_after_25)
    with pytest.raises(KeyboardInterrupt):
        run_all([cell], store, CPU, say=silent)
    assert store.get(cell) is None
    assert store.halfway(cell).is_file()
    found = run_all([cell], store, CPU, say=silent)[cell]
    assert steps == [*range(1, 26), *range(26, 42)]
    assert {name: found[name] for name in ("label-free", "paper", "looks", "epochs")} == {
        name: whole[name] for name in ("label-free", "paper", "looks", "epochs")
    }
    assert [look["epoch"] for look in found["looks"]] == [0, 11, 22, 33, 41]  # and not 40, 41
    assert not store.halfway(cell).exists()


def test_several_processes_give_the_same(tmp_path):
    cells = [small(n_components=width) for width in (4, 5)]
    alone = run_all(cells, Store(tmp_path / "one"), CPU, say=silent)
    together = run_all(cells, Store(tmp_path / "two"), CPU, workers=2, say=silent)
    for cell in cells:
        accuracy = [found[cell]["label-free"]["classification"]["accuracy"]["values"] for found in (alone, together)]
        assert accuracy[0] == pytest.approx(accuracy[1], abs=0.5)  # a process has fewer threads: sums in another order


def record(value, std=0.0):
    score = {"mean": value, "std": std, "values": [value]}
    other = {
        name: {"mean": value / 100, "std": 0.0, "values": []} for name in ("nmi", "homogeneity", "sim@5", "sim@10")
    }
    tasks = {"classification": {"accuracy": score}, "clustering": other, "similarity": other}
    return {"label-free": tasks, "paper": tasks}


def test_ours_is_marked_where_it_is_below_by_more_than_its_spread(monkeypatch):
    scope = Scope(("photo",), ("bgrl", "gca"), seeds=2)
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo"])
    values = {"bgrl": (93.00, 92.60), "gca": (91.0, 91.2)}
    records = {
        scope.cell("photo", name, seed): record(value)
        for name, pair in values.items()
        for seed, value in enumerate(pair)
    }
    (table,) = table2.result(scope, records).tables
    rows = {row[0]: row for row in table.rows}
    assert rows["bgrl"][1:6] == [93.07, pytest.approx(92.8), pytest.approx(0.2), pytest.approx(-0.27), layout.BELOW]
    assert rows["gca"][5] == layout.BELOW
    near = layout.comparison(92.39, 92.3, 0.1)
    assert near[3] == ""
    assert layout.comparison(92.39, 80.0, 0.0)[3] == ""  # of one training, whose spread nobody knows
    assert layout.comparison(None, 92.3, 0.1)[2] is None


def test_the_spread_is_the_larger_of_that_within_and_between():
    assert layout.over_seeds([{"mean": 1.0, "std": 0.5}, {"mean": 3.0, "std": 0.5}]) == (2.0, 1.0)
    assert layout.over_seeds([{"mean": 1.0, "std": 0.5}]) == (1.0, 0.5)


def test_the_choice_of_an_epoch_is_shown_beside_the_last(monkeypatch):
    scope = Scope(("photo",), ("bgrl", "raw", "supervised_gcn"), seeds=2)
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo"])
    found = {**record(93.0), "epochs": 10}
    for task in found["paper"].values():
        task["epoch"] = 7
    found["looks"] = [
        {"epoch": epoch, "accuracy": value, "nmi": value / 100, "sim@5": 0.9}
        for epoch, value in ((7, 93.0), (10, 92.0))
    ]
    records = {scope.cell("photo", name, seed): found for name in scope.methods for seed in range(2)}
    made = choice.result(scope, records)
    accuracy, clusters, _ = made.tables
    assert accuracy.rows == [["photo", "bgrl", 93.07, 92.0, 93.0, 1.0, "7, 7 of 10"]]
    assert clusters.rows[0][2:6] == [0.6841, 0.92, 0.93, pytest.approx(0.01)]
    (panel,) = made.pictures["choice-classification"]().axes
    assert panel.lines[0].get_xydata().tolist() == [[70, 93], [100, 92]]
    old = {cell: record(93.0) for cell in records}  # kept before looks were
    without = choice.result(scope, old)
    assert not without.tables
    assert without.notes[-1] == "2 of 2 trainings were made before looks were kept, and are not in the tables."


def test_table_1_is_the_fall_from_best_to_worst(monkeypatch):
    scope = Scope(("photo",), ("bgrl",))
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo"])
    records = {cell: record(90.0 - place) for place, cell in enumerate(table1.cells(scope))}
    assert len(records) == len(table1.RATES) == 5
    (table,) = table1.result(scope, records).tables
    row = table.rows[0]
    assert row[:3] == ["classification", "bgrl", "label-free"]
    assert row[3] == paper.SENSITIVITY["classification"]["bgrl"][1]
    assert row[4] == pytest.approx(-100 * 4 / 90)
    del records[table1.cells(scope)[2]]
    assert table1.result(scope, records).tables[0].rows[0][4] is None  # a part of the grid says nothing


def test_ratios_by_hand():
    """Two triangles of one label each, joined by an edge: every node but two has only neighbors of its label."""
    edges = torch.tensor([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]])
    features = torch.zeros(6, 4)
    features[:3, 0], features[3:, 1] = 1, 1

    class Two:
        graph, y = Graph(features + 0.01 * torch.eye(6, 4), edges), np.array([0, 0, 0, 1, 1, 1])

    (near, adjacent, both), *_ = figure_ratio.ratios(Two)
    assert adjacent == pytest.approx((4 * 1 + 2 * 2 / 3) / 6)
    assert 0 < near <= 1
    assert both == pytest.approx(adjacent)  # the four nearest of six hold all who are adjacent


def test_a_table_in_every_form():
    table = layout.Table(
        "A & B", [layout.Column("name_1"), layout.Column("value", 2), layout.Column("gap", 1, signed=True)],
        [["x|y", 1234.5678, -0.04], ["z", None, 0.25]],
    )  # fmt: skip
    assert "| x\\|y | 1,234.57 | -0.0 |" in layout.markdown(table)
    assert "| z | – | +0.2 |" in layout.markdown(table)
    assert layout.comma_separated(table).splitlines()[1:] == ["x|y,1234.5678,-0.04", "z,,0.25"]
    assert r"name\_1 & value & gap \\" in layout.latex(table)


def test_the_plane_shows_both_methods(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["demo"])
    scope = Scope(
        ("demo",), ("gca", "afgrl"), quick=True, vectors=lambda cell: torch.randn(1797, 5, generator=rng).numpy()
    )
    found = figure_tsne.result(scope, {})
    assert [row[0] for row in found.tables[0].rows] == ["gca", "afgrl"]
    assert isinstance(found.pictures["tsne"](), Figure)


def test_seeds_that_are_missing_are_left_out():
    scope = Scope(("demo",), ("raw",), seeds=3, quick=True)
    assert seeds_of({scope.cell("demo", "raw", 1): record(50.0)}, scope, "demo", "raw") == [record(50.0)]


def test_grids_may_have_seeds_of_their_own():
    scope = Scope(("demo",), ("afgrl", "raw"), seeds=3, grid_seeds=1, quick=True)
    assert {cell.seed for cell in table2.cells(scope)} == {0, 1, 2}
    assert {cell.seed for name in ("table1", "figure-ablation") for cell in RESULTS[name].cells(scope)} == {0}


def test_with_kept_nothing_is_trained_and_the_rest_is_said_to_be_missing(tmp_path, monkeypatch):
    options = {"datasets": ["demo"], "methods": ["raw", "hops"], "quick": True}
    reproduce("table2", tmp_path, CPU, **{**options, "methods": ["raw"]})
    monkeypatch.setattr("afgrl.reproduce.store.measure", None)
    found = reproduce("table2", tmp_path, CPU, kept=True, **options)["table2"]
    assert [row[0] for row in found.tables[0].rows] == ["raw"]
    assert found.notes[-1] == "1 of 2 trainings are not there; what needs them is left out."
    assert Store(tmp_path / "empty", trains=False).vectors(small(), CPU) is None


def test_vectors_are_made_once(tmp_path, monkeypatch):
    store = Store(tmp_path)
    first = store.vectors(small(n_components=4), CPU)
    assert first.shape == (1797, 4)
    monkeypatch.setattr("afgrl.reproduce.store.train", None)
    assert np.array_equal(store.vectors(small(n_components=4), CPU), first)


def test_no_error_hides_behind_a_wrong_argument(tmp_path):
    with pytest.raises(UserError, match="at least one"):
        reproduce("datasets", tmp_path, CPU, workers=0)


def claims_of(monkeypatch, values, **scope):
    """The rows of the table of claims, by claim, from records that ``values`` gives."""
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo", "cs"])
    monkeypatch.setattr(claims, "_neighbors", lambda scope: claims.Finding("", "", ""))
    monkeypatch.setattr(claims.figure_tsne, "separations", lambda scope: {})
    chosen = Scope(("photo", "cs"), ("afgrl", "bgrl", "gca", "grace"), **scope)
    records = {cell: record(values(cell), std=0.1) for cell in claims.cells(chosen)}
    rows = claims.result(chosen, records).tables[0].rows
    return {row[0]: row for row in rows}


def test_a_claim_holds_in_part_or_not_by_rule(monkeypatch):
    def values(cell):
        settings = dict(cell.settings)
        if "positives" in settings:
            return {"clusters": 80.0, "knn": 90.0, "knn+adj": 90.05}.get(settings["positives"], 91.0)
        if "n_neighbors" in settings:
            return 90.0 - settings["n_neighbors"] / 8
        if "n_components" in settings:
            return 80.0 + settings["n_components"] / (1000 if cell.method == "afgrl" else 4000)
        return {"afgrl": 90.0, "bgrl": 90.05, "gca": 89.0 if cell.dataset == "cs" else 95.0, "grace": 95.0}[cell.method]

    rows = claims_of(monkeypatch, values)
    against = {
        rival: rows[f"AFGRL is at least as good as {rival.upper()} in classification"] for rival in claims.RIVALS
    }
    assert [against[rival][1] for rival in claims.RIVALS] == ["holds", "holds in part", "does not hold"]
    assert against["gca"][3] == "better on cs +1.00; worse on photo -5.00"
    assert rows["AFGRL's accuracy is stable over k"][1] == "does not hold"  # from 89.75 to 86
    assert rows["AFGRL's accuracy is stable over M"][1] == "holds"
    assert rows["k-NN + Adj is on par with k-NN alone"][1] == "holds"
    assert rows["clusters alone are worse than every other rule"][1:4:2] == ["holds", "photo -10.00, cs -10.00"]
    assert rows["AFGRL gains from a larger D where others saturate"][1] == "holds"
    assert rows["AFGRL's classes stand further apart than GCA's (silhouette)"][1] == "not measured"


def test_what_has_no_spread_is_not_judged_against_a_rival(monkeypatch):
    row = claims_of(monkeypatch, lambda cell: 90.0)["AFGRL is at least as good as BGRL in similarity"]
    assert row[1] == "not measured"
    assert row[3].startswith("of one seed")


def test_clusters_within_the_spread_are_not_worse(monkeypatch):
    def values(cell):
        return 89.95 if dict(cell.settings).get("positives") == "clusters" else 90.0

    row = claims_of(monkeypatch, values)["clusters alone are worse than every other rule"]
    assert row[1:4:2] == ["does not hold", "photo -0.05, cs -0.05"]


def test_half_a_curve_proves_no_claim(monkeypatch):
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: ["photo"])
    scope = Scope(("photo",), ("afgrl", "bgrl"))
    cells = figure_dimension.cells(scope)
    records = {cell: record(80.0 + place) for place, cell in enumerate(cells)}
    assert claims._dimension(scope, records, "label-free").measured == "photo afgrl +2.00, bgrl +2.00"
    del records[cells[-1]]  # of the one rival
    assert claims._dimension(scope, records, "label-free").verdict == "not measured"


def test_a_method_that_fails_does_not_flatten_the_others():
    found = {
        ("photo", "afgrl", "paper"): [(32, 92.0, 0.1), (64, 93.0, 0.1)],
        ("photo", "gca", "paper"): [(32, 27.0, 1.0), (64, 91.0, 0.1)],
        ("cs", "bgrl", "paper"): [(32, 91.0, 0.1), (64, 92.0, 0.1)],
    }
    figure = curves.picture(found, "D", doubling=True)
    bottom, top = figure.axes[0].get_ylim()
    assert 27 < bottom < 91 < 93 < top
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["afgrl", "gca", "bgrl"]


def test_what_changes_little_looks_so():
    figure = curves.picture({("cs", "afgrl", "paper"): [(2, 93.0, 0.1), (4, 93.1, 0.1)]}, "k", doubling=True)
    bottom, top = figure.axes[0].get_ylim()
    assert top - bottom == pytest.approx(0.03 * 93.2)  # the best value and its spread
    assert (bottom + top) / 2 == pytest.approx(93.05, abs=0.1)


def test_a_claim_without_records_is_not_measured(monkeypatch):
    monkeypatch.setattr(Scope, "at_hand", lambda self, wanted: [])
    (table,) = claims.result(Scope((), ("afgrl",)), {}).tables
    assert {row[1] for row in table.rows} == {"not measured"}
