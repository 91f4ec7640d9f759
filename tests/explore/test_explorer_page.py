import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests import browser
from tests.browser import (
    PHONE,
    click_node,
    fits_screen,
    n_drawn,
    position_of,
    screenshot,
    search_node,
    wait_until_drawn,
    wants_screenshots,
)
from tests.explore.server import running_explorer, with_token
from tests.sample_runs import demo_run, make_run

chromium, visit = browser.chromium, browser.visit  # fixtures


def test_search_and_number_of_neighbors(visit, address):
    page = visit(with_token(address))
    page.fill("#search-box", "e-01")
    page.wait_for_selector("#suggestions li[role=option]")
    assert page.locator("#suggestions li").count() == 10
    page.click("#suggestions li:has-text('node-013')")
    page.wait_for_selector(".neighbor")
    assert page.locator(".neighbor").count() == 10
    page.fill("#neighbor-count", "25")
    page.press("#neighbor-count", "Enter")
    page.wait_for_function("() => document.querySelectorAll('.neighbor').length === 25")
    click_node(page, "node-008")
    assert page.locator(".neighbor").count() == 25


def test_a_chosen_node_shows_its_edges_and_the_reasons_of_similarity(visit, address):
    page = visit(with_token(address))
    click_node(page, "node-008")
    assert page.locator(".lines line").count() == 2
    assert page.get_by_role("list", name="Linked nodes").get_by_role("button").all_inner_texts() == [
        "node-007", "node-009",
    ]  # fmt: skip
    assert "region north" in page.locator(".neighbors li").first.inner_text()
    page.get_by_role("list", name="Linked nodes").get_by_role("button", name="node-009").press("Enter")
    page.wait_for_function("() => page.chosen === 'node-009'")


def test_an_export_has_the_filtered_nodes(visit, address, tmp_path):
    page = visit(with_token(address))
    page.click("#filters summary:has-text('region')")
    page.check("#filters label:has-text('north') input")
    wait_until_drawn(page, 60)
    page.click("#filters summary:has-text('joined')")
    page.fill("[aria-label='joined at least']", "2010")
    page.press("[aria-label='joined at least']", "Enter")
    page.wait_for_function("() => page.plots[0].holder.data[0].x.length < 60")
    n_left = n_drawn(page)
    assert f"all {n_left} nodes that the filters show" in page.inner_text("#selection")
    with page.expect_download() as waiting:
        page.click("#export")
    table = pd.read_csv(waiting.value.path())
    assert waiting.value.suggested_filename == "selection.csv"
    assert len(table) == n_left
    assert set(table.region) == {"north"}
    assert table.joined.min() >= 2010


def select_around(page, tool, ids, share=1.0):
    """Drags a box or lasso around nodes; with a share below 1 without the outermost ones."""
    page.click(f"[data-tool={tool}]")
    assert page.get_attribute(f"[data-tool={tool}]", "aria-pressed") == "true"
    positions = np.array([position_of(page, node_id) for node_id in ids])
    (left, top), (right, bottom) = np.quantile(positions, 1 - share, 0) - 8, np.quantile(positions, share, 0) + 8
    if tool == "select":
        corners = [(left, top), (right, bottom)]
    else:
        angle = np.linspace(0, 2 * np.pi, 13)  # an ellipse around the box
        middle, half = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top]) / 2
        corners = (middle + 2**0.5 * half * np.stack([np.cos(angle), np.sin(angle)], axis=1)).tolist()
    page.mouse.move(*corners[0])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(x, y, steps=2)
    page.mouse.up()


@pytest.mark.parametrize("tool", ["select", "lasso"])
def test_box_and_lasso_select_nodes(visit, address, tool):
    page = visit(with_token(address))
    search_node(page, "node-001")
    select_around(page, tool, [f"node-{i:03d}" for i in range(0, 240, 4)])  # all nodes of the north
    page.wait_for_selector("#clear:not([hidden])")
    inside = page.evaluate("() => page.selection && document.querySelector('#selection .note').textContent")
    assert inside == "60 nodes selected."
    assert page.evaluate("() => page.plots[0].holder.data[0].selectedpoints.length") == 60  # the others are dimmed
    page.select_option("[aria-label=Format]", "parquet")
    page.check("#with-vectors")
    with page.expect_download() as waiting:
        page.click("#export")
    table = pq.read_table(waiting.value.path())
    assert sorted(table["id"].to_pylist()) == [f"node-{i:03d}" for i in range(0, 240, 4)]
    assert "embedding" in table.column_names
    assert "60 rows exported." in page.inner_text("#exported")
    page.click("#clear")
    page.wait_for_selector("#clear", state="hidden")


def test_the_page_reports_escaped_cells(visit, tmp_path):
    run = make_run(tmp_path / "run", 5, ids=["=1", "<img src=x onerror='window.hacked=1'>", "c", "d", "e"], columns={})
    with running_explorer(run) as address:
        page = visit(with_token(address))
        click_node(page, "<img src=x onerror='window.hacked=1'>")
        with page.expect_download():
            page.click("#export")
        page.wait_for_function("() => document.querySelector('#exported').textContent.includes('exported')")
        assert "1 cell got a leading apostrophe" in page.inner_text("#exported")
        assert page.evaluate("() => window.hacked ?? null") is None


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit, address, dark):
    page = visit(with_token(address), size=PHONE, dark=dark)
    for summary in page.locator("summary").all():
        summary.click()
    assert fits_screen(page)


@pytest.mark.skipif(not wants_screenshots(), reason="AFGRL_SCREENSHOTS names no folder")
def test_pictures_of_the_explorer(visit, tmp_path_factory):
    with running_explorer(demo_run(tmp_path_factory.mktemp("demo"))) as address:
        page = visit(with_token(address))
        search_node(page, "0")
        zeros = "() => page.runs[0].ids.filter((_, row) => cellText(columnNamed(page.runs[0], 'label'), row) === '0')"
        select_around(page, "lasso", page.evaluate(zeros), share=0.96)
        page.mouse.move(5, 5)
        page.wait_for_timeout(2000)
        screenshot(page, "explore-wide.png")
        page = visit(with_token(address), size=PHONE)
        search_node(page, "0")
        page.evaluate("() => byId('projection').scrollIntoView()")
        screenshot(page, "explore-phone.png")
