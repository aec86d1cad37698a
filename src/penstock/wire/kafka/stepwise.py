"""Decoding and encoding in steps, for messages with long lists: the caller can do other work in between.

The same layouts as `layout.py`, walked by generators: each yields after a few elements and has the same
result as the function of the same name. A test over every API and version keeps them equal.
"""

from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any, TypeVar

from penstock.errors import InvalidRequest

from . import Buffer, layout
from .layout import Api, ArrayOf, Field, FieldKind, FieldReader, Message, Put, ReadField, StructOf

T = TypeVar("T")
CodecSteps = Generator[None, None, T]
_ReadSteps = Callable[[FieldReader], CodecSteps[Any]]
_PutSteps = Callable[[bytearray, Any], CodecSteps[None]]
_ELEMENTS = 16  # of an array in one step


def decode_request(api: Api, data: Buffer, version: int, at: int = 0) -> CodecSteps[Message]:
    """Return the request in bytes from position `at` on. Raises InvalidRequest."""
    message: Message = yield from _reading(api, version)(FieldReader(data, at))
    return message


def encode_answer(api: Api, message: Message, version: int) -> CodecSteps[bytes]:
    """Return an answer as bytes."""
    out = bytearray()
    yield from _putting(api, version)(out, message)
    return bytes(out)


def encode_element(api: Api, array: str, message: Message, version: int) -> CodecSteps[bytes]:
    """Return one element of an array of an answer as bytes, to be kept and put there again."""
    (field,) = (each for each in api.answer if each.name == array)
    assert isinstance(field.kind, ArrayOf)
    assert isinstance(field.kind.element, StructOf)
    out = bytearray()
    yield from _put_struct(field.kind.element.fields, version, api.is_flexible(version))(out, message)
    return bytes(out)


@lru_cache(maxsize=1024)
def _reading(api: Api, version: int) -> _ReadSteps:
    return _read_struct(api.request, version, api.is_flexible(version))


@lru_cache(maxsize=1024)
def _putting(api: Api, version: int) -> _PutSteps:
    return _put_struct(api.answer, version, api.is_flexible(version))


def _has_array(kind: FieldKind) -> bool:
    if isinstance(kind, StructOf):
        return any(_has_array(each.kind) for each in kind.fields)
    return isinstance(kind, ArrayOf)


# -- decoding


def _read_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> _ReadSteps:
    plain, tagged = layout.split_fields(fields, version)
    steps = [(each.name, *_reader(each, version, flexible)) for each in plain]
    tags = {each.tag: (each.name, layout.reader_of(each, version, flexible)) for each in tagged}
    absent = {each.name: each.default for each in fields if each not in plain}

    def read(reader: FieldReader) -> CodecSteps[Message]:
        message = dict(absent)
        for name, at_once, step in steps:
            message[name] = at_once(reader) if step is None else (yield from step(reader))
        if flexible:
            layout.read_tags(reader, tags, message)  # at once: no tagged field of a request has a list
        return message

    return read


def _reader(field: Field, version: int, flexible: bool) -> tuple[ReadField, _ReadSteps | None]:
    at_once = layout.reader_of(field, version, flexible)
    if isinstance(field.kind, ArrayOf):
        nullable = field.null_since is not None and version >= field.null_since
        return at_once, _read_array(field.kind, version, flexible, field.name, nullable)
    if isinstance(field.kind, StructOf) and _has_array(field.kind):
        return at_once, _read_struct(field.kind.fields, version, flexible)
    return at_once, None


def _read_array(kind: ArrayOf, version: int, flexible: bool, name: str, nullable: bool) -> _ReadSteps:
    length = layout.read_length(kind, flexible)
    at_once = layout.read_kind(kind.element, version, flexible, name, False)
    step = None
    if isinstance(kind.element, StructOf) and _has_array(kind.element):
        step = _read_struct(kind.element.fields, version, flexible)

    def read(reader: FieldReader) -> CodecSteps[list[Any] | None]:
        number = length(reader)
        if number < 0:
            if number == -1 and nullable:
                return None
            raise InvalidRequest(f"{name} is null, or has a length of {number}")
        found: list[Any] = []
        for place in range(reader.count(number)):
            if place % _ELEMENTS == _ELEMENTS - 1:
                yield
            found.append(at_once(reader) if step is None else (yield from step(reader)))
        return found

    return read


# -- encoding


def _put_struct(fields: tuple[Field, ...], version: int, flexible: bool) -> _PutSteps:
    plain, tagged = layout.split_fields(fields, version)
    steps = [(each.name, each.default, *_putter(each.kind, version, flexible)) for each in plain]
    tags = sorted((each.tag, each.name, each.default, layout.put_kind(each.kind, version, flexible)) for each in tagged)

    def put(out: bytearray, message: Message | bytes) -> CodecSteps[None]:
        if isinstance(message, bytes):
            out += message
            return
        for name, default, at_once, step in steps:
            value = message.get(name, default)
            if step is None:
                at_once(out, value)
            else:
                yield from step(out, value)
        if flexible:
            layout.put_tags(out, tags, message)

    return put


def _putter(kind: FieldKind, version: int, flexible: bool) -> tuple[Put, _PutSteps | None]:
    at_once = layout.put_kind(kind, version, flexible)
    if isinstance(kind, ArrayOf):
        return at_once, _put_array(kind, version, flexible)
    if isinstance(kind, StructOf) and _has_array(kind):
        return at_once, _put_struct(kind.fields, version, flexible)
    return at_once, None


def _put_array(kind: ArrayOf, version: int, flexible: bool) -> _PutSteps:
    length = layout.put_length(kind, flexible)
    at_once, step = _putter(kind.element, version, flexible)

    def put(out: bytearray, value: Any) -> CodecSteps[None]:
        length(out, -1 if value is None else len(value))
        for place, each in enumerate(value or ()):
            if place % _ELEMENTS == _ELEMENTS - 1:
                yield
            if step is None:
                at_once(out, each)
            else:
                yield from step(out, each)

    return put
