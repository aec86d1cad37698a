"""Errors over gRPC: how a call ends with one.

An error is a status: its message names the thing, the value and the remedy; its details are for programs.

| detail      | holds                                                                                       |
|-------------|---------------------------------------------------------------------------------------------|
| `ErrorInfo` | `reason`: the stable code; `domain`: penstock; `metadata`: whether it is retryable          |
| `RetryInfo` | the delay after which the same request may succeed, if it may                               |
"""

from datetime import timedelta
from typing import NamedTuple

import grpc
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from ..problem import answer_to

C = grpc.StatusCode

CODES: dict[int, grpc.StatusCode] = {
    400: C.INVALID_ARGUMENT,
    401: C.UNAUTHENTICATED,
    403: C.PERMISSION_DENIED,
    404: C.NOT_FOUND,
    408: C.DEADLINE_EXCEEDED,
    409: C.FAILED_PRECONDITION,
    413: C.INVALID_ARGUMENT,  # not RESOURCE_EXHAUSTED: it will never fit
    415: C.INVALID_ARGUMENT,
    416: C.OUT_OF_RANGE,
    421: C.PERMISSION_DENIED,
    422: C.FAILED_PRECONDITION,
    429: C.RESOURCE_EXHAUSTED,
    500: C.INTERNAL,
    503: C.UNAVAILABLE,
}
DETAILS = "grpc-status-details-bin"
DOMAIN = "penstock"
_MOST_CHARACTERS = 2000  # they travel in a header


class CallProblem(NamedTuple):
    """The end of a call with an error, as `context.abort` takes it: `metadata` holds the details."""

    code: grpc.StatusCode
    message: str
    metadata: tuple[tuple[str, bytes], ...]


def problem_of(error: Exception) -> CallProblem:
    """Return how a call ends with an error. The status goes by the HTTP status, so that both doors agree."""
    answer = answer_to(error)
    code = CODES[answer.status]
    message = plain("an error of the server; its log says more" if answer.words is None else answer.words)
    status = Status(code=code.value[0], message=message)
    metadata = {"retryable": "false" if answer.retry_seconds is None else "true"}
    status.details.add().Pack(ErrorInfo(reason=answer.code, domain=DOMAIN, metadata=metadata))
    if answer.retry_seconds is not None:
        info = RetryInfo()
        info.retry_delay.FromTimedelta(timedelta(seconds=answer.retry_seconds))
        status.details.add().Pack(info)
    return CallProblem(code, message, ((DETAILS, status.SerializeToString()),))


def plain(text: str) -> str:
    """Return a text as Unicode that can be sent: keys and names with foreign bytes are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_CHARACTERS]
