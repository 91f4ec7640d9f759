"""What the map says in a browser: names of groups, central nodes, edges, and why nodes are similar."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from afgrl.data.dataset import Dataset, Ingested
from afgrl.data.ingest import IngestReport
from afgrl.graph import Graph
from afgrl.report import write_report
from tests import browser
from tests.browser import PHONE, click_node, position_of, search_node
from tests.sample_runs import REGIONS, bare_run, make_run

chromium, visit = browser.chromium, browser.visit  # fixtures

VISIBLE = "element => getComputedStyle(element).visibility === 'visible'"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    return write_report([make_run(folder / "letters")], folder / "report.html")


def visible_texts(page, kind):
    found = page.locator(f".texts .{kind}").all()
    return [element.inner_text().replace("\u00a0", " ") for element in found if element.evaluate(VISIBLE)]


def test_clusters_have_their_names_near_their_centers(visit, report):
    page = visit(report.as_uri())
    names = [f"mostly {region}, “word {i}” in 90 % against 10 %" for i, region in enumerate(REGIONS)]
    assert sorted(visible_texts(page, "group-name")) == sorted(names)
    for number, name in enumerate(names):
        members = [position_of(page, f"node-{i:03d}") for i in range(number, 240, 4)]
        box = page.locator(".group-name", has_text=name.split(",")[0]).bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        assert np.hypot(*(np.median(members, axis=0) - [x, y])) < 90  # pixels; the map is 900 wide
    assert {"node-236", "node-237"} <= set(visible_texts(page, "central-node"))
    assert [card.split("\n")[0] for card in page.locator(".card h3").all_inner_texts()] == names
    assert page.locator(".legend .label").all_inner_texts() == names


def test_names_are_where_they_cover_few_points(visit, report):
    page = visit(report.as_uri())
    points = np.array([position_of(page, f"node-{i:03d}") for i in range(240)])
    boxes = [name.bounding_box() for name in page.locator(".group-name").all()]
    low = np.array([[box["x"], box["y"]] for box in boxes])
    high = low + [[box["width"], box["height"]] for box in boxes]
    inside = (points[:, None] > low) & (points[:, None] < high)
    assert inside.all(axis=2).sum() < 71 / 3  # at the centers they cover 71, here 18


def test_no_text_covers_another_one_and_names_can_be_hidden(visit, report):
    page = visit(report.as_uri(), size=PHONE)
    found = [e.bounding_box() for e in page.locator(".texts > *").all() if e.evaluate(VISIBLE)]
    for i, a in enumerate(found):
        for b in found[:i]:
            apart = a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
            assert apart or a["y"] >= b["y"] + b["height"] or b["y"] >= a["y"] + a["height"]
    toggle = page.get_by_role("button", name="Names")
    assert toggle.get_attribute("aria-pressed") == "true"
    toggle.press("Enter")
    assert toggle.get_attribute("aria-pressed") == "false"
    assert page.locator(".texts > *").count() == 0


def test_a_coloring_by_another_column_names_its_groups(visit, report):
    page = visit(report.as_uri())
    page.select_option("#color", "region")
    page.wait_for_function("() => document.querySelector('.group-name').textContent.length < 6")
    assert sorted(visible_texts(page, "group-name")) == sorted(REGIONS)
    page.select_option("#color", "joined")  # numbers have no groups, so clusters are named
    page.wait_for_function("() => document.querySelector('.group-name').textContent.startsWith('mostly')")


def test_fifty_nine_groups_have_a_mark_each(visit, tmp_path):
    n = 590
    columns = {"section": pa.array([f"section {i % 59}" for i in range(n)])}
    file = write_report([make_run(tmp_path / "run", n, columns=columns)], tmp_path / "report.html")
    for size in ({"width": 1400, "height": 900}, PHONE):
        page = visit(file.as_uri(), size=size)
        page.select_option("#color", "section")
        page.wait_for_function("() => document.querySelectorAll('.legend .entry').length === 59")
        assert not any("others" in label for label in page.locator(".legend .label").all_inner_texts())
        marks = "() => page.coloring.entries.slice(0, 59).map(({ color, marker }) => color + marker)"
        assert len(set(page.evaluate(marks))) == 59
        drawn = "() => new Set(page.plots[0].holder.data[0].marker.symbol).size"
        assert page.evaluate(drawn) == 5
        assert page.locator("#legend").bounding_box()["height"] < 140
        last = page.locator(".legend .entry").last
        last.focus()  # the legend scrolls to what has the focus
        legend, entry = page.locator("#legend").bounding_box(), last.bounding_box()
        assert entry["y"] + entry["height"] <= legend["y"] + legend["height"] + 1
        page.get_by_role("button", name="Hide all").click()
        page.wait_for_function("() => page.plots[0].shown.length === 0")
        last.press("Enter")
        page.wait_for_function("() => page.plots[0].shown.length === 10")


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Six nodes. Ann and Bob share a neighbor, a town, a feature and nearly an age; their pay differs."""
    folder = tmp_path_factory.mktemp("story")
    ids = np.array(["Ann", "Bob", "Carl", "Dora", "Eve", "Finn"], dtype=object)
    columns = pa.table(
        {
            "id": ids, "town": ["Oslo", "Oslo", "Rome", "Rome", "Rome", "Bonn"],
            "age": [31, 32, 60, 65, 70, 18], "pay": [10.5, 99.5, 20.0, 30.0, 40.0, 50.0],
        }
    )  # fmt: skip
    words = sp.csr_array(np.array([[1, 1], [0, 1], [0, 0], [1, 0], [1, 0], [1, 0]], dtype=np.float32))
    graph = Graph(words, np.array([[0, 1, 0], [2, 2, 4]]), ids=ids)
    run = bare_run(folder / "run", np.ones((6, 2)))
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0, 1], [-1, 0], [-1, -1]], dtype=np.float32)
    run.save_embedding(ids, vectors)
    run.save_dataset(Dataset("story", graph, ingested=Ingested(columns, 6, None, None, IngestReport())))
    run.save_projection("tsne", np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 2]]))
    return write_report([run], folder / "report.html")


def test_the_edges_of_a_chosen_node_are_lines_to_its_neighbors(visit, story):
    page = visit(story.as_uri())
    click_node(page, "Ann")
    ends = page.evaluate(
        """() => Array.from(document.querySelectorAll(".lines line"), (line) => {
          const box = line.ownerSVGElement.getBoundingClientRect();
          const at = (x, y) => [box.left + line[x].baseVal.value, box.top + line[y].baseVal.value];
          const drawn = line.getBoundingClientRect();
          return [at("x1", "y1"), at("x2", "y2"), [drawn.left, drawn.top]];
        })"""
    )
    assert len(ends) == 2
    for (start, end, corner), other in zip(ends, ("Eve", "Carl"), strict=False):
        assert start == pytest.approx(position_of(page, "Ann"), abs=1)
        assert any(end == pytest.approx(position_of(page, name), abs=1) for name in ("Carl", "Eve")), other
        assert corner == pytest.approx(np.minimum(start, end), abs=1)  # not moved by a style
    linked = page.get_by_role("list", name="Linked nodes").get_by_role("button")
    assert sorted(linked.all_inner_texts()) == ["Carl", "Eve"]
    linked.filter(has_text="Carl").press("Enter")
    page.wait_for_function("() => page.chosen === 'Carl'")
    assert page.locator(".lines line").count() == 2


def test_a_neighbor_says_what_is_shared_and_what_differs(visit, story):
    page = visit(story.as_uri())
    search_node(page, "Ann")
    bob = page.locator(".neighbors li", has_text="Bob").inner_text()
    shared, different = (line for line in bob.split("\n") if line.startswith(("Shared", "Different")))
    assert shared == "Shared: 1 shared neighbor (Carl) · town Oslo · age 31 and 32 · feature 1"
    assert different == "Different: pay 10.5 and 99.5"
    eve = page.locator(".neighbors li", has_text="Eve").inner_text()
    assert "linked by an edge" in eve
    assert "town Oslo and Rome" in eve


@pytest.mark.parametrize("width", [320, 390, 700, 1024, 1440])
def test_no_text_of_a_card_is_cut(visit, tmp_path, width):
    ids = [f"{'a-very-long-identifier-without-spaces-' * 2}{i}" for i in range(40)]
    run = make_run(tmp_path / "run", 40, ids=ids)
    clusters, description = run.clusters()
    for card in description["clusters"]:
        card["name"] = f"mostly {'Unbreakable' * 8}, od280/od315_of_diluted_wines_and_more 1,234.5 against 6,789.1"
        card["features"][0] |= {"name": "od280/od315_of_diluted_wines" * 3, "texts": ["1,234,567", "7,654,321"]}
    run.save_clusters(np.array(ids, dtype=object), clusters, description)
    page = visit(write_report([run], tmp_path / "report.html").as_uri(), size={"width": width, "height": 800})
    page.evaluate("id => chooseNode(id)", ids[3])
    page.wait_for_selector(".neighbor")
    cut = page.evaluate(
        """() => Array.from(document.querySelectorAll(".card, .card *, #node, #node .neighbors *"))
          .filter((element) => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
          .map((element) => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 60)}`)"""
    )
    assert cut == []
