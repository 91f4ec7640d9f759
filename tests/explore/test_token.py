import re

import pytest
from typer.testing import CliRunner

from afgrl.cli.entry_point import app
from afgrl.explore import access
from tests import browser
from tests.explore.server import TOKEN, client_of, running_explorer, with_token

chromium, visit = browser.chromium, browser.visit  # fixtures
PATHS = ("/", "/payload.json", "/static/page.js", "/api/search?text=a", "/api/neighbors?id=node-001", "/nothing")


@pytest.fixture
def stranger(address):
    with client_of(address, token=None) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": f"afgrl-token-1={TOKEN}"},
        {"Cookie": "afgrl-token-{port}=wrong"},
    ],
)
def test_nothing_is_answered_without_the_token(stranger, path, headers):
    sent = {name: value.replace("{port}", str(stranger.base_url.port)) if isinstance(value, str) else value
            for name, value in headers.items()}  # fmt: skip
    answer = stranger.get(path, headers=sent)
    assert answer.status_code == 401
    sentence = "The token is missing or wrong; open the address that `afgrl explore` printed."
    assert answer.json() == {"error": sentence}
    assert "set-cookie" not in answer.headers
    assert stranger.post("/api/export", json={"rows": [1]}, headers=sent).status_code == 401


def test_only_the_page_takes_the_token_from_its_address(stranger):
    assert stranger.get(f"/payload.json?token={TOKEN}").status_code == 401
    assert stranger.get("/?token=wrong").status_code == 401
    assert stranger.get("/?token=").status_code == 401
    answer = stranger.get(f"/?token={TOKEN}")
    assert answer.status_code == 200
    port = stranger.base_url.port
    assert answer.headers["set-cookie"] == f"afgrl-token-{port}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert stranger.get("/payload.json").status_code == 200  # by the cookie that the client has now
    assert TOKEN not in answer.text


def test_the_token_does_not_replace_the_host_and_origin_checks(address):
    with client_of(address) as client:
        assert client.get("/payload.json", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/payload.json", headers={"Origin": "https://evil.example"}).status_code == 421


def test_tokens_are_long_and_never_the_same():
    tokens = {access.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 32 and re.fullmatch(r"[\w-]+", token) for token in tokens)


def test_without_a_token_everything_is_answered(run):
    with running_explorer(run, token=None) as address, client_of(address, token=None) as client:
        assert client.get("/payload.json").status_code == 200
        assert "set-cookie" not in client.get("/").headers


def test_the_command_says_what_no_token_opens(run, monkeypatch):
    from afgrl.explore.connections import ExplorerServer

    monkeypatch.setattr(ExplorerServer, "run", lambda self, sockets: None)
    command = ["explore", str(run.path), "--no-browser"]
    said = CliRunner().invoke(app, command).stderr
    assert re.search(r"it runs at http://127\.0\.0\.1:\d+/\?token=[\w-]{32}\n", said)  # unbroken, at the end of a line
    assert "Without a token" not in said
    said = CliRunner().invoke(app, [*command, "--no-token"]).stderr
    assert "Without a token, every user and program on this machine can read the run's nodes and columns.\n" in said
    assert "token=" not in said


def test_the_page_hides_the_token_and_can_be_reloaded(visit, address):
    page = visit(with_token(address))
    assert page.url == address
    assert TOKEN not in page.content()
    assert page.evaluate("document.cookie") == ""
    page.reload()
    page.wait_for_selector("html[data-ready]")
    other_tab = page.context.new_page()
    other_tab.goto(address)
    other_tab.wait_for_selector("html[data-ready]")
