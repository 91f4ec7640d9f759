"""A run → an interactive web page on this machine: the page of the report, with a server behind it."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from afgrl.errors import UserError
from afgrl.runs.folder import Run

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app", "serve"]


def create_app(run: Run, *, projection: str = "tsne", message: Callable[[str], Any] = lambda sentence: None) -> FastAPI:
    """The web application of a run; it answers only requests that this machine sends to it under its own name."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UserError(f"The explorer needs {' and '.join(missing)}: pip install 'afgrl[explore]'.")
    from afgrl.explore.server import build_app

    return build_app(run, projection, message)


def serve(
    run: Run,
    *,
    port: int = 0,
    open_browser: bool = True,
    projection: str = "tsne",
    message: Callable[[str], Any] = lambda sentence: None,
) -> None:
    """Serve the explorer on 127.0.0.1 until Ctrl-C; port 0 chooses a free port."""
    app = create_app(run, projection=projection, message=message)
    import uvicorn

    with _listening_socket(port) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        message(f"The explorer runs at {address}; press Ctrl-C to stop it.")
        if open_browser:  # the socket listens already, so a browser that connects before the server starts waits
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        with contextlib.suppress(KeyboardInterrupt):  # depending on when Ctrl-C arrives, uvicorn raises it again
            uvicorn.Server(config).run(sockets=[listener])
        message("The explorer has stopped.")


def _listening_socket(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot use port {port}: {reason}; --port 0 chooses a free port.") from None
    return listener
