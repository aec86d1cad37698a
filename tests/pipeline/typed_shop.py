"""An outbox with registered types, for the tests of `--types`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pydantic

from penstock import Outbox

outbox = Outbox("memory://")
later = Outbox("memory://")  # the same, some months on
changed = Outbox("memory://")  # with a field that has another type


class Customer(msgspec.Struct):
    name: str


@outbox.event("order.placed", key="order_id", aliases={"order.created": None, "order.made": lambda old: old})
class OrderPlaced(msgspec.Struct):
    order_id: str
    total: Decimal
    at: dt.datetime
    customer: Customer
    timestamp: int = 0  # a name that the envelope has


@outbox.event("order.paid")
@dataclass
class OrderPaid:
    order_id: str
    amount: float


@outbox.event("order.shipped")
class OrderShipped(pydantic.BaseModel):
    order_id: str = pydantic.Field(alias="orderId")
    day: dt.date


class Raw:
    content_type = "application/x-raw"

    def encode(self, event: Any) -> bytes:
        return bytes(event)

    def decode(self, data: bytes) -> Any:
        return data


@outbox.event("order.scanned", codec=Raw())
class OrderScanned:
    pass


class LaterCustomer(msgspec.Struct):
    name: str
    vip: bool = False


@later.event("order.placed", key="order_id")
class LaterPlaced(msgspec.Struct):
    order_id: str
    total: Decimal
    at: dt.datetime
    customer: LaterCustomer
    note: str | None = None
    lines: list[str] = msgspec.field(default_factory=list)


@changed.event("order.placed", key="order_id")
class ChangedPlaced(msgspec.Struct):
    order_id: int
