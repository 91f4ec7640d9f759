import io
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl import explore
from afgrl.errors import UserError
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

pytest.importorskip("fastapi", reason="FastAPI is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")

chromium, visit = browser.chromium, browser.visit  # fixtures


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("explore") / "letters")


@pytest.fixture(scope="module")
def address(run):
    with serving(run) as found:
        yield found


@pytest.fixture(scope="module")
def client(address):
    with httpx.Client(base_url=address) as found:
        yield found


class serving:
    """A run's explorer on a free port, in a thread."""

    def __init__(self, run):
        self.server = uvicorn.Server(uvicorn.Config(explore.app(run), log_level="warning"))
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.door]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{self.door.getsockname()[1]}/"

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(timeout=10)
        self.door.close()


# Answers


def test_ids_by_prefix_and_then_by_any_part(client, tmp_path):
    assert client.get("/api/search", params={"text": "NODE-01", "limit": 3}).json()["ids"] == [
        "node-010", "node-011", "node-012",
    ]  # fmt: skip
    names = ["bar", "foobar", "Bar chart", "ba"]
    with serving(make_run(tmp_path / "run", 4, ids=names)) as other:
        assert httpx.get(other + "api/search?text=bar").json()["ids"] == ["bar", "Bar chart", "foobar"]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_neighbors_are_the_exact_ones(client, run, k):
    found = client.get("/api/neighbors", params={"id": "node-005", "k": k}).json()["neighbors"]
    ids, vectors = run.embedding()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = np.delete(unit @ unit[5], 5)
    assert [row["similarity"] for row in found] == pytest.approx(np.sort(cosine)[: -k - 1 : -1].tolist(), abs=1e-5)
    assert all(ids[row["row"]] == row["id"] != "node-005" for row in found)


def test_fewer_nodes_than_neighbors_give_all(tmp_path):
    with serving(make_run(tmp_path / "run", 3)) as small:
        assert len(httpx.get(small + "api/neighbors?id=node-000&k=50").json()["neighbors"]) == 2


def test_the_page_and_the_report_are_one(client):
    page = client.get("/").text
    for file in re.findall(r'(?:src|href)="(/[^"]+)"', page):
        assert client.get(file).status_code == 200, file
    payload = client.get("/payload.json").json()
    assert payload["live"] is True
    assert payload["runs"][0]["neighbors"] is None


# Refusals


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        ("/api/neighbors?id=nobody", 404, "There is no node 'nobody'."),
        ("/api/neighbors?id=node-001&k=0", 422, "'k' cannot be '0'"),
        ("/api/neighbors?id=node-001&k=101", 422, "'k' cannot be '101'"),
        ("/api/neighbors?id=node-001&k=ten", 422, "'k' cannot be 'ten'"),
        ("/api/neighbors?k=3", 422, "'id' is missing."),
        ("/api/neighbors?id=node-001&debug=1", 422, "There is no parameter 'debug' here."),
        ("/api/search?text=", 422, "'text' cannot be ''"),
        ("/api/search?text=a&limit=1000", 422, "'limit' cannot be '1000'"),
        ("/?next=http://elsewhere", 422, "There is no parameter 'next' here."),
        ("/payload.json?callback=x", 422, "There is no parameter 'callback' here."),
        ("/static/page.html", 404, "There is no file 'page.html'."),
        ("/static/..%2Fpage.py", 404, "There is nothing at"),
        ("/docs", 404, "There is nothing at '/docs'."),
        ("/openapi.json", 404, "There is nothing at"),
        ("/api/export", 405, "GET is not for this."),
    ],
)
def test_what_is_not_known_is_refused_in_one_sentence(client, request_, status, sentence):
    answer = client.get(request_)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"rows": [0, 240]}, 422, "There is no row 240; the rows are 0 to 239."),
        ({"rows": [-1]}, 422, "'rows.0' cannot be -1"),
        ({"rows": []}, 422, "'rows' cannot be []"),
        ({"rows": ["0"]}, 422, "'rows.0' cannot be '0'"),
        ({"rows": [1], "format": "xlsx"}, 422, "'format' cannot be 'xlsx'"),
        ({"rows": [1], "columns": ["citi"]}, 422, "There is no column 'citi'; did you mean 'city'?"),
        ({"rows": [1], "path": "/etc/passwd"}, 422, "There is no parameter 'path' here."),
        ({"rows": [1], "vectors": "yes"}, 422, "'vectors' cannot be 'yes'"),
        ({"rows": [2**70]}, 422, "'rows.0' cannot be"),
        ([1], 422, "'request' cannot be [1]"),
        ({"rows": [1] * 9000}, 413, "and this one has more."),
    ],
)
def test_an_export_of_what_is_not_there_is_refused(client, body, status, sentence):
    answer = client.post("/api/export", json=body)
    assert answer.status_code == status, answer.text[:200]
    assert sentence in answer.json()["error"]


def test_an_export_must_be_json(client):
    assert client.post("/api/export", content="{rows", headers={"Content-Type": "application/json"}).status_code == 422
    answer = client.post("/api/export", content='{"rows": [1]}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415  # what a form of another page could send


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:9", "localhost:80"])
def test_only_its_own_name_is_answered(client, host):
    port = client.base_url.port
    answer = client.get("/payload.json", headers={"Host": host.format(port=port)})
    assert answer.status_code == 421
    assert f"answers to 127.0.0.1:{port} and localhost:{port} only" in answer.json()["error"]
    assert client.get("/payload.json", headers={"Host": f"localhost:{port}"}).status_code == 200


def test_no_other_page_may_ask(client, address):
    for origin, status in ((address.rstrip("/"), 200), ("https://evil.example", 421), ("null", 421)):
        answer = client.post("/api/export", json={"rows": [1]}, headers={"Origin": origin})
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


def test_every_answer_has_the_policy(client):
    for path in ("/", "/payload.json", "/nothing", "/static/page.js", "/api/search?text=a"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "unsafe-eval" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_without_fastapi_one_sentence_says_what_to_install(run, monkeypatch):
    monkeypatch.setattr(explore, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs fastapi and uvicorn; pip install 'afgrl\[explore\]'"):
        explore.app(run)


# Exports


def test_an_export_holds_the_rows_in_the_order_asked(client, run):
    answer = client.post("/api/export", json={"rows": [5, 2], "vectors": True})
    table = pd.read_csv(io.BytesIO(answer.content))
    assert table.columns[:6].tolist() == ["id", "region", "city", "weight", "joined", "cluster"]
    assert table.id.tolist() == ["node-005", "node-002"]
    assert table.cluster.tolist() == [1, 2]
    vectors = table[[f"e{i}" for i in range(16)]].to_numpy(np.float32)
    assert np.array_equal(vectors, run.embedding()[1][[5, 2]])
    assert 'filename="selection.csv"' in answer.headers["content-disposition"]


def test_parquet_holds_the_very_values(client, run):
    answer = client.post(
        "/api/export", json={"rows": [7, 0], "format": "parquet", "vectors": True, "columns": ["weight"]}
    )
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.column_names == ["id", "weight", "embedding"]
    assert table["weight"].to_pylist() == run.nodes()["weight"].take([7, 0]).to_pylist()
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), run.embedding()[1][[7, 0]])


def test_nothing_in_a_csv_is_computed_by_a_spreadsheet(tmp_path):
    ids = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", 'a"b,c']
    columns = {"=head": pa.array([*ids[1:], None], pa.large_string()), "n": pa.array([-1.5, -2, 3, 4, 5, 6, 7, None])}
    run = make_run(tmp_path / "run", 8, ids=ids, columns=columns)
    with serving(run) as address:
        answer = httpx.post(address + "api/export", json={"rows": list(range(8))})
    table = pd.read_csv(io.BytesIO(answer.content), lineterminator="\n")
    assert table.id.tolist() == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "'\r=1", "plain", 'a"b,c']
    assert table.columns[1] == "'=head"
    assert table.n.tolist()[:2] == [-1.5, -2]  # numbers stay numbers
    assert answer.headers["x-guarded-cells"] == str(6 + 5 + 1)


def test_a_column_named_as_those_of_the_vectors_is_kept_under_another_name(tmp_path):
    own = {name: pa.array([place, place + 1]) for place, name in enumerate(["e0", "e0 (column)", "embedding"])}
    with serving(make_run(tmp_path / "run", 2, columns=own)) as address:
        files = [
            httpx.post(address + "api/export", json={"rows": [1, 0], "format": format, "vectors": vectors}).content
            for format, vectors in (("csv", True), ("parquet", True), ("csv", False))
        ]
    table = pd.read_csv(io.BytesIO(files[0]))
    assert table.columns[1:6].tolist() == ["e0 (column) (column)", "e0 (column)", "embedding", "cluster", "e0"]
    assert table["e0 (column) (column)"].tolist() == [1, 0]
    names = ["id", "e0", "e0 (column)", "embedding (column)", "cluster", "embedding"]
    assert pq.read_table(io.BytesIO(files[1])).column_names == names
    assert pd.read_csv(io.BytesIO(files[2])).columns[1:4].tolist() == list(own)


# In a browser


def test_neighbors_search_and_hostile_ids(visit, address):
    page = visit(address)
    page.fill("#search-box", "e-01")
    page.wait_for_selector("#suggestions li[role=option]")
    assert page.locator("#suggestions li").count() == 10
    page.click("#suggestions li:has-text('node-013')")
    page.wait_for_selector(".neighbor")
    assert page.locator(".neighbor").count() == 10
    page.fill("#how-many", "25")
    page.press("#how-many", "Enter")
    page.wait_for_function("() => document.querySelectorAll('.neighbor').length === 25")
    click_node(page, "node-008")
    assert page.locator(".neighbor").count() == 25


def drawn(page):
    return page.evaluate("() => page.maps[0].holder.data[0].x.length")


def test_filter_select_and_export(visit, address, tmp_path):
    page = visit(address)
    page.click("#filters summary:has-text('region')")
    page.check("#filters label:has-text('north') input")
    page.wait_for_function("() => page.maps[0].holder.data[0].x.length === 60")
    page.click("#filters summary:has-text('joined')")
    page.fill("[aria-label='joined at least']", "2010")
    page.press("[aria-label='joined at least']", "Enter")
    page.wait_for_function("() => page.maps[0].holder.data[0].x.length < 60")
    left = drawn(page)
    assert f"all {left} nodes shown" in page.inner_text("#selection")
    with page.expect_download() as waiting:
        page.click("#export")
    table = pd.read_csv(waiting.value.path())
    assert waiting.value.suggested_filename == "selection.csv"
    assert len(table) == left
    assert set(table.region) == {"north"}
    assert table.joined.min() >= 2010


def draw_around(page, tool, names, share=1.0):
    """A box or a lasso around nodes, by hand; around most of them where some lie far away."""
    page.click(f"[data-tool={tool}]")
    assert page.get_attribute(f"[data-tool={tool}]", "aria-pressed") == "true"
    places = np.array([place_of(page, name) for name in names])
    (left, top), (right, bottom) = np.quantile(places, 1 - share, 0) - 8, np.quantile(places, share, 0) + 8
    if tool == "select":
        corners = [(left, top), (right, bottom)]
    else:
        turn = np.linspace(0, 2 * np.pi, 13)  # an oval around the box
        middle, half = np.array([left + right, top + bottom]) / 2, np.array([right - left, bottom - top]) / 2
        corners = (middle + 2**0.5 * half * np.stack([np.cos(turn), np.sin(turn)], axis=1)).tolist()
    page.mouse.move(*corners[0])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(x, y, steps=2)
    page.mouse.up()


@pytest.mark.parametrize("tool", ["select", "lasso"])
def test_box_and_lasso(visit, address, tool):
    page = visit(address)
    choose_node(page, "node-001")
    draw_around(page, tool, [f"node-{i:03d}" for i in range(0, 240, 4)])  # the nodes of the north
    page.wait_for_selector("#clear:not([hidden])")
    inside = page.evaluate("() => page.selection && document.querySelector('#selection .note').textContent")
    assert inside == "60 nodes selected."
    assert page.evaluate("() => page.maps[0].holder.data[0].selectedpoints.length") == 60  # the others are dimmed
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


def test_the_page_says_what_was_changed_for_spreadsheets(visit, tmp_path):
    run = make_run(tmp_path / "run", 5, ids=["=1", "<img src=x onerror='window.hacked=1'>", "c", "d", "e"], columns={})
    with serving(run) as address:
        page = visit(address)
        click_node(page, "<img src=x onerror='window.hacked=1'>")
        with page.expect_download():
            page.click("#export")
        page.wait_for_function("() => document.querySelector('#exported').textContent.includes('exported')")
        assert "1 cell that a spreadsheet would compute got an apostrophe in front." in page.inner_text("#exported")
        assert page.evaluate("() => window.hacked ?? null") is None


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_on_a_phone(visit, address, dark):
    page = visit(address, size=PHONE, dark=dark)
    for summary in page.locator("summary").all():
        summary.click()
    assert fits(page)


def test_the_command_serves_until_it_is_interrupted(run):
    code = (
        "import sys; from pathlib import Path; from afgrl.explore import serve; from afgrl.runs import Run\n"
        "serve(Run.open(Path(sys.argv[1])), open_browser=False, say=lambda line: print(line, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(run.path)], stdout=subprocess.PIPE, text=True) as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"<title>afgrl</title>" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == "The explorer has ended.\n"


def test_a_port_that_is_taken(run):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        with pytest.raises(UserError, match=r"cannot be used: Address already in use; --port 0 takes a free one"):
            explore.serve(run, port=door.getsockname()[1], open_browser=False)
    with pytest.raises(UserError, match="Port 70000 cannot be used"):
        explore.serve(run, port=70_000, open_browser=False)


@pytest.mark.skipif(not wants_screenshots(), reason="AFGRL_SCREENSHOTS names no folder")
def test_pictures_of_the_explorer(visit, tmp_path_factory):
    with serving(demo_run(tmp_path_factory.mktemp("demo"))) as address:
        page = visit(address)
        choose_node(page, "0")
        zeros = "() => page.runs[0].ids.filter((_, row) => cellText(columnNamed(page.runs[0], 'label'), row) === '0')"
        draw_around(page, "lasso", page.evaluate(zeros), share=0.96)
        page.mouse.move(5, 5)
        page.wait_for_timeout(2000)
        screenshot(page, "explore-wide.png")
        page = visit(address, size=PHONE)
        choose_node(page, "0")
        page.evaluate("() => byId('map').scrollIntoView()")
        screenshot(page, "explore-phone.png")


def test_a_run_that_has_not_finished_is_refused(tmp_path):
    run = Run.create(tmp_path / "run")
    run.write_config({"source": "demo", "method": "afgrl"}, {})
    with pytest.raises(UserError, match="the training has not finished"):
        explore.app(run)
