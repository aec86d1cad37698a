"""A store with records, groups, parked lanes and dead letters, as many as are asked for."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from penstock import Cancel, Fixed, Outbox, Record
from penstock.log.contract import Batch
from penstock.log.entry import Content
from penstock.model.ids import new_id
from penstock.operate.reset import reset

TOPIC, PARKING, BEHIND = "events", "group-00", "group-01"
_AT_ONCE = 5_000
_PATIENT = Fixed(timedelta(hours=12), max_retries=5)


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How much of each there is. `dead` are letters of the group that also has the parked lanes."""

    records: int
    lanes: int
    dead: int
    groups: int
    partitions: int = 256


LARGE = StoreSize(records=1_000_000, lanes=10_000, dead=1_000, groups=30)
SMALL = StoreSize(records=5_000, lanes=200, dead=20, groups=5)


def handlers(outbox: Outbox, groups: int) -> None:
    """Register the handlers of that many groups: the first parks what it gets, the others pass it over."""

    def park(record: Record) -> Cancel:
        if record.value["dies"]:
            return Cancel(f"no such customer: {record.key}")
        raise ValueError("the mail server is away")

    def take(record: Record) -> None: ...

    outbox.handler("order.parked", group=PARKING, start="latest", retry=_PATIENT)(park)
    for number in range(1, groups):
        outbox.handler("order.sent", group=f"group-{number:02}", id=f"take-{number}", start="latest")(take)


def fill(url: str, size: StoreSize) -> None:
    """Make the tables of a store and fill it."""
    with closing(Outbox(url)) as outbox, _silence():
        outbox.migrate()
        outbox.log.create_topic(TOPIC, partitions=size.partitions)
        _append(outbox, "order.placed", size.records - size.lanes - size.dead, "key")
        handlers(outbox, size.groups)
        outbox.drain()  # makes the groups, at the end
        _append(outbox, "order.parked", size.dead, "dead", dies=True)
        _append(outbox, "order.parked", size.lanes, "parked")
        outbox.drain()
        reset(outbox, BEHIND, topic=TOPIC, to="earliest")


def _append(outbox: Outbox, type: str, count: int, key: str, *, dies: bool = False) -> None:
    value = b'{"order_id":"o-%d","customer":"somebody with a name","cents":4200,"dies":%s}'
    now_ms = 1_790_000_000_000
    for first in range(0, count, _AT_ONCE):
        contents = [
            Content(
                new_id(now_ms),
                f"{key}-{number}".encode(),
                type,
                value % (number, b"true" if dies else b"false"),
                None,
                now_ms + number,
            )
            for number in range(first, min(first + _AT_ONCE, count))
        ]
        outbox.log.append_all([Batch(TOPIC, contents, None)])


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what the failing handlers log to ourselves."""
    logger = logging.getLogger("penstock")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
