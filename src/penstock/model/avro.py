"""Events in Avro: `codec=Avro(OrderPlaced, schema)`, with the extra `avro`.

The bytes are Avro's single-object encoding, which names the schema that wrote them:

| bytes | field       | meaning                                                   |
|-------|-------------|-----------------------------------------------------------|
| 0-1   | marker      | C3 01                                                     |
| 2-9   | fingerprint | of the writer's schema: CRC-64-AVRO, little endian        |
| ...   | body        | the value in Avro's binary form                           |

So a schema may change: values of an older one are resolved into the current one by Avro's own rules.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import msgspec

from penstock.errors import MissingExtra, NotAnEventClass, Undecodable

from .codec import is_dataclass, is_pydantic, is_struct

_MARKER = b"\xc3\x01"
_HEAD_BYTES = 10
_NATIVE = (bytes, datetime, date, time, Decimal, UUID)  # Avro has logical types for them
Schema = dict[str, Any] | list[Any] | str


class Avro:
    """The codec of one class, whose fields are those of the schema. Raises MissingExtra, NotAnEventClass."""

    content_type = "application/avro"

    def __init__(self, cls: Any, schema: Schema, *, older: Iterable[Schema] = ()) -> None:
        """`schema`: the schema for writing, JSON text or parsed; `older`: others that can still be read."""
        try:
            import fastavro
        except ModuleNotFoundError as exc:
            raise MissingExtra("an Avro codec", "avro") from exc
        self._to_plain, self._from_plain = _ways(cls)
        self._write, self._read = fastavro.schemaless_writer, fastavro.schemaless_reader
        self._schema, mark = _parsed(cls, schema)
        self._head = _MARKER + mark
        self._writers = {_MARKER + mark: parsed for parsed, mark in (_parsed(cls, each) for each in older)}
        self._writers[self._head] = self._schema

    def encode(self, event: Any, /) -> bytes:
        """Return an event as bytes. Raises the library's error for a value outside the schema."""
        out = BytesIO()
        out.write(self._head)
        self._write(out, self._schema, self._to_plain(event))
        return out.getvalue()

    def decode(self, data: bytes, /) -> Any:
        """Return the event in bytes. Raises Undecodable, or an error of the library."""
        head = data[:_HEAD_BYTES]
        writer = self._writers.get(head)
        if writer is None:
            raise Undecodable("an Avro value", _unknown(head))
        body = BytesIO(data[_HEAD_BYTES:])
        plain = self._read(body, writer, self._schema)
        if body.read(1):
            raise Undecodable("an Avro value", "there are bytes after the value")
        return self._from_plain(plain)


def _ways(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return functions from objects of a class to plain data with Python's dates and numbers, and back."""
    if is_pydantic(cls):
        return lambda event: event.model_dump(by_alias=True), cls.model_validate
    if is_struct(cls) or is_dataclass(cls):
        return (
            lambda event: msgspec.to_builtins(event, builtin_types=_NATIVE),
            lambda plain: msgspec.convert(plain, cls),
        )
    raise NotAnEventClass(cls, "Avro() takes a dataclass, a msgspec Struct or a pydantic v2 model")


def _parsed(cls: Any, schema: Any) -> tuple[Any, bytes]:
    from fastavro.schema import SchemaParseException, fingerprint, parse_schema, to_parsing_canonical_form

    try:
        given = msgspec.json.decode(schema) if isinstance(schema, str) and schema[:1] in "{[" else schema
        parsed = parse_schema(given)
        canonical = to_parsing_canonical_form(given)
    except (SchemaParseException, ValueError, TypeError, KeyError) as exc:
        raise NotAnEventClass(cls, f"its Avro schema cannot be read: {type(exc).__name__}: {exc}") from exc
    return parsed, bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def _unknown(head: bytes) -> str:
    if len(head) < _HEAD_BYTES or not head.startswith(_MARKER):
        return "this is not Avro's single-object encoding: it does not begin with C3 01 and a fingerprint"
    mark = head[len(_MARKER) :].hex()
    return f"it was written with the schema of fingerprint {mark}, which is unknown here: add it to older="
