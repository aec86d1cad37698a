"""One record on its way to its handler: the value that the engine hands to whoever calls handlers."""

from typing import NamedTuple

import msgspec

from penstock.model.record import Record

from .handlers import Handler


class Place(NamedTuple):
    """Where a record stands in the topic."""

    partition: int
    offset: int


class Task(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One record to hand to its handler; `failures` counts what went wrong before. Compared by identity."""

    place: Place
    lane: str
    handler: Handler
    record: Record
    failures: int
