"""The record: an event as it is published, logged and delivered to readers.

A value: frozen, compared by content, no I/O. It is a msgspec Struct because one is created for every event
(`bench/cases/record.py` compares its cost with that of a plain slotted class).
"""

import re
from datetime import datetime
from typing import Any

import msgspec

from penstock.clock import from_ms
from penstock.errors import NotTransactional

from .connections import Tx
from .content import CONTENT_TYPE, JSON, decode_value

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


def trace_ids(traceparent: str) -> tuple[str, str] | None:
    """Return the ids of the trace and of the span that a `traceparent` names; None if it is malformed."""
    found = _PARENT.fullmatch(traceparent)
    return None if found is None else (found["trace"], found["span"])


def display_name(type: str, partition: int | None, ms: int, id: str) -> str:
    """Return an event's name for people."""
    place = "-" if partition is None else f"{partition:04}"
    return f"event:{type}:{place}:{ms:013}:{id}"


RawHeaders = tuple[tuple[str, bytes | None], ...]
TOKEN = "penstock-token"  # noqa: S105  # the header that carries the token of a record  # nosec B105


class Record(msgspec.Struct, frozen=True, eq=False, repr_omit_defaults=True):
    """One event.

    `data` holds the stored bytes and `value` the decoded value; `raw_headers` keeps order, repeats and null values,
    `headers` is the plain dict of those from its publisher. `type` is None for a record that came by another way than
    `publish` and has none. `topic`, `partition` and `offset` are None until the record is in the log. `attempt` counts
    deliveries to a handler from 1; `redelivered` means that it may have been delivered before; `fence` is the epoch of
    the owner, for sinks that can compare it. `late`: the group skipped it before it had a handler for its type, so
    later records of its key came first. `handler_id` names the handler of this delivery.
    """

    id: str
    key: str | None
    data: bytes | None
    type: str | None
    raw_headers: RawHeaders
    timestamp_ms: int
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    attempt: int = 1
    redelivered: bool = False
    fence: int | None = None
    late: bool = False
    handler_id: str | None = None
    _tx: Any = None
    _value: Any = msgspec.UNSET

    @property
    def value(self) -> Any:
        """The decoded value, decoded once; None for a tombstone. Raises Undecodable."""
        if self._value is msgspec.UNSET:
            content_type = self.headers.get(CONTENT_TYPE) or JSON
            msgspec.structs.force_setattr(self, "_value", decode_value(self.data, content_type))
        return self._value

    @property
    def headers(self) -> dict[str, str | None]:
        """The headers as text, without the token; the last value of a repeated name wins."""
        return {
            name: None if value is None else value.decode("utf-8", "replace")
            for name, value in self.raw_headers
            if name != TOKEN
        }

    @property
    def token(self) -> str | bytes | None:
        """The token that it was published with, if any: text, or bytes if not UTF-8."""
        given = next((value for name, value in self.raw_headers if name == TOKEN), None)
        try:
            return None if given is None else given.decode()
        except UnicodeDecodeError:
            return given

    @property
    def trace_id(self) -> str | None:
        """The id of the trace in which it was published, from its header `traceparent`, if it has one."""
        ids = self._trace_ids()
        return None if ids is None else ids[0]

    @property
    def span_id(self) -> str | None:
        """The id of the span that published it, from its header `traceparent`, if it has one."""
        ids = self._trace_ids()
        return None if ids is None else ids[1]

    @property
    def failures(self) -> int:
        """The number of failures of its handler before this attempt."""
        return self.attempt - 1

    @property
    def is_retry(self) -> bool:
        """Whether its handler has failed on it before; a redelivery after a crash does not count."""
        return self.attempt > 1

    @property
    def tx(self) -> Tx:
        """The connection whose transaction commits with this record (`transaction=True`). Raises NotTransactional."""
        if self._tx is None:
            raise NotTransactional(self.type or "a record", self.id)
        tx: Tx = self._tx
        return tx

    @property
    def timestamp(self) -> datetime:
        """When it was published, as an aware datetime in UTC."""
        return from_ms(self.timestamp_ms)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._content() == other._content()

    def __repr__(self) -> str:
        return super(Record, msgspec.structs.replace(self, _tx=None, _value=msgspec.UNSET)).__repr__()

    def __hash__(self) -> int:
        return hash((self.id, self.topic, self.partition, self.offset))

    def _trace_ids(self) -> tuple[str, str] | None:
        return trace_ids(self.headers.get(TRACEPARENT) or "")

    def _content(self) -> tuple[Any, ...]:
        return msgspec.structs.astuple(self)[:-2]
