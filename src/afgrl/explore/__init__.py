"""A run → a local web page: the report's page, with a server behind it."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from afgrl.errors import UserError
from afgrl.runs import Run

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["app", "serve"]


def app(run: Run, *, map_name: str = "tsne", say: Callable[[str], None] = lambda line: None) -> FastAPI:
    """The web application of a run; it answers only requests to this machine by its own name."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UserError(f"The explorer needs {' and '.join(missing)}; pip install 'afgrl[explore]' adds what it needs.")
    from afgrl.explore.server import build

    return build(run, map_name, say)


def serve(
    run: Run,
    *,
    port: int = 0,
    open_browser: bool = True,
    map_name: str = "tsne",
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Answer on 127.0.0.1 until Ctrl-C; port 0 is a free one."""
    application = app(run, map_name=map_name, say=say)
    import uvicorn

    with _listening(port) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}/"
        say(f"The explorer is at {address} and ends with Ctrl-C.")
        if open_browser:  # the door is open already, so that a quick browser waits there
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(application, log_level="warning", access_log=False, server_header=False)
        try:
            uvicorn.Server(config).run(sockets=[door])
        except KeyboardInterrupt:
            say("The explorer has ended.")


def _listening(port: int) -> socket.socket:
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind(("127.0.0.1", port))
        door.listen()
    except (OSError, OverflowError) as error:
        door.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Port {port} cannot be used: {reason}; --port 0 takes a free one.") from None
    return door
