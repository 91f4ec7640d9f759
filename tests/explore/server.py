"""The explorer of a run on a free port, in a thread."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from afgrl import explore

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

TOKEN = "a-token-for-tests"


@contextmanager
def running_explorer(run, token=TOKEN):
    """Yields the address, which contains no token."""
    from afgrl.explore.connections import ExplorerServer

    server = ExplorerServer(explore.create_app(run, token=token))
    with explore.listening_socket(0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(timeout=10)
        assert not thread.is_alive()


def with_token(address):
    """The address that a user opens."""
    return f"{address}?token={TOKEN}"


def client_of(address, token=TOKEN):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=address, headers=headers, timeout=30)
