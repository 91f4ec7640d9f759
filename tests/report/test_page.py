import hashlib
import re

import numpy as np
import pyarrow as pa
import pytest
import torch

from afgrl.analysis.neighbors import find_similar
from afgrl.errors import UserError
from afgrl.ops.knn import Neighbors
from afgrl.report import page, payload, write_report
from afgrl.runs.folder import HISTORY
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
from tests.sample_runs import bare_run, demo_run, make_run, scores

chromium, visit = browser.chromium, browser.visit  # fixtures

HOSTILE = [
    "<img src=x onerror=\"window.hacked='image'\">",
    "</script><script>window.hacked='script'</script>",
    "javascript:window.hacked='link'",
    '<a href="javascript:window.hacked=1">click</a>',
    "<b>bold</b>&lt;i&gt;",
    "\"double\" 'single' `tick` ${window.hacked=1}",
    "%{x} <extra></extra>",
    "x" * 10_000,
    "😀 \u2028 \u2029 ﷽ \u202e",
    "=1+1",
    "<!--",
    "<!-- scripts -->",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("report") / "letters")


@pytest.fixture(scope="module")
def report(run, tmp_path_factory):
    return write_report([run], tmp_path_factory.mktemp("page") / "report.html")


# The file


def test_a_report_needs_a_run_and_an_existing_folder(run, tmp_path):
    with pytest.raises(UserError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    for wrong in (tmp_path, tmp_path / "nowhere" / "report.html"):
        with pytest.raises(UserError, match="name a file in an existing folder"):
            write_report([run], wrong)


def test_the_file_loads_nothing_and_runs_only_its_own_scripts(report):
    text = report.read_text(encoding="utf-8")
    head = text[: text.index("<style>")]
    assert "default-src 'none'; script-src 'sha256-" in head
    assert head.count("'sha256-") == len(page.SCRIPTS) == text.count("<script>")
    assert "unsafe-eval" not in head
    assert not re.search(
        r"(?:src|href)=[\"']?(?:https?:)?//", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    )


def test_every_script_in_the_folder_is_part_of_the_page():
    folder = page.resources.files("afgrl.report") / "static"
    assert {file.name for file in folder.iterdir() if file.name.endswith(".js")} == set(page.SCRIPTS)


def test_the_plotting_library_is_the_documented_build():
    digest = hashlib.sha256(page.asset(page.SCRIPTS[0]).encode()).hexdigest()
    assert digest in page.asset("README.md")
    assert "MIT" in page.asset("plotly-LICENSE.txt")


# In a browser


def test_tooltip_click_and_following_neighbors(visit, run, report):
    page = visit(report.as_uri())
    assert page.title() == "letters · afgrl"
    assert "5 nodes have equal values in every feature." in page.inner_text(".warnings")
    x, y = position_of(page, "node-008")
    page.mouse.move(x - 60, y - 60)
    page.mouse.move(x, y, steps=4)
    page.wait_for_selector("#tooltip:not([hidden])")
    tooltip = page.inner_text("#tooltip")
    assert "node-" in tooltip
    assert "region" in tooltip
    click_node(page, "node-008")
    assert page.inner_text("#node .name") == "node-008"
    assert "north" in page.inner_text("#node .cells")
    expected = [found["id"] for found in find_similar(run, ["node-008"], 10)["node-008"]]
    shown = page.locator(".neighbor .id").all_inner_texts()
    assert sorted(shown) == sorted(expected)
    assert page.locator(".ring").count() == 11
    ring = page.locator(".ring.chosen").bounding_box()
    center = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    assert center == pytest.approx(position_of(page, "node-008"), abs=1)  # pixel
    page.click(f".neighbor:has-text('{expected[0]}')")
    page.wait_for_function("id => document.querySelector('#node .name').textContent === id", arg=expected[0])
    page.locator("#clusters button.chip").first.click()
    page.wait_for_function("() => document.querySelector('#node .name').textContent === 'node-000'")


def test_search_by_keyboard(visit, report):
    page = visit(report.as_uri())
    page.focus("#search-box")
    page.keyboard.type("NODE-01")
    page.wait_for_selector("#suggestions li[role=option]")
    assert page.locator("#suggestions li").all_inner_texts() == [f"node-{i:03d}" for i in range(10, 20)]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#search-box", "aria-activedescendant") == "suggestion-1"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#node .name')?.textContent === 'node-011'")
    assert page.locator("#suggestions").is_hidden()
    page.fill("#search-box", "nobody")
    page.wait_for_selector("#suggestions li.none")
    page.keyboard.press("Enter")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == 'Unknown node "nobody".'


def test_color_by_any_column_and_zoom(visit, report):
    page = visit(report.as_uri())
    assert page.evaluate("page.color") == "cluster"
    page.select_option("#color", "region")
    page.wait_for_function("() => page.color === 'region'")
    assert page.locator(".legend .entry").all_inner_texts() == [
        f"{name}\n60" for name in ("east", "north", "south", "west")
    ]
    page.select_option("#color", "city")
    page.wait_for_function("() => page.color === 'city' && document.querySelectorAll('.legend .entry').length === 21")
    assert page.locator(".legend .label").all_inner_texts()[-1] == "no value"
    before = n_drawn(page)
    page.click(".legend .entry:has-text('no value')")
    page.wait_for_function("before => page.plots[0].holder.data[0].x.length < before", arg=before)
    assert page.get_attribute(".legend .entry:has-text('no value')", "aria-pressed") == "false"
    page.select_option("#color", "joined")
    page.wait_for_selector(".legend .scale")
    assert re.fullmatch(r"(≤ )?\d{4}\s+(≥ )?\d{4}", page.inner_text("#legend").strip())
    assert page.evaluate("new Set(page.plots[0].holder.data[0].marker.color).size") > 20
    page.click("[aria-label='Show cluster 2 in the projection']")
    page.wait_for_function("() => page.color === 'cluster'")
    wait_until_drawn(page, 60)
    page.click("text=Only cluster 2: show all")
    wait_until_drawn(page, 240)
    whole = view_width(page)
    page.click("[aria-label='Zoom in']")
    page.wait_for_timeout(200)
    closer = view_width(page)
    assert closer == pytest.approx(0.7 * whole, rel=0.01)
    page.hover(".plot .nsewdrag", force=True)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(500)
    assert view_width(page) < 0.95 * closer


def view_width(page):
    return page.evaluate("(([low, high]) => high - low)(page.plots[0].holder._fullLayout.xaxis.range)")


def test_hostile_data_stays_text(visit, tmp_path):
    n = len(HOSTILE) * 4
    ids = [f"{text} {i // len(HOSTILE)}" for i, text in enumerate(HOSTILE * 4)]
    texts = pa.array([None if i == 5 else text for i, text in enumerate(HOSTILE * 4)])
    columns = {"<img src=x onerror=hacked()>": texts, "</script>": pa.array(np.arange(n) / 7)}
    run = make_run(tmp_path / "<b>run<!-- scripts -->", n, ids=ids, columns=columns, source=HOSTILE[0])
    other = make_run(tmp_path / "%{x}<a href='javascript:alert(1)'>", n, ids=ids, columns=columns, seed=1)
    page = visit(write_report([run, other], tmp_path / "report.html").as_uri())
    for text in (0, 1, 7, 8):
        click_node(page, ids[text])
        assert page.inner_text("#node .name")[:40].strip() == ids[text][:40].strip()
        assert HOSTILE[text][:400] in page.text_content("#node .cells")
    page.select_option("#color", "</script>")
    page.wait_for_selector(".legend .scale")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main svg a, main iframe").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert fits_screen(page)


def test_two_runs_are_shown_side_by_side(visit, run, tmp_path):
    ids = [f"node-{i:03d}" for i in range(1, 241)]
    other = make_run(tmp_path / "shifted", seed=2, ids=ids, settings={"learning_rate": 0.5})
    page = visit(write_report([run, other], tmp_path / "report.html").as_uri())
    assert page.title() == "Comparison of 2 runs · afgrl"
    assert page.locator(".projection").count() == 2
    left, right = (page.locator(".projection").nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"]
    click_node(page, "node-017", plot=1)
    assert page.locator(".tag").all_inner_texts() == ["node-017", "node-017"]
    assert page.locator(".neighbors").count() == 2
    page.fill("#search-box", "node-000")  # only in the first run
    page.press("#search-box", "Enter")
    page.wait_for_function("() => page.chosen === 'node-000'")
    assert "This run does not contain the node." in page.inner_text("#node")
    settings = page.inner_text("#settings")
    assert "learning_rate" in settings
    assert "epochs" not in settings.split("Settings with equal values")[0]
    for summary in page.locator("#settings summary").all():
        summary.click()
    headings = [text.split() for text in page.locator("#settings thead").all_inner_texts()]
    assert headings == [["setting", "letters", "shifted"]] * 2
    assert page.locator("#scores tbody tr").count() == 2 + 3  # two runs, and the equal baselines once
    assert page.locator("#training .chart").count() == 5
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(300)
    upper, lower = (page.locator(".projection").nth(i).bounding_box() for i in (0, 1))
    assert lower["y"] > upper["y"] + upper["height"]
    assert fits_screen(page)


def test_neighbors_that_two_runs_share_are_bold(visit, run, tmp_path):
    again = make_run(tmp_path / "again")
    page = visit(write_report([run, again], tmp_path / "report.html").as_uri())
    click_node(page, "node-008")
    assert page.locator(".neighbors li.common").count() == 20
    assert "Bold: among the nearest in every run (10)." in page.inner_text("#node")


def test_of_six_runs_only_those_in_view_are_drawn(visit, tmp_path):
    runs = [make_run(tmp_path / f"run-{seed}", 40, seed=seed) for seed in range(6)]
    page = visit(write_report(runs, tmp_path / "report.html").as_uri(), size=PHONE)
    page.locator(".projection").nth(5).scroll_into_view_if_needed()
    page.wait_for_function("() => page.plots[5].drawn && !page.plots[0].drawn")
    page.locator(".projection").nth(0).scroll_into_view_if_needed()
    page.wait_for_function("() => page.plots[0].drawn && !page.plots[5].drawn")
    click_node(page, "node-003")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(visit, report, dark):
    page = visit(report.as_uri(), size=PHONE, dark=dark, touch=True)
    assert fits_screen(page)
    for summary in page.locator("summary").all():
        summary.click()
    assert fits_screen(page)
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    background = [int(part) for part in re.findall(r"\d+", color)]
    assert (max(background) < 60) == dark
    page.evaluate("y => window.scrollBy(0, y - 400)", position_of(page, "node-008")[1])
    page.touchscreen.tap(*position_of(page, "node-008"))
    page.wait_for_selector("#node .name")


def test_pinching_zooms_around_the_point_between_the_fingers(visit, report):
    page = visit(report.as_uri(), size=PHONE, touch=True)
    page.locator(".projection").first.scroll_into_view_if_needed()
    before, middle = view_width(page), position_of(page, "node-008")
    devtools = page.context.new_cdp_session(page)

    def touch(kind, *offsets):
        points = [{"x": middle[0] + offset, "y": middle[1], "id": i} for i, offset in enumerate(offsets)]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", -20)
    touch("touchStart", -20, 20)
    for distance in (30, 40):
        touch("touchMove", -distance, distance)
        page.wait_for_timeout(100)
    touch("touchEnd", -40)
    touch("touchEnd")
    page.wait_for_timeout(200)
    assert view_width(page) == pytest.approx(before / 2, rel=0.02)
    assert position_of(page, "node-008") == pytest.approx(middle, abs=2)  # pixels
    assert page.locator("#node .name").count() == 0  # a pinch chooses no node
    page.touchscreen.tap(*middle)
    page.wait_for_selector("#node .name")


def test_a_run_saved_from_python_is_shown_without_the_missing_sections(visit, tmp_path):
    run = bare_run(tmp_path / "bare", np.eye(3))
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    click_node(page, "1")
    assert page.locator(".neighbor").count() == 2
    assert page.locator("#training").is_hidden()
    assert page.locator("#scores").is_hidden()


def test_scores_name_both_evaluations_and_the_baselines(visit, tmp_path):
    run = make_run(tmp_path / "run", 40)
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    text = page.inner_text("#scores")
    assert "Last-epoch evaluation" in text
    assert "Gain over untrained baselines" in text
    assert "Best-epoch evaluation" not in text
    assert "NMI, clustering readout" in text
    assert "0.8400" in text  # the readout of the trained vectors: .75 and a gain of 9 points
    assert "Clustering readout: what `afgrl cluster` clusters" in text
    assert page.locator("#scores tbody tr").first.locator("strong").all_inner_texts()[:2] == [
        "*89.00 ± 0.40",
        "*0.7900",
    ]
    assert "* best of its column." in text
    assert "Best accuracy: trained, 4.00 ± 0.00 above untrained on the same 20 splits (more than noise)" in text
    assert page.locator("#scores .panel").count() == 4
    assert "k-means on the clustering readout." in page.inner_text("#clusters")
    run.save_scores(scores(0, best_epoch=True))
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    assert "Best-epoch evaluation (uses labels to choose the epoch)" in page.inner_text("#scores")
    older = scores(0)
    for tasks in (older["last-epoch"], *older["baselines"].values()):
        del tasks["clustering-readout"]
    run.save_scores(older)
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    assert "Clustering readout" not in page.inner_text("#scores")


def quality_panel():
    measures = {"effective_rank": 9.2, "mean_cosine": 0.5, "constant_columns": 0.0, "hubness": 0.4, "modularity": 0.8}
    vectors = {name: measures | {"link_auc": 0.98} for name in ("trained", "raw", "svd")}
    stable = {"neighbors": [0.9, 0.8], "clusters": [0.7, 0.5]}
    return {
        "dataset": "letters", "method": "afgrl", "nodes": 40, "vectors": vectors,
        "samples": {"rank_nodes": 30, "neighbor_nodes": 40}, "links": {"scored": 25}, "clusters": {"k": 4},
        "verdict": {"sentence": "Verdict: equal to the best vectors without training."},
        "stability": {"kept_share": 0.9, "edges": {"trained": stable, "svd": stable}, "seeds": {"trained": stable}},
        "information": {"both": 0.75, "nothing": 0.25},
        "labels": {"accuracy": {"trained": {"mean": 95.0, "low": 90.1, "high": 97.2}}, "sentence": "6 labels."},
    }  # fmt: skip


def test_the_quality_panel_is_shown_without_cutting_its_tables(visit, tmp_path):
    run = make_run(tmp_path / "run", 40)
    assert visit(write_report([run], tmp_path / "report.html").as_uri()).locator("#quality").is_hidden()
    run.save_quality(quality_panel())
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    text = page.inner_text("#quality")
    assert "Verdict: equal to the best vectors without training." in text
    assert "trained, another seed\t0.850\t0.600" in text
    assert "90.1 to 97.2" in text
    assert "4 clusters. 25 hidden edges. The rank is that of 30 random nodes." in text
    assert "neither\t25.0 %" in text
    for table in page.locator("#quality .wide").all():
        assert table.evaluate("(element) => element.scrollWidth <= element.clientWidth + 1")


def test_the_ingest_report_shows_the_level_of_each_message(visit, report):
    page = visit(report.as_uri())
    rows = page.locator("#data tr:has(.level)").all_inner_texts()
    assert rows[:3] == [
        "info\tRead from letters.csv.",
        "fixed\tMerged 3 duplicate edges.",
        "warning\t5 nodes have equal values in every feature.",
    ]


@pytest.mark.parametrize(("spread", "rank"), [(0.001, 5.0), (0.5, 1.0)])
def test_collapsed_vectors_are_reported(visit, tmp_path, spread, rank):
    run = make_run(tmp_path / "run", 40)
    run.append(HISTORY, {"epoch": 40, "loss": 0.001, "spread": spread, "rank": rank, "drift": 0.9})
    page = visit(write_report([run], tmp_path / "report.html").as_uri())
    assert "The vectors have collapsed" in page.inner_text(".warnings")


def test_a_hundred_and_twenty_thousand_nodes(visit, tmp_path, monkeypatch):
    n = 120_000

    def ring_neighbors(query, key, k, **_):  # the exact search, tested elsewhere, takes minutes on two cores
        index = (torch.arange(n)[:, None] + torch.arange(1, k + 1)) % n
        return Neighbors(index, torch.full((n, k), 0.5))

    monkeypatch.setattr(payload, "nearest_neighbors", ring_neighbors)
    run = make_run(tmp_path / "big", n, ids=[f"customer-{i:06d}" for i in range(n)])
    file = write_report([run], tmp_path / "report.html")
    assert file.stat().st_size < 40e6
    page = visit(file.as_uri())
    rightmost = page.evaluate(
        "page.runs[0].ids[page.runs[0].x.indexOf(page.runs[0].x.reduce((a, b) => Math.max(a, b)))]"
    )
    click_node(page, rightmost)
    assert page.locator(".neighbor").count() == 10


@pytest.mark.skipif(not wants_screenshots(), reason="AFGRL_SCREENSHOTS names no folder")
def test_pictures_of_the_report(visit, tmp_path_factory):
    file = write_report([demo_run(tmp_path_factory.mktemp("demo"))], tmp_path_factory.mktemp("page") / "report.html")
    page = visit(file.as_uri())
    search_node(page, "1046")
    screenshot(page, "report-wide.png")
    page = visit(file.as_uri(), size=PHONE)
    search_node(page, "1046")
    page.evaluate("() => byId('projection').scrollIntoView()")
    screenshot(page, "report-phone.png")
