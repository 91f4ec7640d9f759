import io
import re
import socket

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from afgrl import explore
from afgrl.errors import UserError
from afgrl.explore import export, server
from afgrl.runs.folder import Run
from afgrl.runs.spec import RunSpec
from tests.explore.server import client_of, running_explorer
from tests.sample_runs import make_run


@pytest.fixture(scope="module")
def client(address):
    with client_of(address) as client:
        yield client


# Queries


def test_ids_that_start_with_the_text_come_before_those_that_contain_it(client, tmp_path):
    assert client.get("/api/search", params={"text": "NODE-01", "limit": 3}).json()["ids"] == [
        "node-010", "node-011", "node-012",
    ]  # fmt: skip
    names = ["bar", "foobar", "Bar chart", "ba"]
    with running_explorer(make_run(tmp_path / "run", 4, ids=names)) as other:
        assert client_of(other).get("/api/search?text=bar").json()["ids"] == ["bar", "Bar chart", "foobar"]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_neighbors_are_exact(client, run, k):
    found = client.get("/api/neighbors", params={"id": "node-005", "k": k}).json()["neighbors"]
    ids, vectors = run.embedding()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = np.delete(unit @ unit[5], 5)
    assert [row["similarity"] for row in found] == pytest.approx(np.sort(cosine)[: -k - 1 : -1].tolist(), abs=1e-5)
    assert all(ids[row["row"]] == row["id"] != "node-005" for row in found)


def test_the_node_and_its_neighbors_have_their_edges(client):
    answer = client.get("/api/neighbors", params={"id": "node-005", "k": 2}).json()
    assert answer["facts"] == {"degree": 2, "edges": [4, 6], "words": []}  # a ring
    for found in answer["neighbors"]:
        assert set(found["facts"]["edges"]) == {(found["row"] - 1) % 240, (found["row"] + 1) % 240}


def test_k_larger_than_the_graph_returns_all_other_nodes(tmp_path):
    with running_explorer(make_run(tmp_path / "run", 3)) as small:
        assert len(client_of(small).get("/api/neighbors?id=node-000&k=50").json()["neighbors"]) == 2


def test_every_file_of_the_page_is_served(client):
    page = client.get("/").text
    for file in re.findall(r'(?:src|href)="(/[^"]+)"', page):
        assert client.get(file).status_code == 200, file
    payload = client.get("/payload.json").json()
    assert payload["live"] is True
    assert "neighbors" not in payload["runs"][0]  # the server answers for them


# Rejected requests


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        ("/api/neighbors?id=nobody", 404, "Unknown node 'nobody'."),
        ("/api/neighbors?id=" + "x" * 10_001, 422, "'id' cannot be 'xxx"),
        ("/api/neighbors?id=node-001&k=0", 422, "'k' cannot be '0'"),
        ("/api/neighbors?id=node-001&k=-1", 422, "'k' cannot be '-1'"),
        ("/api/neighbors?id=node-001&k=NaN", 422, "'k' cannot be 'NaN'"),
        ("/api/neighbors?id=node-001&k=1e400", 422, "'k' cannot be '1e400'"),
        ("/api/neighbors?id=node-001&k=" + "9" * 5000, 422, "'k' cannot be '999"),
        ("/api/neighbors?id=%ff%00", 404, "Unknown node"),
        ("/api/neighbors?id=node-001&k=101", 422, "'k' cannot be '101'"),
        ("/api/neighbors?id=node-001&k=ten", 422, "'k' cannot be 'ten'"),
        ("/api/neighbors?k=3", 422, "'id' is missing."),
        ("/api/neighbors?id=node-001&debug=1", 422, "Unknown parameter 'debug'."),
        ("/api/search?text=", 422, "'text' cannot be ''"),
        ("/api/search?text=a&limit=1000", 422, "'limit' cannot be '1000'"),
        ("/api/search?text=a&limit=-1", 422, "'limit' cannot be '-1'"),
        ("/api/search?text=" + "a" * 1001, 422, "'text' cannot be 'aaa"),
        ("/?token=" + "a" * 201, 422, "'token' cannot be 'aaa"),
        ("/?next=http://elsewhere", 422, "Unknown parameter 'next'."),
        ("/payload.json?callback=x", 422, "Unknown parameter 'callback'."),
        ("/static/page.html", 404, "Unknown file 'page.html'."),
        ("/static/..%2Fpage.py", 404, "Unknown path"),
        ("/docs", 404, "Unknown path '/docs'."),
        ("/openapi.json", 404, "Unknown path"),
        ("/api/export", 405, "The method GET is not allowed for '/api/export'."),
    ],
)
def test_invalid_requests_get_one_sentence(client, request_, status, sentence):
    answer = client.get(request_)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"rows": [0, 240]}, 422, "Row 240 does not exist; the rows are 0 to 239."),
        ({"rows": [-1]}, 422, "'rows.0' cannot be -1"),
        ({"rows": []}, 422, "'rows' cannot be []"),
        ({"rows": ["0"]}, 422, "'rows.0' cannot be '0'"),
        ({"rows": [1], "format": "xlsx"}, 422, "'format' cannot be 'xlsx'"),
        ({"rows": [1], "columns": ["citi"]}, 422, "Unknown column 'citi'; did you mean 'city'?"),
        ({"rows": [1], "path": "/etc/passwd"}, 422, "Unknown parameter 'path'."),
        ({"rows": [1], "vectors": "yes"}, 422, "'vectors' cannot be 'yes'"),
        ({"rows": [2**70]}, 422, "'rows.0' cannot be"),
        ([1], 422, "'request' cannot be [1]"),
        ({"rows": [1] * 9000}, 413, "larger than the allowed"),
        ({"rows": [1] * 241}, 422, "An export has at most 240 rows, one for each node, not 241."),
        ({"rows": [1], "columns": ["city", "city"]}, 422, "An export has each column once."),
        ({"rows": [1], "columns": ["x" * 5000]}, 422, "Unknown column 'xxx"),
        ({"rows": [1.5]}, 422, "'rows.0' cannot be 1.5"),
    ],
)
def test_invalid_exports_get_one_sentence(client, body, status, sentence):
    answer = client.post("/api/export", json=body)
    assert answer.status_code == status, answer.text[:200]
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"{rows", b'{"rows": [NaN]}', b"[" * 9000, b"\xff", b'{"rows": ["\\ud800"]}'])
def test_a_malformed_export_gets_one_sentence(client, content):
    answer = client.post("/api/export", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_an_export_must_be_json(client):
    answer = client.post("/api/export", content='{"rows": [1]}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415  # a form on another page can send this type without asking


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:9", "localhost:80"])
def test_requests_to_another_host_name_are_rejected(client, host):
    port = client.base_url.port
    answer = client.get("/payload.json", headers={"Host": host.format(port=port)})
    assert answer.status_code == 421
    assert f"accepts only requests to 127.0.0.1:{port} or localhost:{port}" in answer.json()["error"]
    assert client.get("/payload.json", headers={"Host": f"localhost:{port}"}).status_code == 200


def test_requests_from_another_page_are_rejected(client, address):
    for origin, status in ((address.rstrip("/"), 200), ("https://evil.example", 421), ("null", 421)):
        answer = client.post("/api/export", json={"rows": [1]}, headers={"Origin": origin})
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


def test_every_response_has_the_security_headers(client):
    assert "<script>" not in client.get("/").text
    for path in ("/", "/payload.json", "/nothing", "/static/page.js", "/api/search?text=a"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_missing_package_is_named_with_the_command_that_installs_it(run, monkeypatch):
    monkeypatch.setattr(explore, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs fastapi and uvicorn: pip install 'afgrl\[explore\]'"):
        explore.create_app(run, token=None)


# Exports


def test_an_export_has_the_rows_in_the_requested_order(client, run):
    answer = client.post("/api/export", json={"rows": [5, 2], "vectors": True})
    table = pd.read_csv(io.BytesIO(answer.content))
    assert table.columns[:6].tolist() == ["id", "region", "city", "weight", "joined", "cluster"]
    assert table.id.tolist() == ["node-005", "node-002"]
    assert table.cluster.tolist() == [1, 2]
    vectors = table[[f"e{i}" for i in range(16)]].to_numpy(np.float32)
    assert np.array_equal(vectors, run.embedding()[1][[5, 2]])
    assert 'filename="selection.csv"' in answer.headers["content-disposition"]


def test_parquet_stores_values_and_vectors_exactly(client, run):
    answer = client.post(
        "/api/export", json={"rows": [7, 0], "format": "parquet", "vectors": True, "columns": ["weight"]}
    )
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.column_names == ["id", "weight", "embedding"]
    assert table["weight"].to_pylist() == run.nodes()["weight"].take([7, 0]).to_pylist()
    assert np.array_equal(np.array(table["embedding"].to_pylist(), np.float32), run.embedding()[1][[7, 0]])


def test_formulas_in_a_csv_are_escaped(tmp_path):
    ids = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "plain", 'a"b,c']
    columns = {"=head": pa.array([*ids[1:], None], pa.large_string()), "n": pa.array([-1.5, -2, 3, 4, 5, 6, 7, None])}
    run = make_run(tmp_path / "run", 8, ids=ids, columns=columns)
    with running_explorer(run) as address:
        answer = client_of(address).post("/api/export", json={"rows": list(range(8))})
    table = pd.read_csv(io.BytesIO(answer.content), lineterminator="\n")
    assert table.id.tolist() == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "'\r=1", "plain", 'a"b,c']
    assert table.columns[1] == "'=head"
    assert table.n.tolist()[:2] == [-1.5, -2]  # numbers stay numbers
    assert answer.headers["x-escaped-cells"] == str(6 + 5 + 1)


def test_a_column_with_the_name_of_a_vector_column_is_renamed(tmp_path):
    own = {name: pa.array([place, place + 1]) for place, name in enumerate(["e0", "e0 (column)", "embedding"])}
    with running_explorer(make_run(tmp_path / "run", 2, columns=own)) as address:
        files = [
            client_of(address).post("/api/export", json={"rows": [1, 0], "format": format, "vectors": vectors}).content
            for format, vectors in (("csv", True), ("parquet", True), ("csv", False))
        ]
    table = pd.read_csv(io.BytesIO(files[0]))
    assert table.columns[1:6].tolist() == ["e0 (column) (column)", "e0 (column)", "embedding", "cluster", "e0"]
    assert table["e0 (column) (column)"].tolist() == [1, 0]
    names = ["id", "e0", "e0 (column)", "embedding (column)", "cluster", "embedding"]
    assert pq.read_table(io.BytesIO(files[1])).column_names == names
    assert pd.read_csv(io.BytesIO(files[2])).columns[1:4].tolist() == list(own)


# Start


def test_a_port_in_use_is_rejected(run):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(UserError, match="Address already in use; --port 0 chooses a free port"):
            explore.serve_explorer(run, port=listener.getsockname()[1], open_browser=False)
    with pytest.raises(UserError, match="Cannot use port 70000"):
        explore.serve_explorer(run, port=70_000, open_browser=False)


def test_an_unfinished_run_is_rejected(tmp_path):
    run = Run.create(tmp_path / "run")
    run.save_spec(RunSpec("demo"))
    with pytest.raises(UserError, match="training has not finished"):
        explore.create_app(run, token=None)


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_file_in_several_parts_has_all_rows(client, monkeypatch, format, vectors):
    question = {"where": {}, "format": format, "vectors": vectors}
    whole = client.post("/api/export", json=question)
    monkeypatch.setattr(export, "PART_ROWS", 50)
    monkeypatch.setattr(server, "PART_ROWS", 50)
    parts = client.post("/api/export", json=question)
    assert "content-length" not in parts.headers
    read = pd.read_csv if format == "csv" else pd.read_parquet
    left, right = (read(io.BytesIO(answer.content)) for answer in (whole, parts))
    assert len(right) == 240
    pd.testing.assert_frame_equal(left, right)


def test_questions_about_all_nodes(client, run):
    weight = run.nodes()["weight"].to_numpy()
    where = {"filters": [{"column": "weight", "low": float(np.nanmedian(weight))}]}
    answer = client.post("/api/select", json=where).json()
    assert answer["total"] == (weight >= np.nanmedian(weight)).sum()
    assert client.post("/api/filter", json=where).json()["total"] == answer["total"]


@pytest.mark.parametrize("path", ["/api/filter", "/api/select"])
@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"filters": [{"column": "citi"}]}, 422, "Unknown column 'citi'; did you mean 'city'?"),
        ({"filters": [{"column": "city", "codes": [70000]}]}, 422, "'filters.0.codes.0' cannot be 70000"),
        ({"filters": [{"column": "city", "codes": [0] * 2001}]}, 422, "'filters.0.codes' cannot be"),
        ({"filters": [{"column": "city"}] * 101}, 422, "'filters' cannot be"),
        ({"inside": [[0, 0], [1, 1]]}, 422, "'inside' cannot be"),
        ({"inside": [[0, 0]] * 2001}, 422, "'inside' cannot be"),
        ({"inside": [[0, 0]] * 60_000}, 413, "larger than the allowed"),
        ({"rows": [1]}, 422, "Unknown parameter 'rows'."),
    ],
)
def test_invalid_questions_get_one_sentence(client, path, body, status, sentence):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text[:200]
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize("body", [{}, {"rows": [1], "where": {}}])
def test_an_export_is_of_rows_or_of_a_question(client, body):
    assert "one of the parameters 'rows' and 'where'" in client.post("/api/export", json=body).json()["error"]
