"""One call of a client at a door: its principal, and the check of its rights."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from penstock import tracing
from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, topic
from penstock.log.store import Store
from penstock.model.context import context_of
from penstock.model.record import TRACEPARENT, Record
from penstock.operate.dead import DeadLetter
from penstock.operate.groups import GroupPartition
from penstock.operate.lanes import WaitingLane
from penstock.operate.operation import Page
from penstock.operate.producer import RecordWanted

from .door import Door

OnTopic = TypeVar("OnTopic", GroupPartition, DeadLetter, WaitingLane)


class RecordsFound(NamedTuple):
    """Records of a partition, the offset to read next, and the partition's bounds."""

    records: list[Record]
    following: int
    start: int
    end: int


class DoorCall:
    """A call, as an operation sees it. From any thread. `face`: the interface it came by, for the audit."""

    __slots__ = ()
    door: Door
    principal: Principal
    face: str

    @property
    def store(self) -> Store:
        """The store of this door."""
        return self.door.store

    @property
    def actor(self) -> str:
        """The actor in the audit."""
        return f"{self.face}:{self.principal.name}"

    def allow(self, right: AccessRight, *resources: Resource) -> None:
        """Check that the caller has a right to each resource. Raises NotAllowed.

        It comes before any query: a hidden thing and a missing one get the same answer.
        """
        for each in resources:
            self.door.access.check(self.principal, right, each)

    def allow_still(self, right: AccessRight, *resources: Resource) -> None:
        """Check again in a call that lasts. Raises NotAllowed, Unauthenticated."""
        self.door.access.check_still(self.principal, right, *resources)

    def allow_topic(self, name: str | None) -> None:
        """Check that the caller may know of the topic that narrows a call, if any. Raises NotAllowed."""
        if name is not None:
            self.allow(AccessRight.DESCRIBE, topic(name))

    def sees(self, resource: Resource) -> bool:
        """Return whether the caller may know of a resource: listings leave out the rest."""
        return self.door.access.sees(self.principal, resource)

    def sees_topic(self, name: str) -> bool:
        """Return whether the caller may know of a topic."""
        return self.sees(topic(name))

    def of_topics_seen(self, page: Page[OnTopic]) -> Page[OnTopic]:
        """Return a page without the entries of topics that the caller may not know of."""
        return Page([each for each in page.items if self.sees_topic(each.topic)], page.after)

    def charge(self, name: str, records: Iterable[Record]) -> float:
        """Charge the bytes of records for the caller; return the seconds until it may have more."""
        return self.door.access.charge_records(self.principal, name, [each.data for each in records])

    def read(self, name: str, partition: int, offset: int, limit: int, max_bytes: int) -> RecordsFound:
        """Read a partition, for a caller with that right; fewer records if they are large."""
        log, since_ms = self.store.log, self.door.clock.now_ms()
        records = log.read(name, partition, offset, limit, max_bytes=max_bytes)
        tell_read(name, records, since_ms)
        self.charge(name, records)
        last = records[-1].offset if records else None
        start, end = log.bounds(name, partition)
        return RecordsFound(records, offset if last is None else last + 1, start, end)


def tell_read(name: str, records: list[Record], since_ms: int) -> None:
    """Add a span to the trace of each record that a client reads, while spans are recorded."""
    if records and tracing.is_on():
        parents = (context_of(each.raw_headers) for each in records)
        tracing.tell_batch("penstock.read", parents, since_ms=since_ms, topic=name, records=len(records))


def with_trace(record: RecordWanted, trace: bytes | None) -> RecordWanted:
    """Return a record with the trace of its request, if it brings none of its own."""
    if trace is None or any(name in (TRACEPARENT, f"ce_{TRACEPARENT}") for name, _ in record.headers):
        return record
    headers = (*record.headers, (TRACEPARENT, trace))
    return RecordWanted(record.value, record.type, record.key, headers, record.id, record.timestamp_ms)
