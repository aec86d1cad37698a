"""What the tests of the model share: a record, and classes to be events."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic

from penstock.model.record import RawHeaders, Record


def a_record(
    key: str | None = "o-1",
    *,
    data: bytes | None = b'{"total":42}',
    raw_headers: RawHeaders = (),
    timestamp_ms: int = 1_700_000_000_123,
    **others: Any,
) -> Record:
    """Return a record; a test names what it is about and leaves the rest."""
    return Record("id-1", key, data, "order.placed", raw_headers, timestamp_ms, **others)


@dataclass
class PlainCustomer:
    id: str


@dataclass
class PlainOrder:
    order_id: str
    customer: PlainCustomer


class StructCustomer(msgspec.Struct):
    id: str


class StructOrder(msgspec.Struct):
    order_id: str
    customer: StructCustomer


class ModelCustomer(pydantic.BaseModel):
    id: str


class ModelOrder(pydantic.BaseModel):
    order_id: str
    customer: ModelCustomer
