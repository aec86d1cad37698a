"""Errors as `application/problem+json` (RFC 9457): the code is ours, the status comes from one table."""

import re
from math import ceil
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.errors import Error, Unauthenticated

from .. import problem

SAFE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_SLASHED = re.compile(rb"/v1/[!-\[\]-~]+/")  # no path that a browser reads as another host


def problem_of(error: Exception) -> Response:
    """Return the answer for an error."""
    answer = problem.answer_to(error)
    headers = {}
    if answer.retry_seconds is not None:
        headers["retry-after"] = str(ceil(answer.retry_seconds))
    if isinstance(error, Error) and error.closes:
        headers["connection"] = "close"
    if isinstance(error, Unauthenticated):
        headers["www-authenticate"] = "Bearer, Basic"
    return _answer(answer.status, answer.code, answer.words, headers, retryable=answer.retry_seconds is not None)


async def on_http(request: Request, exc: Exception) -> Response:
    """Answer a request that the router refuses: an unknown path or method.

    A path with a superfluous trailing slash is redirected, by a relative address.
    """
    assert isinstance(exc, HTTPException)
    sent: bytes = request.scope.get("raw_path") or b""
    if exc.status_code == 404 and _SLASHED.fullmatch(sent):
        query = request.url.query
        return RedirectResponse(sent.rstrip(b"/").decode("latin-1") + (f"?{query}" if query else ""))
    return _answer(exc.status_code, "no_such_operation", exc.detail, dict(exc.headers or {}))


def _answer(
    status: int, code: str, detail: str | None, headers: dict[str, str], *, retryable: bool = False
) -> Response:
    body = problem.problem_of(status, code, detail, retryable=retryable)
    return Response(encoded(body), status, headers=SAFE | headers, media_type=problem.PROBLEM)


def encoded(value: Any) -> bytes:
    """Return a value as JSON; text that is not Unicode, as a key of foreign bytes, is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_plain(msgspec.to_builtins(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
