"""What the page does with names, and with columns of each type."""

import re

import pytest

from afgrl.report import write_report
from tests import browser
from tests.browser import click_node, position_of
from tests.explore.server import running_explorer, with_token
from tests.sample_runs import make_run, town_columns

chromium, visit = browser.chromium, browser.visit  # fixtures
N = 240


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("towns") / "towns", N, columns=town_columns(N), name="town")


@pytest.fixture(scope="module")
def report(run, tmp_path_factory):
    return write_report([run], tmp_path_factory.mktemp("page") / "report.html").as_uri()


def test_names_are_shown_beside_ids(visit, report):
    page = visit(report)
    x, y = position_of(page, "node-008")
    page.mouse.move(x - 60, y - 60)
    page.mouse.move(x, y, steps=4)
    page.wait_for_selector("#tooltip:not([hidden])")
    assert re.fullmatch(r"town (\d+) · node-0*\1", page.inner_text("#tooltip strong"))
    click_node(page, "node-008")
    assert page.inner_text("#node .name").split() == ["town", "8", "node-008"]
    assert page.inner_text(".tag") == "town 8"
    assert all("town " in text and "node-" in text for text in page.locator(".neighbor .id").all_inner_texts())
    assert page.locator("#clusters .chip").first.inner_text() == "Paris · node-000"
    assert page.evaluate("page.color") == "cluster"


def test_a_name_is_found(visit, report):
    page = visit(report)
    assert page.get_attribute("#search-box", "aria-label") == "Find a node by its id or name"
    page.fill("#search-box", "paris")
    page.wait_for_selector("#suggestions li[role=option]")
    assert page.locator("#suggestions li").all_inner_texts() == ["Paris · node-000"]
    page.press("#search-box", "Enter")
    page.wait_for_function("() => document.querySelector('#node .name')?.textContent.startsWith('Paris')")
    page.fill("#search-box", "town 1")  # equal, then what starts with it
    page.wait_for_function("() => document.querySelectorAll('#suggestions li').length === 12")
    assert page.locator("#suggestions li").all_inner_texts()[:2] == ["town 1 · node-001", "town 10 · node-010"]


@pytest.mark.parametrize(
    ("column", "legend"),
    [
        ("founded", ["≤ 1990-03-22", "≥ 2015-12-16"]),  # a hundredth of the dates is beyond each end
        ("seen", ["2024-05-31 00:30", "2024-05-31 23:30"]),
        ("people", ["≤ 2000", "≥ 237000"]),
        ("coastal", ["no", "160", "yes", "80"]),
    ],
)
def test_dates_and_numbers_are_gradients_and_booleans_are_groups(visit, report, column, legend):
    page = visit(report)
    page.select_option("#color", column)
    page.wait_for_function("name => page.color === name", arg=column)
    assert [text.strip() for text in page.inner_text("#legend").split("\n") if text.strip()] == legend
    click_node(page, "node-008")
    cells = page.inner_text("#node .cells").split("\n")
    expected = {"founded": "1990-11-17", "seen": "2024-05-31 08:30", "people": "8000", "coastal": "no"}
    assert cells[cells.index(column) + 1] == expected[column]


def test_dates_are_filtered_by_day(visit, run):
    with running_explorer(run) as address:
        page = visit(with_token(address))
        page.click("#filters summary:has-text('founded')")
        page.fill("[aria-label='founded at least']", "1990-02-10")  # the second town
        page.press("[aria-label='founded at least']", "Enter")
        page.fill("[aria-label='founded at most']", "1990-04-30")
        page.press("[aria-label='founded at most']", "Enter")
        page.wait_for_function("() => page.plots[0].holder.data[0].x.length === 2")
        page.fill("[aria-label='founded at least']", "")
        page.fill("[aria-label='founded at most']", "")
        page.click("#filters summary:has-text('seen')")
        page.fill("[aria-label='seen at most']", "2024-05-31")  # all of that day
        page.press("[aria-label='seen at most']", "Enter")
        page.wait_for_function("n => page.plots[0].holder.data[0].x.length === n", arg=N)
        page.fill("#search-box", "PARIS")
        page.wait_for_selector("#suggestions li[role=option]")
        assert page.locator("#suggestions li").all_inner_texts() == ["Paris · node-000"]
        assert page.locator("#filters summary:has-text('coastal')").count() == 1
