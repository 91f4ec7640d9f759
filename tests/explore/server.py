"""The explorer of a run on a free port, in a thread."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from afgrl import explore

pytest.importorskip("fastapi", reason="FastAPI is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")


@contextmanager
def running_explorer(run):
    server = uvicorn.Server(uvicorn.Config(explore.create_app(run), log_level="warning"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(timeout=10)
