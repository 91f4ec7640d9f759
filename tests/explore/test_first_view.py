import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from afgrl.explore import first_view
from afgrl.report import sample
from tests import browser
from tests.browser import n_drawn, search_node
from tests.explore.server import client_of, running_explorer, with_token
from tests.report.test_arrays import unpacked
from tests.sample_runs import make_run, town_columns

chromium, visit = browser.chromium, browser.visit  # fixtures
N, LIMIT = 240, 60


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The explorer of a run with more nodes than a map starts with."""
    run = make_run(tmp_path_factory.mktemp("large") / "towns", N, columns=town_columns(N), name="town")
    with pytest.MonkeyPatch.context() as patch, pytest.MonkeyPatch.context() as patch_of_start:
        patch.setattr(sample, "SAMPLE_POINTS", LIMIT)
        patch_of_start.setattr(first_view, "MAX_POINTS", LIMIT)
        with running_explorer(run) as address:
            patch_of_start.undo()  # the application exists
            yield address


@pytest.fixture(scope="module")
def shown(large):
    [payload] = client_of(large).get("/payload.json").json()["runs"]
    return payload


@pytest.fixture(scope="module")
def outside(shown):
    """Rows that the sample does not have."""
    return sorted(set(range(N)) - set(unpacked(shown["sample"]["rows"]).tolist()))


def test_the_payload_of_a_large_run_is_a_sample(shown):
    rows = unpacked(shown["sample"]["rows"])
    assert (shown["n"], len(rows), shown["sample"]["total"]) == (LIMIT, LIMIT, N)
    assert shown["ids"] == [f"node-{row:03d}" for row in rows]
    assert all(len(unpacked(column.get("numbers") or column["codes"])) == LIMIT for column in shown["columns"])
    central = {node_id for card in shown["clusters"]["clusters"] for node_id in [card["center"], *card["closest"]]}
    assert central <= set(shown["ids"])


def test_a_small_run_has_no_sample(address):
    client = client_of(address)
    [payload] = client.get("/payload.json").json()["runs"]
    assert "sample" not in payload
    assert "nodes" not in client.get("/api/neighbors", params={"id": "node-005"}).json()


def test_an_answer_has_the_nodes_that_the_sample_lacks(large, shown, outside):
    row = outside[0]
    answer = client_of(large).get("/api/neighbors", params={"id": f"node-{row:03d}", "k": 5}).json()
    named = {row, *answer["facts"]["edges"], *(found["row"] for found in answer["neighbors"])}
    assert answer["row"] == row
    assert answer["nodes"]["rows"] == sorted(named & set(outside))
    assert answer["nodes"]["ids"] == [f"node-{other:03d}" for other in answer["nodes"]["rows"]]
    kinds = [(column["name"], column["kind"]) for column in shown["columns"]]
    assert [(column["name"], column["kind"]) for column in answer["nodes"]["columns"]] == kinds


def test_search_finds_all_nodes_and_their_names(large, outside):
    row = next(row for row in outside if row)
    found = client_of(large).get("/api/search", params={"text": f"Town {row}"}).json()
    assert (found["ids"][0], found["names"][0]) == (f"node-{row:03d}", f"town {row}")


def test_a_node_outside_the_sample_is_found_and_added_to_the_map(visit, large, outside):
    page = visit(with_token(large))
    assert n_drawn(page) == LIMIT
    assert "Showing 60 of 240 nodes" in page.inner_text("#projection-note")
    row = next(row for row in outside if row > 100)
    page.fill("#search-box", f"town {row}")
    page.wait_for_selector(f"#suggestions li:has-text('town {row} · node-{row:03d}')")
    search_node(page, f"node-{row:03d}")
    panel = page.inner_text("#node")
    assert f"town {row}" in panel
    assert f"{row * 1000}" in panel  # its column of people
    assert page.inner_text(".tag") == f"town {row}"
    assert page.locator(".ring.near").count() == 10
    assert page.locator(".lines line").count() == 2
    chips = page.get_by_role("list", name="Linked nodes").get_by_role("button").all_inner_texts()
    assert sorted(chips) == sorted(f"town {other} · node-{other:03d}" for other in (row - 1, row + 1))
    n = page.evaluate("() => page.runs[0].n")
    assert n > LIMIT
    assert page.locator(".overlay .added").count() == n - LIMIT
    assert f"Showing {n} of 240 nodes" in page.inner_text("#projection-note")
    page.select_option("#color", "people")
    page.wait_for_function("n => page.plots[0].holder.data[0].x.length === n", arg=n)
    assert page.locator(".overlay .added").count() == 0
    place = page.evaluate("id => { const run = page.runs[0], row = rowOf(run, id); return [run.x[row], run.y[row]] }",
                          f"node-{row:03d}")  # fmt: skip
    assert page.evaluate(
        "([x, y]) => { const trace = page.plots[0].holder.data[0];"
        " return Array.from(trace.x).some((value, i) => value === x && trace.y[i] === y) }",
        place,
    )


def test_the_map_shows_the_density_of_all_nodes(visit, large):
    page = visit(with_token(large))
    page.wait_for_selector(".imagelayer image, .layer-below image", state="attached")
    assert page.evaluate(
        "() => document.querySelector('.plot image').getAttribute('href').startsWith('data:image/png')"
    )


def exported(page):
    with page.expect_download() as waiting:
        page.click("#export")
    return pd.read_csv(waiting.value.path())


def test_an_export_has_all_nodes_and_not_only_the_sample(visit, large):
    assert exported(visit(with_token(large)))["id"].tolist() == [f"node-{row:03d}" for row in range(N)]


def test_filters_cover_all_nodes(visit, large):
    page = visit(with_token(large))
    people = page.locator(".filter", has_text="people")
    people.locator("summary").click()
    people.get_by_label("people at least").fill("100000")
    people.get_by_label("people at least").press("Enter")
    page.wait_for_function("() => page.runs[0].view?.total === 140")
    page.wait_for_function("() => page.plots[0].holder.data[0].x.length === 60")
    assert "Showing 60 of the 140 filtered nodes" in page.inner_text("#projection-note")
    assert "all 140 nodes" in page.inner_text("#selection")
    assert exported(page)["id"].tolist() == [f"node-{row:03d}" for row in range(100, N)]
    people.get_by_label("people at least").fill("")
    people.get_by_label("people at least").press("Enter")
    page.wait_for_function("() => page.runs[0].view === null && page.plots[0].holder.data[0].x.length === 60")


def test_the_legend_counts_and_hides_all_nodes(visit, large):
    page = visit(with_token(large))
    counts = page.locator(".legend .entry .note").all_inner_texts()
    assert sum(map(int, counts)) == N
    page.locator(".legend .entry").first.click()
    page.wait_for_function("total => page.runs[0].view?.total === total", arg=N - int(counts[0]))
    left = exported(page)
    assert len(left) == N - int(counts[0])
    page.locator(".card .link").first.click()  # one cluster alone
    page.wait_for_function("() => page.only && page.runs[0].view?.total < 100")
    assert exported(page)["cluster"].nunique() == 1


def test_a_box_selects_among_all_nodes(visit, large):
    page = visit(with_token(large))
    page.click("[data-tool=select]")
    box = page.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=3)
    page.mouse.up()
    page.wait_for_selector("#clear:not([hidden])")
    table = exported(page)
    assert f"{len(table)} nodes selected." in page.inner_text("#selection")
    assert (table["cluster"] == 0).sum() == N // 4  # the cluster at the left, of which the sample has fewer nodes
    assert (table["cluster"] == 2).sum() == 0  # the one at the right
    assert page.locator("#selection .chip").count() == len(table)


def test_a_column_without_values_in_the_sample_gets_them_later(visit, tmp_path, monkeypatch):
    monkeypatch.setattr(first_view, "MAX_POINTS", LIMIT)
    monkeypatch.setattr(sample, "SAMPLE_POINTS", LIMIT)
    draw = np.random.default_rng(0)
    notes = pa.array([None if i % 2 else f"note {i}" for i in draw.permutation(N)])
    with running_explorer(make_run(tmp_path / "notes", N, columns={"note": notes})) as address:
        page = visit(with_token(address))
        for row in range(100, 140):
            if notes[row].as_py() is not None and not page.evaluate(f"() => rowOf(page.runs[0], 'node-{row}')"):
                break
        search_node(page, f"node-{row}")
        cells = page.evaluate("() => page.runs[0].ids.map((id, row) => [id, cellText(page.runs[0].columns[0], row)])")
        assert [f"node-{row}", notes[row].as_py()] in cells
        assert all(text == notes[int(node_id[5:])].as_py() for node_id, text in cells)
