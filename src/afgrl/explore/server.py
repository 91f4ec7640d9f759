"""The web application of the explorer: its routes and their parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio.to_thread
import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from afgrl.amounts import duration
from afgrl.errors import UserError
from afgrl.explore.access import PAGE
from afgrl.explore.answers import EXPORT, Application, add_error_handlers, guarded
from afgrl.explore.export import PART_ROWS, checked_rows, export_rows
from afgrl.explore.first_view import FirstView
from afgrl.explore.nodes import Nodes, node_and_nearest, search_rows
from afgrl.explore.parameters import (
    MAX_QUOTED,
    ExportParameters,
    NeighborParameters,
    PageParameters,
    Parameters,
    SearchParameters,
    Where,
)
from afgrl.report.arrays import safe_json
from afgrl.report.page import SCRIPTS, STYLES, asset, served_page
from afgrl.report.payload import display_names, page_payload
from afgrl.runs.folder import Run
from afgrl.runs.in_memory import RunInMemory

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
MAX_THREADS = 4  # for questions about nodes; the others wait
MAX_LISTED = 200  # nodes of a selection that the page lists
MAX_QUESTION = 300_000  # bytes: filters and a lasso
BODY_SECONDS = 30.0  # to send the filters, or the rows of an export


def build_app(run: Run, token: str | None, projection: str, message: Callable[[str], Any]) -> Application:
    """The application, with the nodes of the run in memory."""
    run = RunInMemory(run.path)
    first_view = FirstView.of_run(run, projection, message)
    nodes = Nodes.from_run(run)
    [name] = display_names([run])
    data = safe_json({"live": True, "runs": [page_payload(run, name, first_view.packed)]}).encode()
    picture = first_view.picture
    page = served_page(with_picture=picture is not None)
    files = {name: asset(name).encode() for name in SCRIPTS + STYLES}
    max_body = 10_000 + 12 * len(nodes.ids)  # bytes: every row number, and room for the other parameters
    app = FastAPI(title="afgrl explore", docs_url=None, redoc_url=None, openapi_url=None, lifespan=_with_few_threads)
    add_error_handlers(app)

    @app.get(PAGE)
    async def index(_: Annotated[PageParameters, Query()]) -> Response:
        return HTMLResponse(page)

    @app.get("/payload.json")
    async def payload(_: Annotated[Parameters, Query()]) -> Response:
        return Response(data, media_type="application/json")

    @app.get("/static/{name}")
    async def static(name: str, _: Annotated[Parameters, Query()]) -> Response:
        if name not in files:
            raise HTTPException(404, f"Unknown file {name[:MAX_QUOTED]!r}.")
        return Response(files[name], media_type="text/css" if name in STYLES else "text/javascript")

    @app.get("/map.png")
    async def map_picture(_: Annotated[Parameters, Query()]) -> Response:
        if picture is None:
            raise HTTPException(404, "Only a run with a sample has a picture of its map.")
        return Response(picture, media_type="image/png")

    # These take time that grows with the run, so they are plain functions, which run in a thread.
    @app.get("/api/search")
    def search(query: Annotated[SearchParameters, Query()]) -> Response:
        rows = search_rows(nodes, query.text, query.limit)
        return JSONResponse({"ids": [nodes.ids[row] for row in rows], "names": [nodes.name_of(row) for row in rows]})

    @app.get("/api/neighbors")
    def neighbors(query: Annotated[NeighborParameters, Query()]) -> Response:
        answer = node_and_nearest(nodes, query.id, query.k)
        return Response(safe_json(first_view.complete(answer)), media_type="application/json")

    @app.post("/api/filter")
    async def filter_nodes(request: Request, _: Annotated[Parameters, Query()]) -> Response:
        where = Where.model_validate_json(await _read_json(request, MAX_QUESTION))
        return Response(await run_in_threadpool(_filtered, first_view, where), media_type="application/json")

    @app.post("/api/select")
    async def select(request: Request, _: Annotated[Parameters, Query()]) -> Response:
        where = Where.model_validate_json(await _read_json(request, MAX_QUESTION))
        return JSONResponse(await run_in_threadpool(_selected, first_view, nodes, where))

    @app.post(EXPORT)
    async def export(request: Request, _: Annotated[Parameters, Query()]) -> Response:
        query = ExportParameters.model_validate_json(await _read_json(request, max_body))
        return await run_in_threadpool(_export, first_view, nodes, query)

    return guarded(app, token)


def _filtered(first_view: FirstView, where: Where) -> str:
    return safe_json(first_view.filtered(where))


def _selected(first_view: FirstView, nodes: Nodes, where: Where) -> dict[str, Any]:
    """How many nodes these are, and the first ones."""
    rows = np.flatnonzero(first_view.matching(where))
    listed = rows[:MAX_LISTED].tolist()
    ids, names = [nodes.ids[row] for row in listed], [nodes.name_of(row) for row in listed]
    return {"total": len(rows), "ids": ids, "names": names}


def _export(first_view: FirstView, nodes: Nodes, query: ExportParameters) -> Response:
    if query.rows is not None and query.where is None:
        rows = checked_rows(nodes, query.rows)
    elif query.where is not None and query.rows is None:
        rows = np.flatnonzero(first_view.matching(query.where))
    else:
        raise UserError("An export needs one of the parameters 'rows' and 'where'.")
    parts, n_escaped = export_rows(nodes, rows, query.format, columns=query.columns, vectors=query.vectors)
    headers = {
        "Content-Disposition": f'attachment; filename="selection.{query.format}"',
        "X-Escaped-Cells": str(n_escaped),
    }
    kind = MEDIA_TYPES[query.format]
    if len(rows) > PART_ROWS:
        return StreamingResponse(parts, media_type=kind, headers=headers)
    return Response(b"".join(parts), media_type=kind, headers=headers)


@asynccontextmanager
async def _with_few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Each thread that asks PyTorch for neighbors starts threads of its own, so the default of 40 would be hundreds."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
    yield


async def _read_json(request: Request, max_bytes: int) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "The content type of this request must be application/json.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > max_bytes:
                    raise HTTPException(413, f"The request is larger than the allowed {max_bytes:,} bytes.")
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, f"The request did not arrive within {duration(BODY_SECONDS)}.") from None
    except ClientDisconnect:  # nobody reads this answer; without it the server would report an internal error
        raise HTTPException(400, "The request ended too early.") from None
    return b"".join(parts)
