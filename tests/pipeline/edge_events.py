"""An outbox with one type that has a field of each kind, for values at their edges."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import msgspec

from penstock import Outbox

outbox = Outbox("memory://")


@outbox.event("edge")
class Edge(msgspec.Struct):
    n: int
    real: float
    money: Decimal
    at: dt.datetime
    day: dt.date
    word: str
    raw: bytes
    inner: dict[str, dt.datetime]
    days: list[dt.date]
