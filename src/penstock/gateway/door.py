"""What the doors of a store share: threads, the groups that clients read, and how records are added."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from penstock.access.access import Access
from penstock.clock import Clock
from penstock.log.sql.lock_waits import LockWaits
from penstock.log.store import Store
from penstock.model.limits import LimitsSettings
from penstock.model.token import GivenToken
from penstock.operate.producer import AppendedRecord, RecordWanted, forget_tokens, produce, produce_at_once

from .conversion import Conversion
from .leased_groups import LeasedGroups
from .settings import GatewaySettings

T = TypeVar("T")

SMALL_BYTES = 16 * 1024  # of a request that the loop parses: larger ones would delay others
_AT_ONCE_BYTES, _AT_ONCE_RECORDS = 24 * 1024, 100  # added in the loop: half a millisecond
_TOKENS_SECONDS = 3600.0  # between two looks for old tokens of requests


class Door:
    """Serves one store to clients. It holds no state that the store does not. In one event loop, but `close`.

    `access` decides on rights. Calls that ask the store run in threads of its own; `close` ends them.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        access: Access | None,
        settings: GatewaySettings | None,
        clock: Clock,
        limits: LimitsSettings | None = None,
    ) -> None:
        """`limits`: of the records that clients may add."""
        self.store, self.clock, self.access = store, clock, access or Access()
        self.settings = settings or GatewaySettings.load()
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
        if token is None and _is_little(records):
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


def _is_little(records: Sequence[RecordWanted]) -> bool:
    return len(records) <= _AT_ONCE_RECORDS and (
        sum([len(each.value) for each in records if each.value is not None]) <= _AT_ONCE_BYTES
    )
