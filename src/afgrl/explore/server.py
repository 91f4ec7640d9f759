"""The explorer's web application: what it answers, and what it refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from afgrl.errors import UserError
from afgrl.explore.nodes import Format, Nodes, UnknownNode, exported, find, nearest
from afgrl.report.arrays import safe_json
from afgrl.report.page import SCRIPTS, STYLES, served
from afgrl.report.payload import names_of, payload
from afgrl.runs import Run

HEADERS = {
    # Plotly writes style attributes and draws images from blobs; scripts come from here alone, and none is evaluated.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class Parameters(BaseModel):
    """Of a request: what is not named is refused."""

    model_config = ConfigDict(extra="forbid")


class SearchFor(Parameters):
    text: str = Field(min_length=1, max_length=1000)
    limit: int = Field(12, ge=1, le=100)


class NearestTo(Parameters):
    id: str
    k: int = Field(10, ge=1, le=100)


class Part(Parameters):
    model_config = ConfigDict(extra="forbid", strict=True)

    rows: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    format: Format = "csv"
    columns: list[str] | None = None
    vectors: bool = False


def build(run: Run, map_name: str, say: Callable[[str], None]) -> FastAPI:
    """The application with the run in memory."""
    nodes = Nodes.of(run)
    [name] = names_of([run])
    data = safe_json({"live": True, "runs": [payload(run, name, map_name, say, neighbors=False)]}).encode()
    page = served()
    longest_body = 10_000 + 12 * len(nodes.ids)  # all rows, with room for the rest
    app = FastAPI(title="afgrl explore", docs_url=None, redoc_url=None, openapi_url=None)
    _refusals(app)

    @app.get("/")
    def index(_: Annotated[Parameters, Query()]) -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/payload.json")
    def everything(_: Annotated[Parameters, Query()]) -> Response:
        return Response(data, media_type="application/json")

    @app.get("/static/{name}")
    def static(name: str, _: Annotated[Parameters, Query()]) -> FileResponse:
        if name not in SCRIPTS + STYLES:
            raise HTTPException(404, f"There is no file {name[:100]!r}.")
        with resources.as_file(resources.files("afgrl.report") / "static" / name) as file:
            return FileResponse(file)

    @app.get("/api/search")
    def search(asked: Annotated[SearchFor, Query()]) -> dict[str, Any]:
        return {"ids": find(nodes, asked.text, asked.limit)}

    @app.get("/api/neighbors")
    def neighbors(asked: Annotated[NearestTo, Query()]) -> dict[str, Any]:
        return {"id": asked.id, "neighbors": nearest(nodes, asked.id, asked.k)}

    @app.post("/api/export")
    async def export(request: Request, _: Annotated[Parameters, Query()]) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "A selection is asked for in application/json.")
        asked = Part.model_validate_json(await _body(request, longest_body))
        file, guarded = await run_in_threadpool(
            exported, nodes, asked.rows, asked.format, columns=asked.columns, vectors=asked.vectors
        )
        heads = {
            "Content-Disposition": f'attachment; filename="selection.{asked.format}"',
            "X-Guarded-Cells": str(guarded),
        }
        return Response(file, media_type=MEDIA[asked.format], headers=heads)

    return app


def _refusals(app: FastAPI) -> None:
    """Every refusal is {"error": one sentence}; requests by another name or from another page get no further."""

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        sentence = _stranger(request)
        response = _refusal(421, sentence) if sentence else await answer(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(UnknownNode)
    def no_node(_: Request, error: UnknownNode) -> Response:
        return _refusal(404, str(error))

    @app.exception_handler(UserError)
    def mistaken(_: Request, error: UserError) -> Response:
        return _refusal(422, str(error))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    def invalid(_: Request, error: Any) -> Response:
        return _refusal(422, _sentence(error.errors()[0]))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        known = {404: f"There is nothing at {request.url.path[:100]!r}.", 405: f"{request.method} is not for this."}
        detail = str(error.detail)  # ours are sentences, the library's are words
        return _refusal(error.status_code, detail if detail.endswith(".") else known.get(error.status_code, detail))


def _stranger(request: Request) -> str | None:
    """Why a request is not from the page itself: a page elsewhere may know this port, and a name that leads here."""
    _, port = request.scope["server"]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())
    given = request.headers.getlist("host")
    if len(given) != 1 or given[0].lower() not in hosts:
        return f"The explorer answers to 127.0.0.1:{port} and localhost:{port} only."
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        return "The explorer answers to its own page only."
    return None


async def _body(request: Request, longest: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > longest:
            raise HTTPException(413, f"A request may have {longest:,} bytes here, and this one has more.")
        parts.append(part)
    return b"".join(parts)


def _sentence(error: dict[str, Any]) -> str:
    place = [str(part) for part in error["loc"] if part not in ("query", "body")]
    name = ".".join(place) or "request"
    if error["type"] == "extra_forbidden":
        return f"There is no parameter {name[:100]!r} here."
    if error["type"] == "missing":
        return f"The parameter {name!r} is missing."
    if error["type"] == "json_invalid":
        return "The request holds no JSON."
    given = repr(error.get("input"))[:100]
    reason = error["msg"].removesuffix(".").removeprefix("Input ").removeprefix("String ").removeprefix("List ")
    return f"The parameter {name[:100]!r} cannot be {given}: it {reason[:1].lower()}{reason[1:]}."


def _refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
