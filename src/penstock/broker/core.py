"""The part of the broker that its handlers use: what they share, and the services of its loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.access.access import Access
from penstock.access.rate_limits import RateLimit, RateLimiter
from penstock.clock import Clock, cpu_seconds
from penstock.errors import Error
from penstock.log.batches import BatchLog
from penstock.log.sql.lock_waits import LockWaits
from penstock.log.store import Store
from penstock.redaction import traced
from penstock.wire.kafka.stepwise import CodecSteps

from .call import Administration
from .cluster import Cluster
from .flow_control import FlowControl
from .measures import BrokerMeasures
from .session import Slot
from .settings import BrokerSettings
from .slices import SLICE_SECONDS, Slices
from .topics import Topics

logger = logging.getLogger("penstock.broker")
T = TypeVar("T")


class BrokerCore:
    """The shared state of a broker and the services of its loop. Lives in the loop's thread."""

    loop: asyncio.AbstractEventLoop  # from `start` on

    def __init__(
        self,
        store: Store,
        batches: BatchLog,
        administration: Administration,
        settings: BrokerSettings,
        access: Access,
        clock: Clock,
    ) -> None:
        self.store, self.batches, self.clock = store, batches, clock
        self.administration, self.settings, self.access = administration, settings, access
        self.topics = Topics(store.log, store.bounds, clock)
        self.cluster = Cluster(store, clock)
        self.produce_quota = _quota(settings.produce_bytes_per_second, clock)
        self.fetch_quota = _quota(settings.fetch_bytes_per_second, clock)
        self.flow = FlowControl(settings.total_bytes, lambda work: self.loop.call_soon(work))
        self.measures = BrokerMeasures(store.name, self.flow)
        self.slices = Slices(clock)
        self._pool = ThreadPoolExecutor(settings.threads, "penstock-broker")
        self.lock_waits = LockWaits(store.database, self._pool)
        self.loop_thread, self.is_stopping = 0, False
        self.ticks: list[Callable[[], None]] = []  # called several times a second
        self.refreshes: list[Callable[[], None]] = []  # called after `refresh_topics`
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_called = self._looking = False

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the loop's thread, from any thread; do nothing once the loop has ended."""
        self._calls.append((function, arguments))
        if self._is_called:
            return
        self._is_called = True
        try:
            self.loop.call_soon_threadsafe(self._run_calls)
        except RuntimeError:
            logger.debug("the loop has ended before an answer was ready")

    def _run_calls(self) -> None:
        """Run the calls that other threads have queued; one wake-up serves them all."""
        self._is_called = False
        began = cpu_seconds()
        for _ in range(len(self._calls)):
            if cpu_seconds() - began >= SLICE_SECONDS:
                self._is_called = True
                self.loop.call_soon(self._run_calls)
                return
            function, arguments = self._calls.popleft()
            try:
                function(*arguments)
            except Exception as exc:
                logger.error("something for the loop of the Kafka port failed", exc_info=traced(exc))

    async def run(self, work: Callable[[], T]) -> T:
        """Run a query of the store in a thread of the pool."""
        found = await self.loop.run_in_executor(self._pool, work)
        self.slices.go_on()
        return found

    def spawn(self, slot: Slot | None, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine that answers later; an exception ends the connection."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(slot, done))

    def work(self, slot: Slot, steps: CodecSteps[None]) -> None:
        """Run the steps of a request: those that fit into its slice now, the rest in turns."""
        if self.slices.at_once(steps) is None:
            self.spawn(slot, self.slices.run(steps))

    def look_for_topics(self) -> None:
        """Look for new topics soon; concurrent calls share a look."""
        if not self._looking:
            self._looking = True
            self.spawn(None, self._refresh())

    async def refresh_topics(self) -> None:
        """Look for new topics now."""
        await self.run(self.topics.refresh)
        for refreshed in self.refreshes:
            refreshed()

    async def _refresh(self) -> None:
        try:
            await self.run(self.topics.refresh)
        except Error as exc:
            logger.debug("topics were not read: %s", exc)
        finally:
            self._looking = False

    def _ended(self, slot: Slot | None, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.failed(slot, error)

    def failed(self, slot: Slot | None, error: BaseException) -> None:
        """End the connection of a request that cannot be answered."""
        if not isinstance(error, Error):
            logger.error("a request failed", exc_info=traced(error))
        if slot is not None:
            slot.session.refuse(error if isinstance(error, Error) else Error("a request failed"))

    def charge(self, slot: Slot, quota: RateLimiter, size: int, sizes: Mapping[str, int]) -> int:
        """Charge bytes to a client id, and bytes of topics to a principal; return the client's wait in ms."""
        waits = [quota.charge(slot.request.client_id, "", size)]
        if self.access.has_limits:
            # Enough buckets of made-up names would evict the full one.
            known = (each for each in sizes.items() if each[0] in self.topics.by_name)
            waits += [self.access.charge(slot.session.principal, *each) for each in known]
        throttle_ms = int(max(waits) * 1000)
        self.measures.throttled_ms += throttle_ms
        return throttle_ms


def _quota(bytes_per_second: int, clock: Clock) -> RateLimiter:
    """Return the limit of each client id; 0 is none."""
    return RateLimiter((RateLimit("*", "*", bytes_per_second),) if bytes_per_second else (), clock)
