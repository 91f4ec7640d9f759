"""A run → an interactive web page on this machine: the page of the report, with a server behind it."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from afgrl.errors import UserError
from afgrl.estimators.saved import Model, as_runs
from afgrl.runs.folder import Run

if TYPE_CHECKING:
    from afgrl.explore.answers import Application
    from afgrl.explore.connections import ExplorerServer

__all__ = ["create_app", "serve_explorer"]


def create_app(
    run: Run,
    *,
    token: str | None,
    projection: str = "tsne",
    message: Callable[[str], Any] = lambda sentence: None,
) -> Application:
    """The web application (ASGI) of a run; it answers only requests to this machine that have the token.

    With the token ``None``, every user and program on this machine can read the nodes and columns of the run.
    """
    _check_packages()
    from afgrl.explore.server import build_app

    return build_app(run, token, projection, message)


def serve_explorer(
    model: Model,
    *,
    port: int = 0,
    open_browser: bool = True,
    use_token: bool = True,
    projection: str = "tsne",
    message: Callable[[str], Any] = print,
) -> None:
    """Serve the explorer of a run or a fitted estimator on 127.0.0.1, as `afgrl explore` does, until Ctrl-C (in a
    notebook: interrupt) or SIGTERM; port 0 chooses a free port. ``message`` receives the address."""
    _check_packages()
    with as_runs([model]) as (run,):
        _serve_run(run, port, open_browser, use_token, projection, message)


def _serve_run(
    run: Run, port: int, open_browser: bool, use_token: bool, projection: str, message: Callable[[str], Any]
) -> None:
    from afgrl.explore.access import new_token

    token = new_token() if use_token else None
    app = create_app(run, token=token, projection=projection, message=message)
    from afgrl.explore.connections import ExplorerServer

    server = ExplorerServer(app)
    with listening_socket(port) as listener, _stopped_by_signals(server):
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/" + (f"?token={token}" if token else "")
        if not token:
            message("Without a token, every user and program on this machine can read the run's nodes and columns.")
        message(f"Press Ctrl-C to stop the explorer; it runs at {address}")
        if open_browser:  # the socket listens already, so a browser that connects before the server starts waits
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server.run(sockets=[listener])
    message("The explorer has stopped.")


def missing_packages() -> list[str]:
    """What the explorer needs and is not installed."""
    return [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]


def _check_packages() -> None:
    missing = missing_packages()
    if missing:
        raise UserError(f"The explorer needs {' and '.join(missing)}: pip install 'afgrl[explore]'.")


@contextlib.contextmanager
def _stopped_by_signals(server: ExplorerServer) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the server. It handles them itself while it runs, and sends them again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        server.should_exit = True

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def listening_socket(port: int) -> socket.socket:
    # With the protocol named, asyncio sends answers without delay; otherwise each would wait 40 ms for the client.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot use port {port}: {reason}; --port 0 chooses a free port.") from None
    return listener
