"""A record as the log holds it, and its conversion from and to the `Record` of users.

In the log, keys and headers are bytes, so that a broker, a move or a copy never decodes them. A key that is
not UTF-8 becomes text with escaped surrogates, and converts back to the same bytes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.errors import Undecodable
from penstock.model.limits import NAME_CHARACTERS
from penstock.model.record import RawHeaders, Record
from penstock.wire.kafka.headers import decode_headers, encode_headers

ENTRY_BYTES = 64  # rough overhead of a record beside its content


class Content(NamedTuple):
    """The content of a record. `headers` in Kafka's framing; `type` is None if the record has none."""

    id: str
    key: bytes | None
    type: str | None
    value: bytes | None
    headers: bytes | None
    timestamp_ms: int
    owner: str | None = None

    @property
    def size(self) -> int:
        """Its size in bytes, as memory limits and retention count it."""
        return len(self.key or b"") + len(self.value or b"") + len(self.headers or b"") + ENTRY_BYTES


class Entry(NamedTuple):
    """A content with its position. `owner` is filled only where a call promises it."""

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
        """Its size in bytes, that of its content."""
        return len(self.key or b"") + len(self.value or b"") + len(self.headers or b"") + ENTRY_BYTES

    @property
    def content(self) -> Content:
        """Its content."""
        return Content(*self[2:])


def is_cut(entries: Iterable[Entry], max_bytes: int) -> bool:
    """Return whether a read with this byte limit may have stopped before the end of its range."""
    size = 0
    for _, _, _, key, _, value, headers, _, _ in entries:
        size += ENTRY_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += len(headers)
    return size >= max_bytes


def content_of(record: Record) -> Content:
    """Return the content of a record, as bytes. Raises InvalidHeaders."""
    headers = encode_headers(record.raw_headers) if record.raw_headers else None
    return Content(record.id, key_bytes(record.key), record.type, record.data, headers, record.timestamp_ms)


def record_of(topic: str, entry: Entry, fence: int | None = None) -> Record:
    """Return an entry as a Record. Raises Undecodable when the headers cannot be decoded."""
    record, error = readable(topic, entry, fence)
    if error is not None:
        raise error
    return record


def readable(topic: str, entry: Entry, fence: int | None = None) -> tuple[Record, Undecodable | None]:
    """Return an entry as a Record; if its headers cannot be decoded, without them and with the error."""
    partition, offset, id, key, type, value, headers, timestamp_ms, _ = entry
    error: Undecodable | None = None
    pairs: RawHeaders = ()
    if headers:
        try:
            pairs = decode_headers(headers)
        except Undecodable as exc:
            error = Undecodable(f"the headers of {topic}/{partition}/{offset}", str(exc))
            error.__cause__ = exc
    record = Record(id, key_text(key), value, type, pairs, timestamp_ms, topic, partition, offset, fence=fence)
    return record, error


def key_bytes(key: str | None) -> bytes | None:
    """Return a key's bytes; a key that was not UTF-8 gets its original bytes back."""
    return None if key is None else key.encode("utf-8", "surrogateescape")


def key_text(key: bytes | None) -> str | None:
    """Undo `key_bytes`."""
    return None if key is None else key.decode("utf-8", "surrogateescape")


def event_names(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str | None]:
    """Return the CloudEvent id and type in the headers of a record in Kafka's binary form."""
    id = type = None
    for name, value in headers:
        if name == "ce_id":
            id = _name(value)
        elif name == "ce_type":
            type = _name(value)
    return id, type


def _name(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if 0 < len(text) <= NAME_CHARACTERS and text.isprintable() else None
