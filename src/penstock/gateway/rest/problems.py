"""Errors as `application/problem+json` (RFC 9457): the code is ours, the status comes from one table."""

import logging
import re
from math import ceil
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from penstock.errors import Error, Fault, RateLimited, Unauthenticated
from penstock.redaction import traced

from ..problem import PROBLEM, status_of
from ..problem import problem_of as told_of

logger = logging.getLogger("penstock.gateway")

_RETRY_SECONDS = "1"
_SLASHED = re.compile(rb"/v1/[!-\[\]-~]+/")  # no path that a browser reads as another host


def problem_of(error: Error) -> Response:
    """Return the answer for one of Penstock's errors."""
    status = status_of(error)
    retryable = error.retryable or status == 503
    said: str | None = str(error)
    if status >= 500 and error.fault is not Fault.OUTSIDE and not retryable:
        logger.error("a request failed", exc_info=traced(error))
        said = None  # the caller could do nothing about the details
    answer = _answer(status, error.code, said, retryable=retryable, closes=error.closes)
    if isinstance(error, Unauthenticated):
        answer.headers["www-authenticate"] = "Bearer, Basic"
    if isinstance(error, RateLimited):
        answer.headers["retry-after"] = str(ceil(error.seconds))
    return answer


async def on_http(request: Request, exc: Exception) -> Response:
    """Answer a request that the router refuses: an unknown path or method.

    A path with a superfluous trailing slash is redirected, by a relative address.
    """
    assert isinstance(exc, HTTPException)
    sent: bytes = request.scope.get("raw_path") or b""
    if exc.status_code == 404 and _SLASHED.fullmatch(sent):
        query = request.url.query
        return RedirectResponse(sent.rstrip(b"/").decode("latin-1") + (f"?{query}" if query else ""))
    answer = _answer(exc.status_code, "no_such_operation", exc.detail)
    answer.headers.update(exc.headers or {})
    return answer


def defect(exc: Exception) -> Response:
    """Return the answer for an unexpected error: details go to the log, not to the caller."""
    logger.error("a request failed in a way that it should not", exc_info=traced(exc))
    return _answer(500, "error", None)


def _answer(status: int, code: str, detail: str | None, *, retryable: bool = False, closes: bool = False) -> Response:
    body = told_of(status, code, detail, retryable=retryable)
    headers: dict[str, Any] = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if retryable:
        headers["retry-after"] = _RETRY_SECONDS
    if closes:
        headers["connection"] = "close"
    return Response(encoded(body), status, headers=headers, media_type=PROBLEM)


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
