"""The body of an error answer: application/problem+json (RFC 9457)."""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.errors import Error

PROBLEM = "application/problem+json"


class Problem(msgspec.Struct, omit_defaults=True):
    """The problem. `code` is stable; `detail` is for people, and names the remedy."""

    type: str
    title: str
    status: int
    code: str
    detail: str | None = None
    retryable: bool = False


def problem_of(status: int, code: str, detail: str | None, *, retryable: bool = False) -> Problem:
    """Return the problem for an error."""
    return Problem(f"urn:penstock:{code}", code, status, code, detail, retryable)


def problem(status: int, error: Error) -> bytes:
    """Return the body of an error answer."""
    return msgspec.json.encode(problem_of(status, error.code, str(error), retryable=error.retryable))


async def send_problem(send: Any, status: int, error: Error, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send an error as a whole answer."""
    body = problem(status, error)
    head = [
        (b"content-type", PROBLEM.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
