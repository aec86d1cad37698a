"""A record as the log holds it, and the way to and from the record that people see.

In the log keys and headers are bytes, so that what only passes through (a broker, a move, a copy) is never
decoded. A key that is not UTF-8 becomes text with escaped surrogates, and the same bytes again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.errors import Undecodable
from penstock.model.record import RawHeaders, Record
from penstock.wire.kafka.headers import decode_headers, encode_headers

ENTRY_BYTES = 64  # what a record takes beside its content, roughly


class Content(NamedTuple):
    """What a record says. `headers` in Kafka's framing; `type` is None where nobody gave one."""

    id: str
    key: bytes | None
    type: str | None
    value: bytes | None
    headers: bytes | None
    timestamp_ms: int
    owner: str | None = None

    @property
    def size(self) -> int:
        """Its bytes, as memory and retention count them."""
        return len(self.key or b"") + len(self.value or b"") + len(self.headers or b"") + ENTRY_BYTES


class Entry(NamedTuple):
    """A record in its place. `owner` is known only where a call says so."""

    partition: int
    offset: int
    id: str
    key: bytes | None
    type: str | None
    value: bytes | None
    headers: bytes | None
    timestamp_ms: int
    owner: str | None = None

    @property
    def size(self) -> int:
        """Its bytes, as those of its content."""
        return len(self.key or b"") + len(self.value or b"") + len(self.headers or b"") + ENTRY_BYTES

    @property
    def content(self) -> Content:
        """What it says."""
        return Content(*self[2:])


def entry_of(position: tuple[int, int], content: Content) -> Entry:
    """Return a content in its place."""
    return Entry._make((*position, *content))


def is_cut(entries: Iterable[Entry], max_bytes: int) -> bool:
    """Return whether a read up to that many bytes may have left some out after its last record."""
    size = 0
    for _, _, _, key, _, value, headers, _, _ in entries:
        size += ENTRY_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += len(headers)
    return size >= max_bytes


def content_of(record: Record) -> Content:
    """Return what a record says, as bytes. Raises InvalidHeaders."""
    headers = encode_headers(record.raw_headers) if record.raw_headers else None
    return Content(record.id, key_bytes(record.key), record.type, record.data, headers, record.timestamp_ms)


def record_of(topic: str, entry: Entry, fence: int | None = None) -> Record:
    """Return an entry as people see it. Raises Undecodable when the headers cannot be read."""
    record, error = readable(topic, entry, fence)
    if error is not None:
        raise error
    return record


def readable(topic: str, entry: Entry, fence: int | None = None) -> tuple[Record, Undecodable | None]:
    """Return an entry as people see it; where its headers cannot be read, without them and with the error."""
    partition, offset, id, key, type, value, headers, timestamp_ms, _ = entry
    error: Undecodable | None = None
    pairs: RawHeaders = ()
    if headers:
        try:
            pairs = decode_headers(headers)
        except Undecodable as exc:
            error = Undecodable(f"the headers of {topic}/{partition}/{offset}", str(exc))
            error.__cause__ = exc
    text = None if key is None else key.decode("utf-8", "surrogateescape")
    record = Record(id, text, value, type, pairs, timestamp_ms, topic, partition, offset, fence=fence)
    return record, error


def key_bytes(key: str | None) -> bytes | None:
    """Return a key's bytes; one that was no UTF-8 when it came in goes out as it came."""
    return None if key is None else key.encode("utf-8", "surrogateescape")


def key_text(key: bytes | None) -> str | None:
    """Undo `key_bytes`."""
    return None if key is None else key.decode("utf-8", "surrogateescape")
