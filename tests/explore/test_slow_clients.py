"""Slow clients cost little, block nobody and are closed; a stop waits for running requests."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from afgrl.explore import connections
from afgrl.explore import server as routes
from tests.explore.server import TOKEN, client_of, running_explorer
from tests.sample_runs import make_run

LARGE_FILE = "/static/plotly-gl2d-strict.min.js"
STARTED = "it runs at http://"


@pytest.fixture
def connect(address):
    """Opens connections to the explorer that receive little."""
    port = int(address.rstrip("/").rpartition(":")[2])
    with ExitStack() as opened:

        def open_connection(request=b""):
            connection = opened.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(10)
            connection.connect(("127.0.0.1", port))
            connection.sendall(request.replace(b"{port}", str(port).encode()))
            return connection

        yield open_connection


def request_of(path, method="GET", more=""):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{{port}}\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}{more}\r\n".encode()


def is_closed(connection):
    """Waits until the other end is closed, and drops what it sends before that."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


def resident_memory():
    """In bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("sent", [b"", b"GET /payload.json HTT", request_of("/")[:-2], request_of("/") + b"GET /"])
def test_a_request_that_does_not_arrive_is_closed(connect, monkeypatch, sent):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    connection = connect(sent)
    started = time.monotonic()
    assert is_closed(connection)
    assert time.monotonic() - started < 4  # uvicorn itself closes idle ones after 5 s, unfinished ones never


def test_bytes_one_by_one_do_not_extend_the_time(connect, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 1.0)
    connection = connect()
    with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):  # noqa: PT012  (which byte fails is up to the system)
        for byte in request_of("/")[:60]:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)


def test_an_answer_that_is_not_read_is_closed(connect, monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    connection = connect(request_of(LARGE_FILE))
    connection.recv(10)
    time.sleep(2)
    received = 0
    while part := connection.recv(65536):  # what the system had buffered
        received += len(part)
    assert received < 1_000_000  # of 1.7 MB


def test_an_export_that_does_not_arrive_gets_an_answer(connect, monkeypatch):
    monkeypatch.setattr(routes, "BODY_SECONDS", 0.5)
    connection = connect(request_of("/api/export", "POST", "Content-Type: application/json\r\nContent-Length: 9\r\n"))
    assert b"408" in connection.recv(100)


def test_two_exports_at_a_time(connect, address, monkeypatch):
    monkeypatch.setattr(routes, "BODY_SECONDS", 3.0)
    unfinished = request_of("/api/export", "POST", "Content-Type: application/json\r\nContent-Length: 9\r\n")
    slow = [connect(unfinished) for _ in range(2)]
    time.sleep(0.5)
    with client_of(address) as client:
        answer = client.post("/api/export", json={"rows": [1]})
        assert answer.status_code == 503
        assert "2 exports at a time" in answer.json()["error"]
        assert client.get("/payload.json").status_code == 200
        assert all(b"408" in connection.recv(100) for connection in slow)
        assert client.post("/api/export", json={"rows": [1]}).status_code == 200


def test_slow_readers_share_the_memory_of_the_answer(connect, address):
    before = resident_memory()
    for _ in range(60):
        connect(request_of(LARGE_FILE))
    time.sleep(1)
    with client_of(address) as client:
        assert client.get("/payload.json").status_code == 200
    # 60 copies of the file are 105 MB; two parts of 64 KiB for each are 8 MB, and the connections take the rest.
    assert resident_memory() - before < 40e6


def test_a_full_server_closes_the_oldest_waiting_connection(connect, address, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    waiting = [connect() for _ in range(20)]
    with client_of(address) as client:
        assert client.get("/payload.json").status_code == 200
    for connection in waiting[:-5]:
        assert is_closed(connection)
    waiting[-1].settimeout(0.2)
    assert not is_closed(waiting[-1])


def test_a_client_that_leaves_during_an_upload_is_no_internal_error(connect, address, caplog):
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)
    upload = request_of("/api/export", "POST", "Content-Type: application/json\r\nContent-Length: 9\r\n")
    connect(upload + b"{").close()
    time.sleep(0.5)
    with client_of(address) as client:
        assert client.get("/payload.json").status_code == 200
    logger.removeHandler(caplog.handler)
    assert caplog.records == []


# Stop


@pytest.fixture
def process(run):
    command = [sys.executable, "-m", "afgrl", "explore", str(run.path), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def address_of(process):
    return process.stderr.readline().rpartition(" ")[2].strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_exit_code_0(process, number):
    address, _, token = address_of(process).partition("?token=")
    with client_of(address, token) as client:
        assert "<title>afgrl</title>" in client.get("/").text
        port = client.base_url.port
        idle = socket.create_connection(("127.0.0.1", port))
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    assert process.stderr.read() == "The explorer has stopped.\n"
    assert is_closed(idle)
    idle.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_stop_finishes_the_running_answer(process):
    address, _, token = address_of(process).partition("?token=")
    with client_of(address, token) as client, client.stream("GET", LARGE_FILE) as answer:
        parts = answer.iter_raw(1000)
        received = len(next(parts))
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        received += sum(len(part) for part in parts)
        assert received == int(answer.headers["content-length"])
    assert process.wait(timeout=30) == 0


def test_a_stop_does_not_wait_for_a_slow_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "STOP_SECONDS", 1.0)
    with running_explorer(make_run(tmp_path / "run", 5)) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        reader = socket.socket()
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", port))
        reader.sendall(request_of(LARGE_FILE).replace(b"{port}", str(port).encode()))
        time.sleep(0.5)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    reader.close()
