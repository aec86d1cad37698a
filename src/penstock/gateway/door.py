"""The shared part of a store's doors (threads, groups, appending), and one call of a client.

A call has its principal, and checks its rights.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from penstock import tracing
from penstock.access.access import Access
from penstock.access.principal import Principal
from penstock.access.resource import AccessRight, Resource, group, topic
from penstock.clock import SYSTEM, Clock
from penstock.log.sql.lock_waits import LockWaits
from penstock.log.store import Store
from penstock.model.context import context_of
from penstock.model.limits import LimitsSettings
from penstock.model.record import TRACEPARENT, Record
from penstock.model.token import GivenToken
from penstock.operate.producer import AppendedRecord, RecordWanted, forget_tokens, produce, produce_at_once

from .conversion import Conversion
from .leased_groups import LeasedGroups
from .settings import GatewaySettings

T = TypeVar("T")

SMALL_BYTES = 16 * 1024  # of a request that the loop parses: larger ones would delay others
_AT_ONCE_BYTES, _AT_ONCE_RECORDS = 24 * 1024, 100  # added in the loop: half a millisecond
_TOKENS_SECONDS = 3600.0  # between two looks for old tokens of requests


class DoorOptions(TypedDict, total=False):
    """What every door takes: the lock, by default one that admits all; settings; a clock."""

    access: Access | None
    settings: GatewaySettings | None
    clock: Clock


class Door:
    """Serves one store to clients. It holds no state that the store does not. In one event loop, but `close`.

    `access` decides on rights. Calls that ask the store run in threads of its own; `close` ends them.
    """

    def __init__(
        self, name: str, store: Store, limits: LimitsSettings | None = None, **options: Unpack[DoorOptions]
    ) -> None:
        """`limits`: of the records that clients may add."""
        clock = options.get("clock") or SYSTEM
        self.store, self.clock, self.access = store, clock, options.get("access") or Access()
        self.settings = options.get("settings") or GatewaySettings.load()
        self.threads = ThreadPoolExecutor(self.settings.threads, f"penstock-{name}")
        self.groups = LeasedGroups(store, clock, self.settings, self.threads)
        self.conversion = Conversion(store, clock)
        self.limits = limits or LimitsSettings.load()
        self._waits, self._tokens_looked_at = LockWaits(store.database, self.threads), clock.monotonic()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Ask the store without blocking other calls."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def add(
        self,
        topic: str,
        records: Sequence[RecordWanted],
        *,
        partition: int | None = None,
        token: GivenToken | None = None,
    ) -> list[AppendedRecord]:
        """Add records; return their partitions and offsets once they are durable. Raises as `produce` does.

        In the event loop if this needs no waiting, else in a thread. A locked partition holds a thread only
        briefly (`lock_waits`): only its own writers wait.
        """
        found, given = None, {"partition": partition, "limits": self.limits, "clock": self.clock}
        size = sum([len(each.value) for each in records if each.value is not None])
        if token is None and len(records) <= _AT_ONCE_RECORDS and size <= _AT_ONCE_BYTES:
            found = produce_at_once(self.store, topic, records, **given)  # type: ignore[arg-type]
        if found is None:
            work = partial(produce, self.store, topic, records, token=token, **given)  # type: ignore[arg-type]
            found = await self._waits.run(work)
        self.forget_old_tokens()
        return found

    def forget_old_tokens(self) -> None:
        """Forget old tokens of requests in a thread, once in a while; another door may do the same."""
        now = self.clock.monotonic()
        if now - self._tokens_looked_at >= _TOKENS_SECONDS:
            self._tokens_looked_at = now
            self.threads.submit(forget_tokens, self.store, clock=self.clock)

    def give_back(self) -> None:
        """Give back the groups that clients read; from another thread, while the event loop still runs."""
        self.groups.close()

    def close(self) -> None:
        """End the threads, after their work."""
        self.threads.shutdown()


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

    def sees_group(self, name: str) -> bool:
        """Return whether the caller may know of a group."""
        return self.sees(group(name))

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
        return RecordsFound(records, offset if last is None else last + 1, *log.bounds(name, partition))


def tell_read(name: str, records: list[Record], since_ms: int) -> None:
    """Add a span to the trace of each record that a client reads, while spans are recorded."""
    if records and tracing.is_on():
        parents = (context_of(each.raw_headers) for each in records)
        tracing.tell_batch("penstock.read", parents, since_ms=since_ms, topic=name, records=len(records))


def with_trace(record: RecordWanted, trace: bytes | None) -> RecordWanted:
    """Return a record with the trace of its request, if it brings none of its own."""
    if trace is None or any(name in (TRACEPARENT, f"ce_{TRACEPARENT}") for name, _ in record.headers):
        return record
    return replace(record, headers=(*record.headers, (TRACEPARENT, trace)))
