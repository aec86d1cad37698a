"""Produce and Fetch by hand: the two messages with records, decoded and encoded without copying them.

A test over every version keeps them equal to the layouts of `apis/records.py`. A request may name thousands
of partitions, so all of it is done in steps, as in `stepwise.py`.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.errors import InvalidRequest

from . import Buffer
from .apis.records import FETCH, PRODUCE
from .headers import put_varint
from .layout import MOST_TEXT, FieldReader
from .stepwise import CodecSteps

_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_PRODUCE_HEAD = struct.Struct(">hi")
_ONE_TOPIC = struct.Struct(">hhiih")  # no transaction, acks, timeout, topic count, bytes of its name
_ONE_PART = struct.Struct(">iii")  # partition count, partition, bytes of its records
_ANSWERED = struct.Struct(">ihqqq")  # partition, error, base offset, append time, start
_FETCH_HEAD = struct.Struct(">iiiib")  # replica id, longest wait, minimum bytes, maximum bytes, isolation
_SESSION = struct.Struct(">ii")
# One wanted partition, by the first version with this layout; a Fetch may name thousands of them.
_WANTED = (
    (12, struct.Struct(">iiqiqi")),  # partition, leader epoch, offset, last epoch, a follower's start, maximum bytes
    (9, struct.Struct(">iiqqi")),
    (5, struct.Struct(">iqqi")),
    (0, struct.Struct(">iqi")),
)
_FETCHED = struct.Struct(">ihqqq")  # partition, error, high watermark, last stable offset, start
_LAST_PLAIN = 11  # the last version of Fetch before the flexible ones, which most clients use
_FETCHED_PLAIN = struct.Struct(">ihqqqiii")  # then the count of aborted, no preferred replica, bytes of records
_TAGS_ALONE = b"\0"
_MOST_PARTS = 20_000  # topics and partitions of one request
_STEP_PARTS = 16  # of them in one step


class ProducedPart(NamedTuple):
    """The records of a Produce request for one partition."""

    topic: str
    partition: int
    records: memoryview | None


class Produced(NamedTuple):
    """A Produce request."""

    transactional_id: str | None
    acks: int
    parts: list[ProducedPart]


class AnsweredPart(NamedTuple):
    """The result of a Produce request for one partition."""

    partition: int
    error: int = 0
    base_offset: int = -1
    append_ms: int = -1
    start: int = -1
    message: str | None = None


class WantedPart(NamedTuple):
    """One partition of a Fetch request."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int


class Wanted(NamedTuple):
    """A Fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool
    session_id: int
    session_epoch: int
    parts: list[WantedPart]


class FetchedPart(NamedTuple):
    """One partition of a Fetch answer; `aborted`: producer ids and first offsets."""

    topic: str
    partition: int
    error: int = 0
    end: int = -1
    stable: int = -1
    start: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    pieces: Sequence[Buffer] = ()

    @property
    def size(self) -> int:
        """The number of bytes of records."""
        return sum(map(len, self.pieces)) if self.pieces else 0


class _Fields:
    """Reads fields one after another, in plain or flexible encoding."""

    __slots__ = ("flexible", "reader")

    def __init__(self, data: Buffer, at: int, flexible: bool) -> None:
        self.reader, self.flexible = FieldReader(data, at), flexible

    def int16(self) -> int:
        return int(_I16.unpack(self.reader.take(2))[0])

    def int32(self) -> int:
        return int(_I32.unpack(self.reader.take(4))[0])

    def text(self, *, null: bool = False) -> str | None:
        length = self.reader.varint() - 1 if self.flexible else self.int16()
        if length < 0:
            if null and length == -1:
                return None
            raise InvalidRequest(f"a name has a length of {length}")
        if length > MOST_TEXT:
            raise InvalidRequest(f"a name has {length} bytes, more than {MOST_TEXT}")
        try:
            return str(self.reader.take(length), "utf-8")
        except UnicodeDecodeError as exc:
            raise InvalidRequest(f"a name is not UTF-8: {exc.reason}") from None

    def records(self) -> memoryview | None:
        length = self.reader.varint() - 1 if self.flexible else self.int32()
        return None if length == -1 else self.reader.take(length)

    def count(self) -> int:
        number = self.reader.varint() - 1 if self.flexible else self.int32()
        if number < 0:
            raise InvalidRequest(f"an array has a length of {number}")
        found = self.reader.count(number)
        if self.reader.elements > _MOST_PARTS:
            raise InvalidRequest(f"it has {self.reader.elements} topics and partitions, more than {_MOST_PARTS}")
        return found

    def tags(self) -> None:
        if self.flexible:
            self.reader.skip_tags()


def decode_produce(data: Buffer, version: int, at: int = 0) -> CodecSteps[Produced]:
    """Return a Produce request; records are views of the bytes. Raises InvalidRequest."""
    flexible = PRODUCE.is_flexible(version)
    found = None if flexible or version < 3 else _one_part(memoryview(data), at)
    if found is not None:
        return found
    fields = _Fields(data, at, flexible)
    transactional_id = fields.text(null=True) if version >= 3 else None
    acks, _ = _PRODUCE_HEAD.unpack(fields.reader.take(_PRODUCE_HEAD.size))
    parts = []
    for _ in range(fields.count()):
        topic = fields.text() or ""
        for number in range(fields.count()):
            if number % _STEP_PARTS == 0:
                yield
            parts.append(ProducedPart(topic, fields.int32(), fields.records()))
            fields.tags()
        fields.tags()
        yield
    fields.tags()
    return Produced(transactional_id, acks, parts)


def _one_part(data: memoryview, at: int) -> Produced | None:
    try:
        name, acks, _, topics, length = _ONE_TOPIC.unpack_from(data, at)
        if name != -1 or topics != 1 or length < 0:
            return None
        at += _ONE_TOPIC.size
        topic = str(data[at : at + length], "utf-8")
        at += length
        parts, partition, size = _ONE_PART.unpack_from(data, at)
    except (struct.error, UnicodeDecodeError):
        return None
    at += _ONE_PART.size
    if parts != 1 or size < 0 or at + size != len(data):
        return None
    return Produced(None, acks, [ProducedPart(topic, partition, data[at:])])


def encode_produced(
    topics: Iterable[tuple[str, Sequence[AnsweredPart]]], version: int, throttle_ms: int = 0
) -> CodecSteps[bytes]:
    """Return the answer to a Produce request."""
    flexible, out, some = PRODUCE.is_flexible(version), bytearray(), list(topics)
    tags = _TAGS_ALONE if flexible else b""
    _put_count(out, len(some), flexible)
    for topic, parts in some:
        _put_text(out, topic, flexible)
        _put_count(out, len(parts), flexible)
        for number, (partition, error, base_offset, append_ms, start, message) in enumerate(parts):
            if number % _STEP_PARTS == 0:
                yield
            row = _ANSWERED.pack(partition, error, base_offset, append_ms, start)
            out += row if version >= 5 else row[: -8 if version >= 2 else -16]
            if version >= 8:
                _put_count(out, 0, flexible)
                _put_text(out, message, flexible)
            out += tags
        out += tags
    if version >= 1:
        out += _I32.pack(throttle_ms)
    out += tags
    return bytes(out)


def decode_fetch(data: Buffer, version: int, at: int = 0) -> CodecSteps[Wanted]:
    """Return a Fetch request. Raises InvalidRequest."""
    fields = _Fields(data, at, FETCH.is_flexible(version))
    take = fields.reader.take
    _, max_wait_ms, min_bytes, max_bytes, isolation = _FETCH_HEAD.unpack(take(_FETCH_HEAD.size))
    session_id, session_epoch = _SESSION.unpack(take(_SESSION.size)) if version >= 7 else (0, -1)
    layout = next(each for first, each in _WANTED if version >= first)
    parts = []
    for _ in range(fields.count()):
        topic = fields.text() or ""
        for number in range(fields.count()):
            if number % _STEP_PARTS == 0:
                yield
            found = layout.unpack(take(layout.size))
            leader_epoch, offset = (found[1], found[2]) if version >= 9 else (-1, found[1])
            parts.append(WantedPart(topic, found[0], leader_epoch, offset, found[-1]))
            fields.tags()
        fields.tags()
        yield
    if version >= 7:
        yield from _skip_forgotten(fields)
    if version >= 11:
        fields.text()  # the rack
    fields.tags()
    return Wanted(max_wait_ms, min_bytes, max_bytes, bool(isolation), session_id, session_epoch, parts)


def _skip_forgotten(fields: _Fields) -> CodecSteps[None]:
    for _ in range(fields.count()):
        fields.text()
        for number in range(fields.count()):
            if number % _STEP_PARTS == 0:
                yield
            fields.int32()
        fields.tags()
        yield


def encode_fetched(
    topics: Iterable[tuple[str, Sequence[FetchedPart]]], version: int, *, throttle_ms: int = 0, error: int = 0
) -> CodecSteps[list[Buffer]]:
    """Return the answer to a Fetch request as pieces to send in order; records are not copied."""
    flexible, some = FETCH.is_flexible(version), list(topics)
    tags = _TAGS_ALONE if flexible else b""
    pieces: list[Buffer] = []
    out = bytearray(_I32.pack(throttle_ms))
    if version >= 7:
        out += _I16.pack(error) + _I32.pack(0)  # no session
    _put_count(out, len(some), flexible)
    for topic, parts in some:
        _put_text(out, topic, flexible)
        _put_count(out, len(parts), flexible)
        for number, part in enumerate(parts):
            if number % _STEP_PARTS == 0:
                yield
            _put_part(out, part, version, flexible)
            if part.pieces:
                pieces.append(out)
                pieces += part.pieces
                out = bytearray()
            out += tags
        out += tags
    out += tags
    pieces.append(out)
    return pieces


def _put_part(out: bytearray, part: FetchedPart, version: int, flexible: bool) -> None:
    if version == _LAST_PLAIN and not part.aborted:  # the common case, for thousands of partitions
        aborted = -1 if part.aborted is None else 0
        bounds = part.end, part.stable, part.start
        out += _FETCHED_PLAIN.pack(part.partition, part.error, *bounds, aborted, -1, part.size)
        return
    if version >= 5:
        out += _FETCHED.pack(part.partition, part.error, part.end, part.stable, part.start)
    else:
        out += _FETCHED.pack(part.partition, part.error, part.end, part.stable, 0)[: -_I64.size]
    _put_count(out, -1 if part.aborted is None else len(part.aborted), flexible)
    for producer_id, first_offset in part.aborted or ():
        out += _I64.pack(producer_id) + _I64.pack(first_offset) + (_TAGS_ALONE if flexible else b"")
    if version >= 11:
        out += _I32.pack(-1)  # no replica is preferred
    _put_count(out, part.size, flexible)


def _put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        put_varint(out, count + 1)
    else:
        out += _I32.pack(count)


def _put_text(out: bytearray, text: str | None, flexible: bool) -> None:
    data = b"" if text is None else text.encode()
    length = -1 if text is None else len(data)
    if flexible:
        put_varint(out, length + 1)
    else:
        out += _I16.pack(length)
    out += data
