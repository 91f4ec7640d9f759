"""The explorer for users of a keyboard, a screen reader, a phone or a dark screen. The report is the same page."""

import re

import pyarrow as pa
import pytest

from tests import browser
from tests.browser import fits_screen
from tests.explore.server import running_explorer, with_token
from tests.page_checks import accessible_nodes, broken_words, cut_texts, faint_texts, overlapping
from tests.sample_runs import REGIONS, make_run

chromium, visit = browser.chromium, browser.visit  # fixtures

N = 120
LONG_NAME = "od280/od315_of_diluted_wines"
OPERATED = {"button", "link", "combobox", "searchbox", "spinbutton", "checkbox", "textbox", "application"}
NAMED = OPERATED | {"table", "region", "img", "listbox", "navigation", "complementary"}
STOP = """() => {
  const { id, classList, parentElement } = document.activeElement;
  return id || { tools: "tool", filter: "filter" }[parentElement.classList[0]] || classList[0];
}"""
FOCUSED = "() => document.activeElement.id || document.activeElement.textContent"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a run with a long column name, in a cluster name as well."""
    columns = {
        "region": pa.array([REGIONS[i % 4] for i in range(N)]),
        LONG_NAME: pa.array([i / 7 for i in range(N)]),
    }
    run = make_run(tmp_path_factory.mktemp("accessible") / "wines", N, columns=columns)
    groups, description = run.clusters()
    card = description["clusters"][1]
    card["name"] = f"proanthocyanins 0.91 against 1.62, {LONG_NAME} 1.87 against 2.64"
    card["features"].append({"name": LONG_NAME, "here": 1.87, "elsewhere": 2.64, "texts": ["1.87", "2.64"]})
    run.save_clusters(run.embedding()[0], groups, description)
    with running_explorer(run) as address:
        yield with_token(address)


def open_everything(page):
    """Chooses a node, hides a group, opens all that is folded, and lists suggestions."""
    page.evaluate("() => chooseNode('node-008')")
    page.wait_for_selector(".neighbor")
    page.locator(".legend .entry").nth(2).click()
    page.wait_for_function("() => page.plots[0].shown.length === 90")
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.fill("#search-box", "node-01")
    page.wait_for_selector("#suggestions li[role=option]")
    page.press("#search-box", "ArrowDown")


# Layout and colors


def test_no_text_is_cut_broken_or_covered_at_any_width(visit, address):
    page = visit(address)
    open_everything(page)
    for width in (1440, 768, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function("() => page.plots[0].holder._fullLayout.width <= window.innerWidth")
        page.wait_for_timeout(300)  # until the texts are placed again
        assert fits_screen(page), width
        assert cut_texts(page) == [], width
        assert broken_words(page) == [], width
        for selector in (".texts > *, .tag", ".legend > *", ".controls input, .controls select, .controls button"):
            assert overlapping(page, selector) == [], width
        name = page.locator(".group-name", has_text="od280")
        assert not re.search("[a-z0-9]\n[a-z0-9]", lines_of(name)), width


def lines_of(locator):
    """The text of an element with line breaks where it has them on the screen."""
    return locator.evaluate(
        """(element) => {
          const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
          let lines = "", bottom = null;
          while (walker.nextNode()) {
            const text = walker.currentNode;
            for (let i = 0; i < text.length; i++) {
              range.setStart(text, i);
              range.setEnd(text, i + 1);
              const box = range.getBoundingClientRect();
              if (bottom !== null && box.top >= bottom - 2) lines += "\\n";
              if (box.width) bottom = box.bottom;
              lines += text.data[i];
            }
          }
          return lines;
        }"""
    )


def test_every_text_has_enough_contrast(visit, address):
    page = visit(address)
    open_everything(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)  # until the charts have the colors of the scheme
        assert faint_texts(page) == [], scheme


# Keyboard


def tab_stops(page, last):
    """What the tab key reaches, until an element that matches a selector."""
    stops = []
    while not stops or not page.evaluate("selector => document.activeElement.matches(selector)", last):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(STOP))
        assert len(stops) < 60
    return stops


def test_the_tab_key_reaches_everything_in_reading_order(visit, address):
    page = visit(address)
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "Skip to the projection"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    stops = tab_stops(page, "#filters .filter:last-of-type summary")
    assert stops[:2] == ["search-box", "color"]
    assert stops.count("entry") == 4
    assert stops.count("filter") == 3
    expected = ["tool", "entry", "plot", "export", "filter"]
    assert [stop for stop in dict.fromkeys(stops) if stop in expected] == expected


def test_a_node_is_found_followed_and_closed_by_keyboard(visit, address):
    page = visit(address)
    page.focus("#search-box")
    page.keyboard.type("node-01")
    page.wait_for_function("() => document.querySelector('#suggestions li')?.textContent === 'node-010'")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('#node .name')?.textContent === 'node-011'")
    assert page.evaluate(FOCUSED) == "search-box"
    page.locator(".neighbor").first.focus()
    page.keyboard.press("Space")
    page.wait_for_function(
        "() => !['node-011', undefined].includes(document.querySelector('#node .name')?.textContent)"
    )
    assert page.evaluate(FOCUSED) == "node-title"
    page.focus("#neighbor-count")
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => document.querySelectorAll('.neighbor').length === 11")
    assert page.evaluate(FOCUSED) == "neighbor-count"
    page.keyboard.press("Escape")
    assert page.locator("#node .name").count() == 0
    assert page.locator(".ring").count() == 0
    assert page.evaluate(FOCUSED) == "search-box"


def test_legend_map_and_filters_work_by_keyboard(visit, address):
    page = visit(address)
    entry = page.locator(".legend .entry").nth(1)
    name = entry.inner_text()
    entry.focus()
    for key, n_shown in (("Space", 90), ("Enter", 120)):
        page.keyboard.press(key)
        page.wait_for_function("n => page.plots[0].shown.length === n", arg=n_shown)
        assert entry.get_attribute("aria-pressed") == str(n_shown == 120).lower()
        assert page.evaluate("() => document.activeElement.innerText") == name
    view = "() => page.plots[0].holder._fullLayout.xaxis.range.slice()"
    low, high = page.evaluate(view)
    page.focus(".plot")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("low => page.plots[0].holder._fullLayout.xaxis.range[0] > low", arg=low)
    page.keyboard.press("+")
    page.wait_for_timeout(200)
    closer = page.evaluate(view)
    assert closer[1] - closer[0] == pytest.approx(0.7 * (high - low), rel=0.01)
    page.keyboard.press("0")
    page.wait_for_timeout(200)
    assert page.evaluate(view) == pytest.approx([low, high])
    page.get_by_role("button", name="Zoom in").press("Enter")
    page.wait_for_function("low => page.plots[0].holder._fullLayout.xaxis.range[0] > low", arg=low)
    page.focus("#filters summary:has-text('region')")
    for key in ("Enter", "Tab", "Space"):
        page.keyboard.press(key)
    page.wait_for_function("() => page.plots[0].shown.length === 30")


# Screen reader


def test_a_screen_reader_gets_what_everything_is(visit, address):
    page = visit(address)
    status = page.get_by_role("status").element_handle()
    assert status.inner_text() == ""
    open_everything(page)
    assert status.inner_text().startswith("Node node-008: 2 edges. Nearest nodes: node-")
    found = accessible_nodes(page)
    assert [role for role, name in found if role in NAMED and not name] == []
    for wanted in (
        ("combobox", "Find a node by its id"), ("combobox", "Color by"), ("listbox", "Nodes"), ("group", "Legend"),
        ("group", "Projection tools"), ("region", "Chosen node"), ("region", "Filters"), ("region", "Selection"),
        ("spinbutton", f"{LONG_NAME} at least"), ("checkbox", "north"), ("table", "What distinguishes cluster 1"),
        ("table", "Scores"), ("button", "Close this node"), ("button", "Zoom in"),
    ):  # fmt: skip
        assert wanted in found, wanted
    [(_, plot)] = [(role, name) for role, name in found if role == "application"]
    assert plot.startswith("2-D projection of wines: 120 nodes.")
    entries = [name for role, name in found if role == "button" and name.startswith(("mostly", "proantho"))]
    assert len(entries) == 4
