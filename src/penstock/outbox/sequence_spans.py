"""The spans of a pass: each moved event has one in its own trace, from the pick to the commit.

Only while tracing is on: then the headers of the picked rows are read too, and a pass goes step by step.
"""

from collections.abc import Sequence
from typing import Any

from penstock import tracing
from penstock.database.database import Transaction
from penstock.errors import Undecodable
from penstock.model.context import context_of
from penstock.model.record import TRACEPARENT
from penstock.wire.kafka.headers import decode_headers

from .move import Pick


class SequenceSpans:
    """The open spans. One thread at a time."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def begin(self, tx: Transaction, picks: Sequence[Pick]) -> None:
        """Open a span for each event of the picks that was published in a trace."""
        self.end()  # of a move that is retried
        for pick in picks:
            if pick.rows:
                for id, topic, headers in tx.rows("outbox", f"traces_{pick.table}", **pick.ids):
                    self._begin(id, topic, headers)

    def end(self, error: BaseException | None = None) -> None:
        """Close all spans."""
        for each in self._open:
            if error is not None:
                tracing.failed(each, error)
            each.end()
        self._open = []

    def _begin(self, id: str, topic: str, headers: bytes) -> None:
        try:
            parent = context_of(decode_headers(headers))
        except Undecodable:  # not published here
            return
        if TRACEPARENT in parent:
            self._open.append(tracing.begun_span("penstock.sequence", parent, id=id, topic=topic))
