"""The shape of an event class: its columns, and the JSON that fits into each. Values only, no Spark.

| Python                           | column           | fitting JSON                                        |
|----------------------------------|------------------|-----------------------------------------------------|
| bool, str                        | BOOLEAN, STRING  | JSON of that kind                                   |
| int                              | BIGINT           | an integer of 64 bits                               |
| float                            | DOUBLE           | a finite number                                     |
| Decimal                          | DECIMAL(38, 18)  | text or number, if no digit is lost                 |
| date                             | DATE             | 2026-01-31                                          |
| datetime                         | TIMESTAMP        | RFC 3339 with an offset, to the microsecond         |
| datetime without zone            | TIMESTAMP_NTZ    | the same without an offset                          |
| time, timedelta                  | STRING           | RFC 3339, ISO 8601                                  |
| UUID                             | STRING           | hyphens or not; stored with them, lower case       |
| bytes                            | BINARY           | base64                                              |
| Enum, Literal                    | STRING or BIGINT | one of its values                                   |
| dataclass, Struct, model         | STRUCT           | an object                                           |
| list, set, tuple[X, ...]         | ARRAY            | an array of fitting items                           |
| dict[str, X], dict[int, X]       | MAP              | an object of fitting items                          |
| several types, Any, other tuples | STRING: the JSON | JSON of the kinds that the types have               |
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any


class ScalarKind(Enum):
    """The kind of a scalar value."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STR = "str"
    BASE64 = "base64"
    TEXT_BYTES = "the bytes of a text"  # as pydantic has them
    DATE = "date"
    INSTANT = "datetime"
    LOCAL = "datetime without zone"
    TIME = "time"
    DURATION = "timedelta"
    UUID = "UUID"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLimits:
    """Limits that a class declares: of a number, or of the length of a text, a list or a dict."""

    gt: Any = None
    ge: Any = None
    lt: Any = None
    le: Any = None
    min_length: int | None = None
    max_length: int | None = None


UNBOUNDED = DeclaredLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The values that fit into a place of a JSON document. `nullable`: null fits, too."""

    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarShape(Shape):
    """A scalar value. `allowed`: the only values, if given."""

    kind: ScalarKind
    allowed: tuple[Any, ...] | None = None
    bounds: DeclaredLimits = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Shape):
    """A decimal number with `digits` digits, `places` of them after the point."""

    digits: int = 38
    places: int = 18
    bounds: DeclaredLimits = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Shape):
    """An array. `distinct`: equal items are one."""

    item: Shape
    distinct: bool = False
    bounds: DeclaredLimits = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries(Shape):
    """An object whose keys are data. `key`: STR or INT."""

    key: ScalarKind
    item: Shape
    bounds: DeclaredLimits = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """A field. `default`: the JSON that replaces a missing one; None: nothing does."""

    name: str
    shape: Shape
    required: bool
    default: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsShape(Shape):
    """An object of fields. `closed`: it has no others. `tag`: a key, and its only value if it is there."""

    members: tuple[FieldShape, ...]
    closed: bool = False
    tag: tuple[str, Any] | None = None


def is_time(shape: Shape) -> bool:
    """Return whether values of a shape are in a column of timestamps."""
    return isinstance(shape, ScalarShape) and shape.kind in (ScalarKind.INSTANT, ScalarKind.LOCAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText(Shape):
    """Anything of these kinds of JSON, kept as JSON text."""

    kinds: tuple[str, ...]  # of "object", "array", "string", "integer", "number", "boolean"; none: all
