"""The layout of Kafka's messages as data, and the one walker that encodes and decodes them.

A message is a sequence of fields, each with a type, versions and a default. From some version on it is flexible:
lengths are varints, and tagged fields come at the end, in any order; unknown ones are skipped. Codec without I/O.

| type            | bytes                                                                    |
|-----------------|--------------------------------------------------------------------------|
| BOOL, INT…      | big-endian                                                               |
| STRING          | INT16 length (-1: null) and UTF-8; flexible: length + 1 as varint (0: null) |
| BYTES, RECORDS  | INT32 length (-1: null) and bytes; flexible: as a string                 |
| UUID            | 16 bytes                                                                 |
| ArrayOf         | INT32 count (-1: null) and elements; flexible: count + 1 as varint       |
| StructOf        | its fields                                                               |
| tags (flexible) | varint count, then for each its number, its length, its bytes            |

A decoded message is a dict with a value for every field of its layout: fields that its version lacks have
their default. RECORDS are views of the given bytes, not copies.
"""

import struct
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from penstock.errors import InvalidRequest

from . import Buffer
from .headers import put_varint

Message = dict[str, Any]
NO_UUID = UUID(int=0)
_LAST_VERSION = 1 << 15
MOST_TEXT = 0x7FFF  # bytes of a string, Kafka's limit in every version
_MOST_TAGS = 100  # of one struct: far more than any has, and few enough to be read at once
_MOST_ELEMENTS = 200_000  # of all arrays of a message: a small frame can announce very many


class Scalar(NamedTuple):
    """A type of fixed size, by its letter of `struct`."""

    letter: str
    default: Any


class Text(NamedTuple):
    """A string."""

    default: Any = ""


class Octets(NamedTuple):
    """Bytes. `view`: a view of the given bytes, else a copy."""

    view: bool = False
    default: Any = b""


class Uuid(NamedTuple):
    """A UUID."""

    default: Any = NO_UUID


class StructOf(NamedTuple):
    """Fields within a field."""

    fields: tuple["Field", ...]
    default: Any = None


class ArrayOf(NamedTuple):
    """An array of one type."""

    element: "FieldKind"
    default: Any = ()


FieldKind = Scalar | Text | Octets | Uuid | StructOf | ArrayOf
_INT16, _INT32 = Scalar("h", 0), Scalar("i", 0)
_KINDS: dict[str, FieldKind] = {
    **{"bool": Scalar("?", False), "int8": Scalar("b", 0), "int16": _INT16, "int32": _INT32, "int64": Scalar("q", 0)},
    **{"string": Text(), "bytes": Octets(), "records": Octets(view=True), "uuid": Uuid()},
}


@dataclass(frozen=True, eq=False)  # compared by identity, so that an Api is quick to hash
class Field:
    """One field: its versions, the first in which it may be null, its tag, its default."""

    name: str
    kind: FieldKind
    default: Any
    since: int = 0
    until: int = _LAST_VERSION
    null_since: int | None = None
    tag: int | None = None

    def is_in(self, version: int) -> bool:
        """Return whether a version has the field."""
        return self.since <= version <= self.until


class Api(NamedTuple):
    """A request and its answer."""

    key: int
    name: str
    versions: tuple[int, int]
    flexible_since: int | None
    request: tuple[Field, ...]
    answer: tuple[Field, ...]

    def has(self, version: int) -> bool:
        """Return whether a version is served."""
        return self.versions[0] <= version <= self.versions[1]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version is flexible."""
        return self.flexible_since is not None and version >= self.flexible_since

    def decode_request(self, data: Buffer, version: int, at: int = 0) -> Message:
        """Return the request in bytes from position `at` on. Raises InvalidRequest."""
        message: Message = _reading(self, True, version)(FieldReader(data, at))
        return message  # bytes may follow, as for Kafka: librdkafka sends more than Metadata 12 has

    def decode_answer(self, data: Buffer, version: int, at: int = 0) -> Message:
        """Return the answer in bytes from position `at` on. Raises InvalidRequest."""
        reader = FieldReader(data, at)
        message: Message = _reading(self, False, version)(reader)
        if reader.at != reader.end:
            raise InvalidRequest(f"{self.name} version {version} ends at byte {reader.at} of {reader.end}")
        return message

    def encode_request(self, message: Message, version: int) -> bytes:
        """Return a request as bytes; missing fields have their default."""
        return _encoded(self, True, message, version)

    def encode_answer(self, message: Message, version: int) -> bytes:
        """Return an answer as bytes; elements of an array may be encoded already, by `stepwise.encode_element`."""
        return _encoded(self, False, message, version)


def api(table: str) -> Api:
    """Return the API in a table: its key, name and versions; then the fields of request and answer.

    A row has fields, divided by commas. A field is `NAME TYPE` and, where they apply, `SINCE+` or `SINCE-UNTIL`
    (versions), `null` or `null:SINCE`, `tag:NUMBER`, `=DEFAULT`. `{}` is a struct, `[]` an array of structs, whose
    fields follow in its row behind a colon, or are indented below it; `[]int32` is an array of numbers.
    """
    head, _, *rows = [each for each in table.splitlines() if each.strip()]
    key, name, versions, *flexible = head.split()
    first, last = map(int, versions.split("-"))
    since = int(flexible[0].removeprefix("flexible:")) if flexible else None
    answer = [each.strip() for each in rows].index("answer")
    return Api(int(key), name, (first, last), since, _fields(rows[:answer]), _fields(rows[answer + 1 :]))


def _fields(rows: list[str]) -> tuple[Field, ...]:
    found: list[Field] = []
    while rows:
        row, rows = rows[0], rows[1:]
        depth = _depth(row)
        below = next((at for at, each in enumerate(rows) if _depth(each) <= depth), len(rows))
        fields, _, inline = row.partition(": ")
        inner = _fields([inline] if inline else rows[:below])
        found += [_field(each.split(), inner) for each in fields.split(",")]
        rows = rows[below:]
    return tuple(found)


def _depth(row: str) -> int:
    return len(row) - len(row.lstrip())


def _field(words: list[str], inner: tuple[Field, ...]) -> Field:
    name, kind, *more = words
    element = kind.removeprefix("[]")
    known = _KINDS[element] if element in _KINDS else StructOf(inner)
    if kind.startswith("[]"):
        known = ArrayOf(known)
    given: dict[str, Any] = {"default": known.default}
    for word in more:
        if word.startswith("="):
            given["default"] = literal_eval(word[1:])
        elif word.startswith("null"):
            given["null_since"] = int(word.removeprefix("null").removeprefix(":") or 0)
        elif word.startswith("tag:"):
            given["tag"] = int(word.removeprefix("tag:"))
        else:
            since, _, until = word.removesuffix("+").partition("-")
            given |= {"since": int(since)} | ({"until": int(until)} if until else {})
    return Field(name, known, **given)


class FieldReader:
    """A position in bytes, for reading values. Raises InvalidRequest if they end too early."""

    __slots__ = ("at", "data", "elements", "end")

    def __init__(self, data: Buffer, at: int = 0) -> None:
        self.data = memoryview(data)
        self.at, self.end, self.elements = at, len(self.data), 0

    def take(self, length: int) -> memoryview:
        """Return the next bytes."""
        begin, self.at = self.at, self.at + length
        if length < 0 or self.at > self.end:
            raise InvalidRequest(f"it announces {length} bytes at byte {begin} of {self.end}")
        return self.data[begin : self.at]

    def varint(self) -> int:
        """Return an unsigned varint of at most 32 bits."""
        number = shift = 0
        while True:
            if self.at >= self.end or shift > 28:
                raise InvalidRequest(f"a number has no end at byte {self.at} of {self.end}")
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def tags(self) -> range:
        """Return the places of tagged fields that follow."""
        number = self.varint()
        if number > _MOST_TAGS:
            raise InvalidRequest(f"{number} tagged fields are announced, more than {_MOST_TAGS}")
        return range(self.count(number))

    def skip_tags(self) -> None:
        """Skip tagged fields, all of them unknown here."""
        for _ in self.tags():
            self.varint()
            self.take(self.varint())

    def count(self, number: int) -> int:
        """Return a count of elements that follow, if the remaining bytes can hold that many."""
        self.elements += number
        if number > self.end - self.at or self.elements > _MOST_ELEMENTS:
            raise InvalidRequest(f"it announces {number} elements at byte {self.at} of {self.end}")
        return number


ReadField = Callable[[FieldReader], Any]
Put = Callable[[bytearray, Any], None]


def _encoded(api: Api, is_request: bool, message: Message, version: int) -> bytes:
    out = bytearray()
    _putting(api, is_request, version)(out, message)
    return bytes(out)


@lru_cache(maxsize=1024)
def _reading(api: Api, is_request: bool, version: int) -> ReadField:
    fields = api.request if is_request else api.answer
    return _read_struct(fields, version, api.is_flexible(version))


@lru_cache(maxsize=1024)
def _putting(api: Api, is_request: bool, version: int) -> Put:
    fields = api.request if is_request else api.answer
    return _put_struct(fields, version, api.is_flexible(version))


# -- decoding


def _read_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> ReadField:
    plain, tagged = split_fields(fields, version)
    steps = [(each.name, reader_of(each, version, flexible)) for each in plain]
    tags = {each.tag: (each.name, reader_of(each, version, flexible)) for each in tagged}
    absent = {each.name: each.default for each in fields if each not in plain}

    def read(reader: FieldReader) -> Message:
        message = dict(absent)
        for name, step in steps:
            message[name] = step(reader)
        if flexible:
            read_tags(reader, tags, message)
        return message

    return read


def read_tags(reader: FieldReader, tags: Mapping[int | None, tuple[str, ReadField]], message: Message) -> None:
    """Read the tagged fields that follow into a message; unknown ones are skipped."""
    for _ in reader.tags():
        number, length = reader.varint(), reader.varint()
        if number not in tags:
            reader.take(length)
            continue
        name, step = tags[number]
        begin = reader.at
        message[name] = step(reader)
        if reader.at != begin + length:
            raise InvalidRequest(f"tag {number} has {reader.at - begin} bytes, not {length}")


def split_fields(fields: tuple[Field, ...], version: int) -> tuple[list[Field], list[Field]]:
    """Return the untagged and the tagged fields of a version."""
    there = [each for each in fields if each.is_in(version)]
    return [each for each in there if each.tag is None], [each for each in there if each.tag is not None]


def reader_of(field: Field, version: int, flexible: bool) -> ReadField:
    """Return the reader for a field."""
    nullable = field.null_since is not None and version >= field.null_since
    return read_kind(field.kind, version, flexible, field.name, nullable)


def read_kind(kind: FieldKind, version: int, flexible: bool, name: str, nullable: bool) -> ReadField:
    """Return the reader for a kind of value."""
    if isinstance(kind, Scalar):
        return _read_scalar(kind)
    if isinstance(kind, Uuid):
        return lambda reader: UUID(bytes=bytes(reader.take(16)))
    if isinstance(kind, StructOf):
        return _read_struct(kind.fields, version, flexible)
    length = read_length(kind, flexible)
    step = _read_some(kind, version, flexible, name)

    def read(reader: FieldReader) -> Any:
        number = length(reader)
        if number < 0:
            if number == -1 and (nullable or isinstance(kind, Octets)):
                return None
            raise InvalidRequest(f"{name} is null, or has a length of {number}")
        return step(reader, number)

    return read


def _read_scalar(kind: Scalar) -> ReadField:
    unpack, size = struct.Struct(f">{kind.letter}").unpack, struct.calcsize(f">{kind.letter}")
    return lambda reader: unpack(reader.take(size))[0]


def read_length(kind: Text | Octets | ArrayOf, flexible: bool) -> Callable[[FieldReader], int]:
    """Return the reader for a length; -1 is null."""
    if flexible:
        return lambda reader: reader.varint() - 1
    fixed = _read_scalar(_INT16 if isinstance(kind, Text) else _INT32)
    return lambda reader: int(fixed(reader))


def _read_some(
    kind: Text | Octets | ArrayOf, version: int, flexible: bool, name: str
) -> Callable[[FieldReader, int], Any]:
    if isinstance(kind, Text):
        return lambda reader, length: _text(reader.take(length), name)
    if isinstance(kind, Octets):
        return FieldReader.take if kind.view else lambda reader, length: bytes(reader.take(length))
    element = read_kind(kind.element, version, flexible, name, False)
    return lambda reader, number: [element(reader) for _ in range(reader.count(number))]


def _text(data: memoryview, name: str) -> str:
    if len(data) > MOST_TEXT:
        raise InvalidRequest(f"{name} has {len(data)} bytes, more than {MOST_TEXT}")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as exc:
        raise InvalidRequest(f"{name} is not UTF-8: {exc.reason}") from None


# -- encoding


def _put_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> Put:
    plain, tagged = split_fields(fields, version)
    steps = [(each.name, each.default, put_kind(each.kind, version, flexible)) for each in plain]
    tags = sorted((each.tag, each.name, each.default, put_kind(each.kind, version, flexible)) for each in tagged)

    def put(out: bytearray, message: Message | bytes) -> None:
        if isinstance(message, bytes):
            out += message
            return
        for name, default, step in steps:
            step(out, message.get(name, default))
        if flexible:
            put_tags(out, tags, message)

    return put


def put_tags(out: bytearray, tags: list[tuple[Any, str, Any, Put]], message: Message) -> None:
    """Add the tagged fields that differ from their default."""
    encoded = []
    for number, name, default, step in tags:
        value = message.get(name, default)
        if value != default and value is not None:
            content = bytearray()
            step(content, value)
            encoded.append((number, content))
    put_varint(out, len(encoded))
    for number, content in encoded:
        put_varint(out, number)
        put_varint(out, len(content))
        out += content


def put_kind(kind: FieldKind, version: int, flexible: bool) -> Put:
    """Return the writer for a kind of value."""
    if isinstance(kind, Scalar):
        pack = struct.Struct(f">{kind.letter}").pack
        return lambda out, value: out.extend(pack(value))
    if isinstance(kind, Uuid):
        return lambda out, value: out.extend(value.bytes)
    if isinstance(kind, StructOf):
        return _put_struct(kind.fields, version, flexible)
    length = put_length(kind, flexible)
    if isinstance(kind, ArrayOf):
        element = put_kind(kind.element, version, flexible)

        def put_array(out: bytearray, value: Any) -> None:
            length(out, -1 if value is None else len(value))
            for each in value or ():
                element(out, each)

        return put_array

    def put_bytes(out: bytearray, value: Any) -> None:
        data = value.encode() if isinstance(value, str) else value
        length(out, -1 if data is None else len(data))
        out += data or b""

    return put_bytes


def put_length(kind: Text | Octets | ArrayOf, flexible: bool) -> Callable[[bytearray, int], None]:
    """Return the writer for a length; -1 is null."""
    if flexible:
        return lambda out, length: put_varint(out, length + 1)
    pack = struct.Struct(">h" if isinstance(kind, Text) else ">i").pack
    return lambda out, length: out.extend(pack(length))
