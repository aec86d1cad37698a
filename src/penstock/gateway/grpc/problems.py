"""Errors as a status: its message names the thing, the value and the remedy; its details are for programs.

| detail      | holds                                                                                       |
|-------------|---------------------------------------------------------------------------------------------|
| `ErrorInfo` | `reason`: the stable code; `domain`: penstock; `metadata`: whether it is retryable          |
| `RetryInfo` | the delay after which the same request may succeed, if it may                               |
"""

import logging
from datetime import timedelta
from typing import NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from penstock.errors import Error, Fault, RateLimited
from penstock.redaction import traced

from ..problem import status_of

logger = logging.getLogger("penstock.gateway")

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
_RETRY_SECONDS = 1.0
_MOST_CHARACTERS = 2000  # they travel in a header


def code_of(error: Error) -> grpc.StatusCode:
    """Return the gRPC status of an error: by its HTTP status, so that both doors agree."""
    return CODES[status_of(error)]


class GrpcProblem(NamedTuple):
    """An error, as a client receives it."""

    code: grpc.StatusCode
    message: str
    details: bytes

    @property
    def trailing(self) -> tuple[tuple[str, bytes], ...]:
        """The metadata that ends a call."""
        return ((DETAILS, self.details),)


def problem_of(error: Error) -> GrpcProblem:
    """Return the problem for one of Penstock's errors."""
    code = code_of(error)
    retryable = error.retryable or code is grpc.StatusCode.UNAVAILABLE
    message = str(error)
    if code is grpc.StatusCode.INTERNAL and error.fault is not Fault.OUTSIDE and not retryable:
        logger.error("a request failed", exc_info=traced(error))
        message = "an error of the server; its log says more"  # the caller could do nothing about the details
    seconds = error.seconds if isinstance(error, RateLimited) else _RETRY_SECONDS
    return _problem(code, error.code, message, seconds if retryable else None)


def defect(exc: Exception) -> GrpcProblem:
    """Return the problem for an unexpected error: details go to the log, not to the caller."""
    logger.error("a request failed in a way that it should not", exc_info=traced(exc))
    return _problem(grpc.StatusCode.INTERNAL, "error", "an error of the server; its log says more", None)


def plain(text: str) -> str:
    """Return a text as Unicode that can be sent: keys and names with foreign bytes are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_CHARACTERS]


def _problem(code: grpc.StatusCode, reason: str, message: str, retry_seconds: float | None) -> GrpcProblem:
    message = plain(message)
    metadata = {"retryable": "false" if retry_seconds is None else "true"}
    details: list[Message] = [ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)]
    if retry_seconds is not None:
        info = RetryInfo()
        info.retry_delay.FromTimedelta(timedelta(seconds=retry_seconds))
        details.append(info)
    status = Status(code=code.value[0], message=message)
    for each in details:
        packed = AnyMessage()
        packed.Pack(each)
        status.details.append(packed)
    return GrpcProblem(code, message, status.SerializeToString())
