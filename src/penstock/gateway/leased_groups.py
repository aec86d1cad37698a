"""The groups that clients of this process read: started on the first request, given back when idle."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from penstock.access.places import Holder, SharedPlaces, holder_of
from penstock.access.principal import Principal
from penstock.clock import Clock
from penstock.errors import GatewayBusy, UnknownLease
from penstock.log.store import Store
from penstock.operate.groups import create
from penstock.redaction import traced
from penstock.worker.handler_options import Start

from .lease import LeasedGroup
from .settings import GatewaySettings

logger = logging.getLogger("penstock.gateway")

_LOOK_SECONDS = 1.0


class LeasedGroups:
    """Each group on each topic that a client has asked for. In one event loop, except `close`."""

    def __init__(self, store: Store, clock: Clock, settings: GatewaySettings, threads: ThreadPoolExecutor) -> None:
        self._store, self._clock, self._settings, self._threads = store, clock, settings, threads
        self._groups: dict[tuple[str, str], asyncio.Task[LeasedGroup]] = {}
        self._places = SharedPlaces(settings.groups)
        self._holders: dict[tuple[str, str], Holder] = {}  # the first to ask for a group
        self._looking: asyncio.Task[None] | None = None
        self._lock = Lock()
        self._started: set[LeasedGroup] = set()  # guarded by the lock, as is:
        self._is_closing = False

    async def get(self, group: str, topic: str, start: Start = "earliest", *, principal: Principal) -> LeasedGroup:
        """Return a group and serve it from now on. Raises UnknownTopic, GroupKindDiffers, GatewayBusy."""
        task = self._groups.get((group, topic))
        if task is None:
            holder = holder_of(principal)
            if self._is_closing or not self._places.take(holder):
                full = (
                    f"it serves {self._places.used} groups of {self._places.most} (gateway.groups), of which one "
                    "client has three quarters at most"
                )
                raise GatewayBusy("it is about to end" if self._is_closing else full)
            task = asyncio.create_task(self._begin(group, topic, start))
            self._groups[group, topic], self._holders[group, topic] = task, holder
            task.add_done_callback(lambda done: self._forget_failed((group, topic), done))
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look())
        found = await asyncio.shield(task)
        found.asked_at = asyncio.get_running_loop().time()
        return found

    async def serving(self, group: str, topic: str, lease: str) -> LeasedGroup:
        """Return the group that gave a lease, if it is still served. Raises UnknownLease."""
        task = self._groups.get((group, topic))
        if task is None:
            raise UnknownLease(lease)
        return await asyncio.shield(task)

    async def drop(self, group: str, topic: str) -> None:
        """Stop serving a group on a topic that is to be deleted."""
        if (task := self._forget((group, topic))) is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._stop, await asyncio.shield(task))

    def close(self) -> None:
        """Give all groups back; from another thread, while the event loop still runs.

        A group that is just starting in a thread of the pool is given back there.
        """
        with self._lock:
            self._is_closing = True
            started = list(self._started)
        for each in started:
            self._stop(each)
        self._groups.clear()  # no client asks any more

    async def _begin(self, group: str, topic: str, start: Start) -> LeasedGroup:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, lambda: create(self._store, group, topic, start=start))
        found = LeasedGroup(self._store, self._clock, self._settings, group, topic, start)
        await loop.run_in_executor(self._threads, self._start, found)
        return found

    def _start(self, found: LeasedGroup) -> None:
        found.worker.start()
        with self._lock:
            self._started.add(found)
            is_late = self._is_closing
        if is_late:
            self._stop(found)
            raise GatewayBusy("it is about to end")

    def _stop(self, found: LeasedGroup) -> None:
        with self._lock:
            self._started.discard(found)
        found.stop()

    def _forget_failed(self, place: tuple[str, str], task: "asyncio.Task[LeasedGroup]") -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(place)

    def _forget(self, place: tuple[str, str]) -> "asyncio.Task[LeasedGroup] | None":
        if (holder := self._holders.pop(place, None)) is not None:
            self._places.give_back(holder)
        return self._groups.pop(place, None)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while self._groups and not self._is_closing:
            await asyncio.sleep(min(_LOOK_SECONDS, self._settings.group_idle.total_seconds()))
            for place, task in list(self._groups.items()):
                if _is_idle(task):
                    self._forget(place)  # a client that asks meanwhile starts a new one: two members share
                    try:
                        await loop.run_in_executor(None, self._stop, task.result())
                    except Exception as exc:
                        logger.error("a group could not be given back", exc_info=traced(exc))


def _is_idle(task: "asyncio.Task[LeasedGroup]") -> bool:
    """Return whether nobody has asked for a group for a while; one that failed to start is forgotten elsewhere."""
    return task.done() and not task.cancelled() and task.exception() is None and task.result().is_idle
