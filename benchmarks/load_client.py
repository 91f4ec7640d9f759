"""The clients of `benchmarks.explorer_load`: requests at a fixed rate, and slow clients that stay connected."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

N_CONNECTIONS = 32
SLOW_KINDS = ("silent", "header", "reader")  # sends nothing, sends a header byte by byte, reads 4 KiB per second
LARGE_FILE = "/static/plotly-gl2d-strict.min.js"  # what slow readers ask for
READ_SIZE = 4096  # bytes per second, and of the system's buffer, so that the answer waits in the explorer


@dataclass
class Measured:
    duration: float = 0.0  # seconds, from the first request to the last answer
    seconds: list[float] = field(default_factory=list)  # per answered request, from the time it was due
    statuses: Counter[str] = field(default_factory=Counter)  # status code, or the name of an exception
    sockets: list[int] = field(default_factory=list)  # of the explorer, sampled
    closed: Counter[str] = field(default_factory=Counter)  # slow connections that the server closed, by kind


def request_mix(host: str, token: str, n_nodes: int) -> Iterator[bytes]:
    """60 % neighbors, 30 % search, 5 % page, 3 % all data, 2 % export, in a fixed order."""
    head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\n"
    body = json.dumps({"rows": list(range(100)), "vectors": True})
    sent = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    number = 0
    while True:
        kind, node = (number * 37) % 100, (number * 7919) % n_nodes
        if kind < 60:
            yield f"GET /api/neighbors?id=node-{node}&k=10 HTTP/1.1\r\n{head}\r\n".encode()
        elif kind < 90:
            yield f"GET /api/search?text=e-{node} HTTP/1.1\r\n{head}\r\n".encode()
        elif kind < 98:
            yield f"GET {'/' if kind < 95 else '/payload.json'} HTTP/1.1\r\n{head}\r\n".encode()
        else:
            yield f"POST /api/export HTTP/1.1\r\n{head}{sent}".encode()
        number += 1


async def send_at_rate(port: int, requests: Iterator[bytes], rate: float, seconds: float, measured: Measured) -> None:
    """Every request has a time when it is due; waiting for a free connection counts as latency."""
    due: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
    workers = [asyncio.create_task(_worker(port, due, measured)) for _ in range(N_CONNECTIONS)]
    start = time.perf_counter()
    for number in range(round(rate * seconds)):
        moment = start + number / rate
        if (ahead := moment - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        due.put_nowait((moment, next(requests)))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    measured.duration = time.perf_counter() - start


async def _worker(port: int, due: asyncio.Queue[tuple[float, bytes] | None], measured: Measured) -> None:
    writer: asyncio.StreamWriter | None = None
    while (item := await due.get()) is not None:
        moment, request = item
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            measured.statuses[await _read_answer(reader)] += 1
            measured.seconds.append(time.perf_counter() - moment)
        except (OSError, asyncio.IncompleteReadError) as error:
            measured.statuses[type(error).__name__] += 1
            writer = None
    if writer is not None:
        writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> str:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.split(b":")[1]))
    return head.split(b" ", 2)[1].decode()


async def hold_slow_clients(port: int, host: str, token: str, count: int, measured: Measured) -> None:
    """Slow clients until the task ends; one that the server closes comes back, so that ``count`` are always held."""
    kinds = [SLOW_KINDS[number % len(SLOW_KINDS)] for number in range(count)]
    clients = [asyncio.create_task(_slow_client(kind, port, host, token, measured)) for kind in kinds]
    try:
        await asyncio.gather(*clients)
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _slow_client(kind: str, port: int, host: str, token: str, measured: Measured) -> None:
    while True:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_SIZE)
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
                await _be_slow(connection, kind, host, token)
        measured.closed[kind] += 1


async def _be_slow(connection: socket.socket, kind: str, host: str, token: str) -> None:
    """Returns when the server has closed the connection."""
    loop = asyncio.get_running_loop()
    request = f"GET {LARGE_FILE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    if kind == "silent":
        await loop.sock_recv(connection, 1)
    elif kind == "header":
        for byte in request[:-1]:
            await loop.sock_sendall(connection, bytes([byte]))
            await asyncio.sleep(1)
    else:
        await loop.sock_sendall(connection, request)
        while await loop.sock_recv(connection, READ_SIZE):
            await asyncio.sleep(1)
