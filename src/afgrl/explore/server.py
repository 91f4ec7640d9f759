"""The web application of the explorer: its routes and their parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio.to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from afgrl.explore.access import MAX_TOKEN, PAGE
from afgrl.explore.answers import EXPORT, Application, add_error_handlers, guarded
from afgrl.explore.first_view import FirstView
from afgrl.explore.nodes import MAX_QUOTED, Format, Nodes, export_rows, node_and_nearest, search_rows
from afgrl.report.arrays import safe_json
from afgrl.report.page import SCRIPTS, STYLES, asset, served_page
from afgrl.report.payload import display_names, page_payload
from afgrl.runs.folder import Run

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
MAX_THREADS = 4  # for questions about nodes; the others wait
BODY_SECONDS = 30.0  # to send the rows of an export
MAX_ID = 10_000  # characters


class Parameters(BaseModel):
    """Parameters of a request; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid")


class PageParameters(Parameters):
    token: str = Field("", max_length=MAX_TOKEN)  # checked before, for every request


class SearchParameters(Parameters):
    text: str = Field(min_length=1, max_length=1000)
    limit: int = Field(12, ge=1, le=100)


class NeighborParameters(Parameters):
    id: str = Field(max_length=MAX_ID)
    k: int = Field(10, ge=1, le=100)


class ExportParameters(Parameters):
    model_config = ConfigDict(extra="forbid", strict=True)

    rows: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    format: Format = "csv"
    columns: list[str] | None = None
    vectors: bool = False


def build_app(run: Run, token: str | None, projection: str, message: Callable[[str], Any]) -> Application:
    """The application, with the nodes of the run in memory."""
    first_view = FirstView.of_run(run, projection, message)
    nodes = Nodes.from_run(run)
    [name] = display_names([run])
    data = safe_json({"live": True, "runs": [page_payload(run, name, first_view.packed)]}).encode()
    page = served_page()
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

    # These two take time that grows with the run, so they are plain functions, which run in a thread.
    @app.get("/api/search")
    def search(query: Annotated[SearchParameters, Query()]) -> Response:
        rows = search_rows(nodes, query.text, query.limit)
        return JSONResponse({"ids": [nodes.ids[row] for row in rows], "names": [nodes.name_of(row) for row in rows]})

    @app.get("/api/neighbors")
    def neighbors(query: Annotated[NeighborParameters, Query()]) -> Response:
        answer = node_and_nearest(nodes, query.id, query.k)
        return Response(safe_json(first_view.complete(answer)), media_type="application/json")

    @app.post(EXPORT)
    async def export(request: Request, _: Annotated[Parameters, Query()]) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "The content type of an export request must be application/json.")
        query = ExportParameters.model_validate_json(await _read_body(request, max_body))
        file, n_escaped = await run_in_threadpool(
            export_rows, nodes, query.rows, query.format, columns=query.columns, vectors=query.vectors
        )
        headers = {
            "Content-Disposition": f'attachment; filename="selection.{query.format}"',
            "X-Escaped-Cells": str(n_escaped),
        }
        return Response(file, media_type=MEDIA_TYPES[query.format], headers=headers)

    return guarded(app, token)


@asynccontextmanager
async def _with_few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Each thread that asks PyTorch for neighbors starts threads of its own, so the default of 40 would be hundreds."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_THREADS
    yield


async def _read_body(request: Request, max_bytes: int) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > max_bytes:
                    raise HTTPException(413, f"The request is larger than the allowed {max_bytes:,} bytes.")
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, f"The request did not arrive within {BODY_SECONDS:g} s.") from None
    except ClientDisconnect:  # nobody reads this answer; without it the server would report an internal error
        raise HTTPException(400, "The request ended too early.") from None
    return b"".join(parts)
