"""The report of a large run: a sample of its nodes, the nodes nearest to them, and the density of all."""

import numpy as np
import pytest

from afgrl.report import payload, sample, write_report
from tests import browser
from tests.browser import n_drawn, search_node
from tests.report.test_arrays import unpacked
from tests.sample_runs import make_run, town_columns

chromium, visit = browser.chromium, browser.visit  # fixtures
N, LIMIT, K = 240, 30, 10


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("large") / "towns", N, columns=town_columns(N), name="town")


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(sample, "SAMPLE_POINTS", LIMIT)
    monkeypatch.setattr(payload, "MOST_NODES", LIMIT)
    monkeypatch.setattr(payload, "KEY_ROWS", 70)


def test_the_nearest_nodes_are_those_of_all_nodes(run, limits):
    told = []
    found = payload.run_payload(run, "towns", "pca", told.append)
    rows = unpacked(found["sample"]["rows"])
    assert (found["sample"]["total"], found["sample"]["points"], found["n"]) == (N, LIMIT, len(rows))
    assert LIMIT < len(rows) < N  # else this test would say little
    assert found["ids"] == [f"node-{row:03d}" for row in rows]
    vectors = run.embedding()[1].astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    shown = unpacked(found["neighbors"]["index"]).reshape(LIMIT, K)
    expected = np.sort(cosine[rows[:LIMIT]], axis=1)[:, ::-1][:, :K]
    np.testing.assert_allclose(cosine[rows[:LIMIT, None], rows[shown]], expected, atol=1e-6)  # float32 products
    assert not (shown == np.arange(LIMIT)[:, None]).any()
    assert any("a sample of 30 of 240 nodes" in sentence for sentence in told)


def test_facts_are_those_of_the_nodes_on_the_page(run, limits):
    found = payload.run_payload(run, "towns", "pca", lambda sentence: None)
    rows, edges = unpacked(found["sample"]["rows"]), found["facts"]["edges"]
    source, target = run.edges().edge_index.numpy()
    assert unpacked(edges["full"]).tolist() == [int((source == row).sum()) for row in rows]
    starts, values = unpacked(edges["starts"]), unpacked(edges["values"])
    for at, row in enumerate(rows.tolist()):
        linked = rows[values[starts[at] : starts[at + 1]]]
        assert set(linked.tolist()) == set(target[source == row].tolist()) & set(rows.tolist())


def test_a_page_with_a_sample(visit, run, limits, tmp_path):
    page = visit(write_report([run], tmp_path / "report.html", projection="pca").as_uri())
    assert n_drawn(page) == LIMIT
    note = page.inner_text("#projection-note")
    assert "Showing 30 of 240 nodes as points" in note
    assert "“afgrl explore” and “afgrl search” find every node" in note
    assert page.evaluate("() => page.plots[0].holder.layout.images.length") == 1
    search_node(page, page.evaluate("() => page.runs[0].ids[3]"))
    assert page.locator(".neighbor").count() == K
    off_map = page.evaluate("() => page.matches[0].neighbors.filter(({ row }) => page.runs[0].offMap.has(row)).length")
    assert page.locator(".overlay .added").count() == off_map > 0
    search_node(page, page.evaluate("() => page.runs[0].ids[page.runs[0].n - 1]"))  # near a point, but not one
    assert page.locator(".neighbor").count() == 0
    assert "in this file for points of the map" in page.inner_text("#node")
    assert n_drawn(page) == LIMIT


def test_reports_of_two_samples(visit, run, limits, tmp_path):
    page = visit(write_report([run, run], tmp_path / "report.html", projection="pca").as_uri())
    search_node(page, page.evaluate("() => page.runs[0].ids[3]"))
    assert page.locator(".neighbor").count() == 2 * K
