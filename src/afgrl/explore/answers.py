"""How the explorer answers: security headers on every answer, one sentence for every error, large answers in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from afgrl.errors import UserError
from afgrl.explore.access import PAGE, Scope, cookie_header, reason_to_reject
from afgrl.explore.nodes import UnknownNode
from afgrl.explore.parameters import MAX_QUOTED

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Plotly creates an empty style element and fills it by a script, which needs no permission: this is the hash of "".
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
HEADERS = {
    # Scripts and styles come from this server only, without eval. Plotly draws images from blobs.
    "Content-Security-Policy": f"default-src 'none'; script-src 'self'; style-src 'self' {EMPTY_STYLE}; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ENCODED_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
EXPORT = "/api/export"
MAX_EXPORTS = 2  # at a time: each holds the requested rows, and the file until its reader has taken it
PART = 2**16  # bytes; the server waits between two parts until the client has read, so a slow reader costs two parts


def guarded(app: Application, token: str | None) -> Application:
    """The application without requests that it must not answer."""
    exports = asyncio.Semaphore(MAX_EXPORTS)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the start and the end of the server
            return await app(scope, receive, send)
        reason = reason_to_reject(scope, token)
        cookie = cookie_header(scope, token) if token and not reason and scope["path"] == PAGE else None
        send_parts = _sender(send, cookie)
        if reason:
            await error_response(*reason)(scope, receive, send_parts)
        elif scope["path"] != EXPORT:
            await app(scope, receive, send_parts)
        elif exports.locked():
            sentence = f"The explorer writes {MAX_EXPORTS} exports at a time; try again when one has finished."
            await error_response(503, sentence)(scope, receive, send_parts)
        else:
            async with exports:
                await app(scope, receive, send_parts)
        return None

    return answer


def _sender(send: Send, cookie: str | None) -> Send:
    async def send_parts(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *ENCODED_HEADERS]
            if cookie:
                message["headers"].append((b"set-cookie", cookie.encode()))
        elif len(message.get("body", b"")) > PART:
            body, more = memoryview(message["body"]), message.get("more_body", False)
            for start in range(0, len(body), PART):
                is_last = start + PART >= len(body)
                part = bytes(body[start : start + PART])
                await send({"type": message["type"], "body": part, "more_body": more or not is_last})
            return
        await send(message)

    return send_parts


def error_response(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)


def add_error_handlers(app: FastAPI) -> None:
    """Every error is {"error": one sentence}."""

    @app.exception_handler(UnknownNode)
    async def unknown_node(_: Request, error: UnknownNode) -> Response:
        return error_response(404, str(error))

    @app.exception_handler(UserError)
    async def user_error(_: Request, error: UserError) -> Response:
        return error_response(422, str(error))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid_parameter(_: Request, error: Any) -> Response:
        return error_response(422, _validation_sentence(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:MAX_QUOTED]
        sentences = {404: f"Unknown path {path!r}.", 405: f"The method {request.method} is not allowed for {path!r}."}
        detail = str(error.detail)  # details of this package are sentences, those of the library are not
        sentence = detail if detail.endswith(".") else sentences.get(error.status_code, detail)
        return error_response(error.status_code, sentence)


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
