"""The web application of the explorer: its routes, and the requests it rejects."""

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
from afgrl.explore.nodes import MAX_QUOTED, Format, Nodes, UnknownNode, export_rows, nearest_nodes, search_ids
from afgrl.report.arrays import safe_json
from afgrl.report.page import SCRIPTS, STYLES, served_page
from afgrl.report.payload import display_names, run_payload
from afgrl.runs.folder import Run

HEADERS = {
    # Plotly writes style attributes and draws images from blobs. Scripts come from this server only, without eval.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


class Parameters(BaseModel):
    """Parameters of a request; unknown ones are rejected."""

    model_config = ConfigDict(extra="forbid")


class SearchParameters(Parameters):
    text: str = Field(min_length=1, max_length=1000)
    limit: int = Field(12, ge=1, le=100)


class NeighborParameters(Parameters):
    id: str
    k: int = Field(10, ge=1, le=100)


class ExportParameters(Parameters):
    model_config = ConfigDict(extra="forbid", strict=True)

    rows: list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    format: Format = "csv"
    columns: list[str] | None = None
    vectors: bool = False


def build_app(run: Run, projection: str, message: Callable[[str], Any]) -> FastAPI:
    """The application, with the nodes of the run in memory."""
    nodes = Nodes.from_run(run)
    [name] = display_names([run])
    data = safe_json({"live": True, "runs": [run_payload(run, name, projection, message, neighbors=False)]}).encode()
    page = served_page()
    max_body = 10_000 + 12 * len(nodes.ids)  # bytes: every row number, and room for the other parameters
    app = FastAPI(title="afgrl explore", docs_url=None, redoc_url=None, openapi_url=None)
    _add_error_handlers(app)

    @app.get("/")
    def index(_: Annotated[Parameters, Query()]) -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/payload.json")
    def payload(_: Annotated[Parameters, Query()]) -> Response:
        return Response(data, media_type="application/json")

    @app.get("/static/{name}")
    def static(name: str, _: Annotated[Parameters, Query()]) -> FileResponse:
        if name not in SCRIPTS + STYLES:
            raise HTTPException(404, f"Unknown file {name[:MAX_QUOTED]!r}.")
        with resources.as_file(resources.files("afgrl.report") / "static" / name) as file:
            return FileResponse(file)

    @app.get("/api/search")
    def search(query: Annotated[SearchParameters, Query()]) -> dict[str, Any]:
        return {"ids": search_ids(nodes, query.text, query.limit)}

    @app.get("/api/neighbors")
    def neighbors(query: Annotated[NeighborParameters, Query()]) -> dict[str, Any]:
        return {"id": query.id, "neighbors": nearest_nodes(nodes, query.id, query.k)}

    @app.post("/api/export")
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

    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Every error is {"error": one sentence}; requests to another host name or from another page are rejected."""

    @app.middleware("http")
    async def check_origin(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        reason = _reason_to_reject(request)
        response = _error(421, reason) if reason else await respond(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(UnknownNode)
    def unknown_node(_: Request, error: UnknownNode) -> Response:
        return _error(404, str(error))

    @app.exception_handler(UserError)
    def user_error(_: Request, error: UserError) -> Response:
        return _error(422, str(error))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    def invalid_parameter(_: Request, error: Any) -> Response:
        return _error(422, _validation_sentence(error.errors()[0]))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:MAX_QUOTED]
        sentences = {404: f"Unknown path {path!r}.", 405: f"The method {request.method} is not allowed for {path!r}."}
        detail = str(error.detail)  # details of this module are sentences, those of the library are not
        return _error(error.status_code, detail if detail.endswith(".") else sentences.get(error.status_code, detail))


def _reason_to_reject(request: Request) -> str | None:
    """Guards against DNS rebinding (another host name that resolves to this machine) and cross-origin requests."""
    _, port = request.scope["server"]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())
    given = request.headers.getlist("host")
    if len(given) != 1 or given[0].lower() not in hosts:
        return f"The explorer accepts only requests to 127.0.0.1:{port} or localhost:{port}."
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        return "The explorer accepts only requests from its own page."
    return None


async def _read_body(request: Request, max_bytes: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise HTTPException(413, f"The request is larger than the allowed {max_bytes:,} bytes.")
        parts.append(part)
    return b"".join(parts)


def _validation_sentence(error: dict[str, Any]) -> str:
    location = [str(part) for part in error["loc"] if part not in ("query", "body")]
    name = ".".join(location)[:MAX_QUOTED] or "request"
    if error["type"] == "extra_forbidden":
        return f"Unknown parameter {name!r}."
    if error["type"] == "missing":
        return f"The parameter {name!r} is missing."
    if error["type"] == "json_invalid":
        return "The request is not valid JSON."
    given = repr(error.get("input"))[:MAX_QUOTED]
    reason = error["msg"].removesuffix(".").removeprefix("Input ").removeprefix("String ").removeprefix("List ")
    return f"The parameter {name!r} cannot be {given}: it {reason[:1].lower()}{reason[1:]}."


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
