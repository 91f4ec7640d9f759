import json
import re

import numpy as np
import pyarrow as pa
import pytest
import torch

from afgrl.errors import UserError
from afgrl.ops.knn import Neighbors
from afgrl.report import arrays, page, payload, plane, report
from afgrl.runs import Run
from tests import browser
from tests.browser import (
    PHONE,
    choose_node,
    click_node,
    demo_run,
    fits,
    make_run,
    place_of,
    screenshot,
    wants_screenshots,
)

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
def written(run, tmp_path_factory):
    return report([run], tmp_path_factory.mktemp("page") / "report.html")


# The plane


@pytest.mark.parametrize(
    "vectors",
    [
        np.ones((1, 4)), np.eye(3), np.eye(4), np.ones((40, 4)), np.zeros((9, 3)), np.repeat(np.eye(4), 20, axis=0),
        np.random.default_rng(0).normal(size=(30, 1)),
    ],
    ids=["one node", "three", "four", "constant", "zero", "duplicates", "one column"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["tsne", "pca"])
def test_every_shape_of_vectors_has_a_map_with_a_place_for_each_node(vectors, name, tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_embedding(np.arange(len(vectors)), vectors.astype(np.float32))
    points = plane.plane(run, name)
    assert points.shape == (len(vectors), 2)
    assert points.dtype == np.float32
    assert np.isfinite(points).all()
    assert len(np.unique(points, axis=0)) == len(points)


def groups_of(n, seed=0):
    draw = np.random.default_rng(seed)
    group = draw.integers(0, 5, n)
    unit = np.eye(5, 20)[group] + 0.2 * draw.normal(size=(n, 20))
    return (unit / np.linalg.norm(unit, axis=1, keepdims=True)).astype(np.float32), group


@pytest.mark.parametrize("landmarks", [5_000, 150], ids=["all", "landmarks"])
def test_nodes_of_a_group_lie_together(landmarks, monkeypatch):
    monkeypatch.setattr(plane, "LANDMARKS", landmarks)
    unit, group = groups_of(600)
    points = plane.tsne(unit)
    distance = np.linalg.norm(points[:, None] - points, axis=2) + 1e9 * np.eye(len(points))
    assert (group[distance.argmin(1)] == group).mean() > 0.97


def test_a_node_between_two_groups_goes_to_the_one_with_more_of_its_landmarks():
    places = np.array([[[0, 0], [0.1, 0], [0, 0.1], [10, 10], [10, 10.1]]])
    found = plane._median(places, np.full((1, 5), 0.2))
    assert np.linalg.norm(found) < 1


def test_the_map_is_kept_and_made_again_only_for_other_nodes(run):
    points = np.random.default_rng(3).normal(size=(240, 2)).astype(np.float32)
    run.save_map("mine", points)
    assert np.array_equal(plane.plane(run, "mine"), points)
    run.save_map("mine", points[:7])
    with pytest.raises(UserError, match="There is no map 'mine'; possible are pca, tsne"):
        plane.plane(run, "mine")


def test_vectors_that_are_not_finite_have_no_map(tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_embedding(np.arange(3), np.full((3, 2), np.nan, dtype=np.float32))
    with pytest.raises(UserError, match="not finite, so they have no map"):
        plane.plane(run, "tsne")


# What the page reads


def unpacked(packed):
    import base64

    return np.frombuffer(base64.b64decode(packed["base64"]), np.dtype(packed["type"]).newbyteorder("<"))


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, 2, 300]), "uint16", [1, 2, 300]),
        (pa.array([-1, 70_000]), "int32", [-1, 70_000]),
        (pa.array([2**40, 1]), "float64", [2**40, 1]),
        (pa.array([1, None, 2**30 + 1]), "float64", [1, np.nan, 2**30 + 1]),
        (pa.array([0.5, None, float("inf")]), "float32", [0.5, np.nan, np.nan]),
        (pa.array([0.7, None]), "float64", [0.7, np.nan]),  # a filter "at least 0.7" shall keep it
        (pa.array([1e39]), "float64", [1e39]),
    ],
)
def test_numbers_travel_in_the_smallest_type_that_holds_them(column, kind, values):
    packed = arrays.packed_column("c", pa.chunked_array([column]))
    assert packed["kind"] == "number"
    assert packed["numbers"]["type"] == kind
    assert np.array_equal(unpacked(packed["numbers"]), values, equal_nan=True)


@pytest.mark.parametrize(
    ("column", "values", "codes"),
    [
        (pa.array(["b 10", "b 9", None, "b 9"]), ["b 9", "b 10"], [1, 0, 2, 0]),
        (pa.array([True, False, None]), ["no", "yes"], [1, 0, 2]),
        (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"], [0, 1]),
        (pa.array([2**60, 1]), [str(1), str(2**60)], [1, 0]),
        (pa.array([[1, 2], None]), ["[1, 2]"], [0, 1]),
        (pa.array([None, None]), [], [0, 0]),
        (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001"], [0, 1]),
        (pa.array([0], pa.timestamp("s", "Nowhere/Land")), ["1970-01-01 00:00:00"], [0]),
        (pa.array([10**7], pa.date32()), ["29349-01-26"], [0]),
    ],
)
def test_all_else_travels_as_codes_of_its_values(column, values, codes):
    packed = arrays.packed_column("c", pa.chunked_array([column]))
    assert packed["kind"] == "category"
    assert packed["values"] == values
    assert unpacked(packed["codes"]).tolist() == codes


def test_of_many_values_the_most_frequent_come_first():
    column = pa.chunked_array([pa.array([f"v{i}" for i in range(20) for _ in range(i + 1)])])
    assert arrays.packed_column("c", column)["values"][:2] == ["v19", "v18"]


def test_json_inside_a_page_ends_no_element():
    text = arrays.safe_json({"a": HOSTILE, "nan": float("nan")})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"a": HOSTILE, "nan": None}


def test_neighbors_are_the_exact_ones(run):
    ids, vectors = run.embedding()
    packed = payload._neighbors(vectors, lambda line: None)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T - 9 * np.eye(len(unit))
    index = unpacked(packed["index"]).reshape(len(ids), 10)
    similarity = unpacked(packed["similarity"]).reshape(len(ids), 10) / 32767
    expected = -np.sort(-cosine, axis=1)[:, :10]
    assert np.abs(similarity - expected).max() < 1e-4  # of int16
    assert np.abs(np.take_along_axis(cosine, index.astype(int), 1) - expected).max() < 1e-5


def test_the_command_repeats_the_run(run):
    order = {
        "source": "my files/edges.csv", "method": "grace", "recipe": "paper", "splits": "random", "directed": False,
        "evaluate_every": 5, "file_id": "name", "file_columns": ["a=text", "b=number"], "file_knn_graph": 15,
    }  # fmt: skip
    words = payload.command(run.path, order)
    assert words.startswith("afgrl fit 'my files/edges.csv' --method grace --recipe paper --splits random --undirected")
    assert "--evaluate-every 5 --id name --column a=text --column b=number --knn-graph 15 --config" in words
    assert payload.command(run.path, {"source": ""}) is None


def test_of_a_thousand_columns_a_page_shows_some(tmp_path):
    run = Run.create(tmp_path / "run")
    run.write_config({"source": "", "method": "afgrl"}, {})
    run.save_embedding(np.arange(6), np.eye(6, dtype=np.float32))
    columns = {f"c{i}": np.arange(6.0) for i in range(1000)}
    run.save_data(pa.table({"id": np.arange(6), **columns, "label": list("aabbcc")}), {"label": "label", "notes": []})
    shown = payload.payload(run, "run", "pca", lambda line: None, neighbors=False)
    assert [column["name"] for column in shown["columns"]] == [*(f"c{i}" for i in range(60)), "label"]
    assert "first 60" in shown["data"]["notes"][-1]["text"]


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [Run(tmp_path / name) for name in ("a/run", "b/run", "a/run")]
    assert payload.names_of(runs) == ["a/run", "b/run", "a/run (2)"]
    assert payload.names_of(runs[:1]) == ["run"]


def test_a_report_is_one_file_in_a_folder_that_exists(run, tmp_path):
    with pytest.raises(UserError, match="at least one run"):
        report([], tmp_path / "report.html")
    for wrong in (tmp_path, tmp_path / "nowhere" / "report.html"):
        with pytest.raises(UserError, match="name a file in a folder that exists"):
            report([run], wrong)


def test_the_file_loads_nothing_and_runs_only_its_own_scripts(written):
    text = written.read_text(encoding="utf-8")
    head = text[: text.index("<style>")]
    assert "default-src 'none'; script-src 'sha256-" in head
    assert head.count("'sha256-") == len(page.SCRIPTS) == text.count("<script>")
    assert "unsafe-eval" not in head
    assert not re.search(
        r"(?:src|href)=[\"']?(?:https?:)?//", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    )


def test_the_vendored_library_is_the_one_that_is_described():
    import hashlib

    found = hashlib.sha256(page.asset(page.SCRIPTS[0]).encode()).hexdigest()
    assert found in page.asset("README.md")
    assert "MIT" in page.asset("plotly-LICENSE.txt")


# Colors: linear RGB → as eyes without one kind of cone see it (Machado, Oliveira and Fernandes 2009) → Oklab

EYES = {
    "all cones": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
CONES = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
OKLAB = [[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]]


@pytest.mark.parametrize("eye", EYES)
def test_all_eyes_can_tell_the_colors_apart(eye):
    listed = re.search(r"const PALETTE = \[(.*?)\]", page.asset("colors.js"), re.DOTALL)[1]
    colors = re.findall(r"#[0-9a-f]{6}", listed)
    assert len(colors) == 12
    rgb = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in colors]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.array(EYES[eye]).T, 0, 1)
    lab = np.cbrt(seen @ np.array(CONES).T) @ np.array(OKLAB).T
    distance = np.linalg.norm(lab[:, None] - lab, axis=2) + np.eye(len(lab))
    assert distance.min() > 0.07  # 0.076 is that of Okabe and Ito's own colors


# In a browser


def test_hover_click_and_moving_on(visit, run, written):
    page = visit(written.as_uri())
    assert page.title() == "letters · afgrl"
    assert "5 nodes look alike" in page.inner_text(".warnings")
    x, y = place_of(page, "node-008")
    page.mouse.move(x - 60, y - 60)
    page.mouse.move(x, y, steps=4)
    page.wait_for_selector("#tip:not([hidden])")
    tip = page.inner_text("#tip")
    assert "node-" in tip
    assert "region" in tip
    click_node(page, "node-008")
    assert page.inner_text("#node .name") == "node-008"
    assert "north" in page.inner_text("#node .cells")
    from afgrl.search import search

    expected = [found["id"] for found in search(run, ["node-008"], 10)["node-008"]]
    shown = page.locator(".neighbor .id").all_inner_texts()
    assert sorted(shown) == sorted(expected)
    assert page.locator(".ring").count() == 11
    ring = page.locator(".ring.chosen").bounding_box()
    assert (ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2) == pytest.approx(
        place_of(page, "node-008"), abs=1
    )
    page.click(f".neighbor:has-text('{expected[0]}')")
    page.wait_for_function("name => document.querySelector('#node .name').textContent === name", arg=expected[0])
    page.locator("#clusters button.chip").first.click()
    page.wait_for_function("() => document.querySelector('#node .name').textContent === 'node-000'")


def test_search_by_keyboard(visit, written):
    page = visit(written.as_uri())
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
    page.wait_for_selector("#trouble:not([hidden])")
    assert "There is no node" in page.inner_text("#trouble")


def test_color_by_any_column_and_zoom(visit, written):
    page = visit(written.as_uri())
    assert page.locator(".legend .entry").all_inner_texts() == [
        f"{name}\n60" for name in ("east", "north", "south", "west")
    ]
    page.select_option("#color", "city")
    page.wait_for_function("() => page.color === 'city' && document.querySelectorAll('.legend .entry').length === 13")
    labels = page.locator(".legend .label").all_inner_texts()
    assert labels[-2:] == ["9 others", "no value"]
    before = page.evaluate("page.maps[0].holder.data[0].x.length")
    page.click(".legend .entry:has-text('no value')")
    page.wait_for_function("before => page.maps[0].holder.data[0].x.length < before", arg=before)
    assert page.get_attribute(".legend .entry:has-text('no value')", "aria-pressed") == "false"
    page.select_option("#color", "joined")
    page.wait_for_selector(".legend .scale")
    assert re.fullmatch(r"(≤ )?\d{4}\s+(≥ )?\d{4}", page.inner_text("#legend").strip())
    assert page.evaluate("new Set(page.maps[0].holder.data[0].marker.color).size") > 20
    page.click("[aria-label='Show cluster 2 on the map']")
    page.wait_for_function("() => page.color === 'cluster' && page.maps[0].holder.data[0].x.length === 60")
    page.click("text=Only cluster 2: show all")
    page.wait_for_function("() => page.maps[0].holder.data[0].x.length === 240")
    whole = width_of_view(page)
    page.click("[aria-label='Zoom in']")
    page.wait_for_timeout(200)
    closer = width_of_view(page)
    assert closer == pytest.approx(0.7 * whole, rel=0.01)
    page.hover(".plot .nsewdrag", force=True)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(500)
    assert width_of_view(page) < 0.95 * closer


def width_of_view(page):
    return page.evaluate("(([low, high]) => high - low)(page.maps[0].holder._fullLayout.xaxis.range)")


def test_hostile_data_stays_text(visit, tmp_path):
    n = len(HOSTILE) * 4
    ids = [f"{text} {i // len(HOSTILE)}" for i, text in enumerate(HOSTILE * 4)]
    texts = pa.array([None if i == 5 else text for i, text in enumerate(HOSTILE * 4)])
    columns = {"<img src=x onerror=hacked()>": texts, "</script>": pa.array(np.arange(n) / 7)}
    run = make_run(tmp_path / "<b>run<!-- scripts -->", n, ids=ids, columns=columns, source=HOSTILE[0])
    other = make_run(tmp_path / "%{x}<a href='javascript:alert(1)'>", n, ids=ids, columns=columns, seed=1)
    page = visit(report([run, other], tmp_path / "report.html").as_uri())
    for text in (0, 1, 7, 8):
        click_node(page, ids[text])
        assert page.inner_text("#node .name")[:40].strip() == ids[text][:40].strip()
        assert HOSTILE[text][:400] in page.text_content("#node .cells")
    page.select_option("#color", "</script>")
    page.wait_for_selector(".legend .scale")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main svg a, main iframe").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
    assert fits(page)


def test_two_runs_side_by_side(visit, run, tmp_path):
    ids = [f"node-{i:03d}" for i in range(1, 241)]
    other = make_run(tmp_path / "shifted", seed=2, ids=ids, settings={"learning_rate": 0.5})
    page = visit(report([run, other], tmp_path / "report.html").as_uri())
    assert page.title() == "2 runs compared · afgrl"
    assert page.locator(".map").count() == 2
    left, right = (page.locator(".map").nth(place).bounding_box() for place in (0, 1))
    assert left["y"] == right["y"]
    click_node(page, "node-017", which=1)
    assert page.locator(".tag").all_inner_texts() == ["node-017", "node-017"]
    assert page.locator(".neighbors").count() == 2
    page.fill("#search-box", "node-000")  # of the first run only
    page.press("#search-box", "Enter")
    page.wait_for_function("() => page.selected === 'node-000'")
    assert "This run has no such node." in page.inner_text("#node")
    settings = page.inner_text("#settings")
    assert "learning_rate" in settings
    assert "epochs" not in settings.split("settings that are the same")[0]
    assert page.locator("#scores tbody tr").count() == 2 + 3  # runs, then what needs no training, once
    assert page.locator("#training .chart").count() == 5
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(300)
    upper, lower = (page.locator(".map").nth(place).bounding_box() for place in (0, 1))
    assert lower["y"] > upper["y"] + upper["height"]
    assert fits(page)


def test_six_runs_take_turns_on_the_screen(visit, tmp_path):
    runs = [make_run(tmp_path / f"run-{seed}", 40, seed=seed) for seed in range(6)]
    page = visit(report(runs, tmp_path / "report.html").as_uri(), size=PHONE)
    page.locator(".map").nth(5).scroll_into_view_if_needed()
    page.wait_for_function("() => page.maps[5].drawn && !page.maps[0].drawn")
    page.locator(".map").nth(0).scroll_into_view_if_needed()
    page.wait_for_function("() => page.maps[0].drawn && !page.maps[5].drawn")
    click_node(page, "node-003")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_needs_no_scrolling_sideways(visit, written, dark):
    page = visit(written.as_uri(), size=PHONE, dark=dark, touch=True)
    assert fits(page)
    for summary in page.locator("summary").all():
        summary.click()
    assert fits(page)
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ground = [int(part) for part in re.findall(r"\d+", color)]
    assert (max(ground) < 60) == dark
    page.evaluate("y => window.scrollBy(0, y - 400)", place_of(page, "node-008")[1])
    page.touchscreen.tap(*place_of(page, "node-008"))
    page.wait_for_selector("#node .name")


def test_two_fingers_zoom_and_keep_what_is_between_them(visit, written):
    page = visit(written.as_uri(), size=PHONE, touch=True)
    page.locator(".map").first.scroll_into_view_if_needed()
    before, middle = width_of_view(page), place_of(page, "node-008")
    hand = page.context.new_cdp_session(page)

    def touch(kind, *offsets):
        points = [{"x": middle[0] + offset, "y": middle[1], "id": place} for place, offset in enumerate(offsets)]
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", -20)
    touch("touchStart", -20, 20)
    for apart in (30, 40):
        touch("touchMove", -apart, apart)
        page.wait_for_timeout(100)
    touch("touchEnd", -40)
    touch("touchEnd")
    page.wait_for_timeout(200)
    assert width_of_view(page) == pytest.approx(before / 2, rel=0.02)
    assert place_of(page, "node-008") == pytest.approx(middle, abs=2)
    assert page.locator("#node .name").count() == 0  # no node was chosen
    page.touchscreen.tap(*middle)
    page.wait_for_selector("#node .name")


def test_a_run_saved_from_python_is_shown_with_what_there_is(visit, tmp_path):
    run = Run.create(tmp_path / "bare")
    run.write_config({"source": "", "method": "afgrl"}, {})
    run.save_embedding(np.arange(3), np.eye(3, dtype=np.float32))
    page = visit(report([run], tmp_path / "report.html").as_uri())
    click_node(page, "1")
    assert page.locator(".neighbor").count() == 2
    assert page.locator("#training").is_hidden()
    assert page.locator("#scores").is_hidden()


def test_a_collapse_is_said(visit, tmp_path):
    run = make_run(tmp_path / "run", 40)
    run.append("history.jsonl", {"epoch": 40, "loss": 0.001, "spread": 0.001, "rank": 1.0, "drift": 0.9})
    page = visit(report([run], tmp_path / "report.html").as_uri())
    assert "The vectors have collapsed" in page.inner_text(".warnings")


def test_a_hundred_and_twenty_thousand_points(visit, tmp_path, monkeypatch):
    n = 120_000

    def pretended(query, key, k, **_):  # the exact search takes minutes on two cores; it is tested above
        index = (torch.arange(n)[:, None] + torch.arange(1, k + 1)) % n
        return Neighbors(index, torch.full((n, k), 0.5))

    monkeypatch.setattr(payload, "knn", pretended)
    run = make_run(tmp_path / "big", n, ids=[f"customer-{i:06d}" for i in range(n)])
    file = report([run], tmp_path / "report.html")
    assert file.stat().st_size < 40e6
    page = visit(file.as_uri())
    alone = page.evaluate("page.runs[0].ids[page.runs[0].x.indexOf(page.runs[0].x.reduce((a, b) => Math.max(a, b)))]")
    click_node(page, alone)
    assert page.locator(".neighbor").count() == 10


# Pictures for the documentation


@pytest.mark.skipif(not wants_screenshots(), reason="AFGRL_SCREENSHOTS names no folder")
def test_pictures_of_the_report(visit, tmp_path_factory):
    file = report([demo_run(tmp_path_factory.mktemp("demo"))], tmp_path_factory.mktemp("page") / "report.html")
    page = visit(file.as_uri())
    choose_node(page, "1046")
    screenshot(page, "report-wide.png")
    page = visit(file.as_uri(), size=PHONE)
    choose_node(page, "1046")
    page.evaluate("() => byId('map').scrollIntoView()")
    screenshot(page, "report-phone.png")
