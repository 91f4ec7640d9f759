"""Who may ask the explorer: requests to its own address, from its own page, with its token."""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]  # a request, as ASGI describes it
PAGE = "/"
MAX_TOKEN = 200  # characters of a token that is compared


def new_token() -> str:
    return secrets.token_urlsafe(24)  # 192 random bits, as Jupyter's


def reason_to_reject(scope: Scope, token: str | None) -> tuple[int, str] | None:
    """Status and sentence for a request that gets no answer; ``None`` if it may be answered.

    The host name guards against DNS rebinding (another name that resolves to this machine), the origin against requests
    that another page sends, the token against other users and programs of this machine.
    """
    _, port = scope["server"]
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())
    given = _header(scope, b"host")
    if len(given) != 1 or given[0].lower() not in hosts:
        return 421, f"The explorer accepts only requests to 127.0.0.1:{port} or localhost:{port}."
    if any(origin.lower() not in {f"http://{host}" for host in hosts} for origin in _header(scope, b"origin")):
        return 421, "The explorer accepts only requests from its own page."
    if token is not None and not _has_token(scope, token):
        return 401, "The token is missing or wrong; open the address that `afgrl explore` printed."
    return None


def cookie_header(scope: Scope, token: str) -> str:
    """For the page's own requests: scripts cannot read the cookie, and other sites cannot make a browser send it."""
    return f"{_cookie_name(scope)}={token}; Path=/; HttpOnly; SameSite=Strict"


def _has_token(scope: Scope, token: str) -> bool:
    given = [value[len("bearer ") :] for value in _header(scope, b"authorization") if value[:7].lower() == "bearer "]
    cookies = [part.strip().partition("=") for header in _header(scope, b"cookie") for part in header.split(";")]
    given += [value for name, _, value in cookies if name == _cookie_name(scope)]
    if scope["path"] == PAGE:  # only the page: addresses of data with a token would end up in scripts and histories
        given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
    # A comparison that stops at the first difference would tell by its duration how much of a guess is right.
    return any(secrets.compare_digest(value[:MAX_TOKEN].encode(), token.encode()) for value in given)


def _cookie_name(scope: Scope) -> str:
    """A name per port, since browsers share the cookies of a host among all its ports."""
    return f"afgrl-token-{scope['server'][1]}"


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
