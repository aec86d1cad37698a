"""Event classes for the tests of typed rows, and what plain Python makes of a value: the oracle."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pydantic
from msgspec import Meta

REJECTED = object()


class Color(Enum):
    RED = "red"
    BLUE = "blue ü"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Address(msgspec.Struct):
    street: str
    number: int | None = None


class Everything(msgspec.Struct, rename="camel"):
    order_id: int
    name: str
    price: Decimal
    ratio: float
    paid: bool
    placed_at: dt.datetime
    day: dt.date
    token: UUID
    color: Color
    level: Level
    size: Literal["s", "m"]
    address: Address
    tags: list[str]
    by_name: dict[str, int]
    note: str | None
    local: Annotated[dt.datetime, Meta(tz=False)] | None = None
    blob: bytes = b"\x00\xff"
    many: list[Address] = msgspec.field(default_factory=list)
    names: set[str] = msgspec.field(default_factory=set)
    places: dict[int, list[Address | None]] | None = None
    either: int | str = 3
    count: Annotated[int, Meta(ge=0, le=100)] = 7
    code: Annotated[str, Meta(min_length=1, max_length=3)] = "abc"
    cents: Annotated[Decimal, Meta(extra={"digits": (12, 2)})] = Decimal("0.50")


@dataclass
class Placed:
    order_id: str
    total: int
    at: dt.datetime | None = None
    lines: list[Line] = field(default_factory=list)


@dataclass
class Line:
    sku: str
    amount: float = 1.0


class Closed(msgspec.Struct, forbid_unknown_fields=True, tag="closed"):
    a: int = 1


class Model(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId", ge=1)
    price: Annotated[Decimal, pydantic.Field(max_digits=12, decimal_places=2)]
    at: pydantic.AwareDatetime
    tags: list[str] = []
    inner: Inner | None = None
    color: Color = Color.RED


class Inner(pydantic.BaseModel):
    name: str
    day: dt.date | None = None


def oracle(cls: type, data: bytes) -> Any:
    """Return the columns that plain Python makes of a value, or REJECTED."""
    try:
        if issubclass(cls, pydantic.BaseModel):
            event: Any = cls.model_validate_json(data, strict=True)
            fields = {each.alias or name: getattr(event, name) for name, each in cls.model_fields.items()}
        else:
            event = msgspec.json.decode(data, type=cls)
            names = {each.name: each.encode_name for each in _fields(cls)}
            fields = {named: getattr(event, name) for name, named in names.items()}
        raw = json.loads(data, object_pairs_hook=_once)
        if any(isinstance(fields[name], dt.datetime) and _is_number(raw.get(name)) for name in fields):
            return REJECTED  # pydantic also takes a text with a number of seconds; columns do not
        return {name: plain(value) for name, value in fields.items()}
    except (ValueError, RecursionError):
        return REJECTED


def _is_number(text: Any) -> bool:
    try:
        return isinstance(text, str) and float(text) is not None
    except ValueError:
        return False


def plain(value: Any) -> Any:
    """Return a value as a column has it. Raises ValueError for one that no column can hold."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool | str | bytes | float | None):
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise ValueError(value)
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(value)
        return value
    if isinstance(value, Decimal):
        if not value.is_finite() or value != _rounded(value, 18) or abs(value) >= 10**20:
            raise ValueError(value)
        return value
    if isinstance(value, dt.datetime):
        return value if value.tzinfo is None else value.astimezone(dt.UTC)
    if isinstance(value, dt.date):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, set):
        return sorted(plain(each) for each in value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, pydantic.BaseModel):
        return {each.alias or name: plain(getattr(value, name)) for name, each in type(value).model_fields.items()}
    return {each.name: plain(getattr(value, each.name)) for each in _fields(type(value))}


def _rounded(value: Decimal, places: int) -> Decimal:
    from decimal import Context

    return value.quantize(Decimal(1).scaleb(-places), context=Context(prec=4000))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice, as the columns do."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def _fields(cls: type) -> Any:
    info: Any = msgspec.inspect.type_info(cls)
    return info.fields
