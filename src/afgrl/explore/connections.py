"""The web server of the explorer: bounded connections, deadlines for slow clients, a stop that waits for answers."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from afgrl.explore.answers import PART, Application

MAX_CONNECTIONS = 512  # half of the 1,024 open files that many systems allow
BACKLOG = 256  # connections that the system accepts before the explorer does
REQUEST_SECONDS = 10.0  # to send a complete request header; also for an idle connection
READ_SECONDS = 30.0  # to take about 100 kB of an answer
STOP_SECONDS = 5.0  # for running requests once the explorer stops


class Connection(H11Protocol):
    """A connection that is closed if its client is too slow; uvicorn itself waits forever for headers and readers.

    ``waiting`` and ``stalled`` are shared by all connections of a server and ordered by time, oldest first: connections
    without a request in progress, and connections whose client does not read the answer.
    """

    def __init__(self, waiting: dict[Connection, float], stalled: dict[Connection, float], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.waiting, self.stalled = waiting, stalled

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Linux would buffer up to 4 MB for each client that does not read.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PART)
        if len(self.connections) > MAX_CONNECTIONS:
            # The client that has waited longest gives way, so slow clients cannot keep out a new one.
            oldest = next(iter(self.waiting), self)
            self.waiting.pop(oldest, None)
            oldest.transport.abort()
        self._wait()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self.waiting.pop(self, None)

    def on_response_complete(self) -> None:
        self._wait()  # first, since the next line may already start the next request
        super().on_response_complete()

    def pause_writing(self) -> None:
        self.stalled[self] = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stalled.pop(self, None)
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self.stalled.pop(self, None)
        super().connection_lost(exc)

    def _wait(self) -> None:
        self.waiting.pop(self, None)
        self.waiting[self] = time.monotonic()


class ExplorerServer(uvicorn.Server):
    """Closes connections that are past their deadline, and stops within seconds even if clients are slow."""

    def __init__(self, app: Application) -> None:
        self.waiting: dict[Connection, float] = {}
        self.stalled: dict[Connection, float] = {}
        # Warnings are about clients, who could fill the terminal with them; an access log would show the token.
        config = uvicorn.Config(
            app, ws="none", backlog=BACKLOG, log_level="error", access_log=False, server_header=False
        )
        config.http = self._new_connection  # type: ignore[assignment]  # uvicorn calls it as it would call a class
        super().__init__(config)

    def _new_connection(self, **arguments: Any) -> Connection:
        return Connection(self.waiting, self.stalled, **arguments)

    async def on_tick(self, counter: int) -> bool:
        _abort_older(self.waiting, REQUEST_SECONDS)
        _abort_older(self.stalled, READ_SECONDS)
        return bool(await super().on_tick(counter))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(STOP_SECONDS, self._abort_all)
        await super().shutdown(sockets)

    def _abort_all(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _abort_older(connections: dict[Connection, float], seconds: float) -> None:
    deadline = time.monotonic() - seconds
    while connections:
        connection, since = next(iter(connections.items()))
        if since > deadline:
            return
        del connections[connection]
        connection.transport.abort()  # close would wait until the client has read what was sent
