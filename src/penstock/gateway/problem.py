"""Errors over HTTP: the status of each, and the body of an answer, application/problem+json (RFC 9457).

An error that the caller can mend is 4xx; one that passes with time is 503, with `Retry-After`; one that a
caller of this door cannot have caused is 500.
"""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from penstock import errors as e
from penstock.errors import Error, Fault, RateLimited
from penstock.errors.base import ErrorTable
from penstock.redaction import traced

logger = logging.getLogger("penstock.gateway")

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


class ErrorAnswer(NamedTuple):
    """The answer of REST and gRPC to an error: its HTTP status, its code, and after how long a retry may succeed."""

    status: int
    code: str
    words: str | None
    retry_seconds: float | None


def answer_to(error: Exception) -> ErrorAnswer:
    """Return the answer to an error. Details that the caller could do nothing about go to the log instead."""
    if not isinstance(error, Error):
        logger.error("a request failed in a way that it should not", exc_info=traced(error))
        return ErrorAnswer(500, "error", None, None)
    status = status_of(error)
    if error.retryable or status == 503:
        return ErrorAnswer(status, error.code, str(error), error.seconds if isinstance(error, RateLimited) else 1.0)
    if status == 500 and error.fault is not Fault.OUTSIDE:
        logger.error("a request failed", exc_info=traced(error))
        return ErrorAnswer(status, error.code, None, None)
    return ErrorAnswer(status, error.code, str(error), None)


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


def _by_fault(cls: type[Error]) -> int:
    return 503 if cls.retryable or cls.fault is Fault.OUTSIDE else 500


STATUSES = ErrorTable(
    _by_fault,
    {
        400: (e.InvalidInput, e.EventTypeError, e.InvalidGrowth, e.RequestError, e.InvalidSchedule, e.InvalidRule),
        401: (e.Unauthenticated,),
        403: (e.NotAllowed, e.ForeignPage),
        404: (
            *(e.UnknownTopic, e.UnknownPartition, e.TopicVanished, e.UnknownScheduled, e.UnknownEvent),
            *(e.UnknownValueSchema, e.UnknownProducer, e.UnknownGroup, e.UnknownLease, e.UnknownDeadLetter),
            *(e.UnknownSchedule, e.UnknownRule),
        ),
        408: (e.BodyLate,),
        409: (
            *(e.NoOutbox, e.StoreUnsupported, e.PartitionsDiffer, e.PartitionerDiffers, e.ProducerFenced),
            *(e.OutOfSequence, e.StillNeeded, e.TopicBusy, e.InvalidTransaction, e.GroupKindDiffers),
            *(e.GroupBusy, e.SchedulePaused, e.ScheduleInUse, e.LeftOpen),
        ),
        413: (e.ValueTooLarge, e.FrameTooLarge, e.BodyTooLarge, e.BatchTooLarge),
        415: (e.UnsupportedBody, e.NotConvertible),
        416: (e.OffsetOutOfRange,),
        421: (e.UnknownHost,),
        422: (e.TokenReused,),  # as the Idempotency-Key draft demands for a key with another body
        429: (e.RateLimited,),
        500: (e.SequenceCached, e.WrongEncoding, e.BellUnheard, e.Damaged, e.HandlerTimeout, e.PipelineError),
        503: (e.SchemaError, e.StoreReplaced),
    },
)


def status_of(error: Error) -> int:
    """Return the HTTP status of an error."""
    return STATUSES.of(type(error))
