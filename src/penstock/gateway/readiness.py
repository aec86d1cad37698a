"""Whether a process is ready: its store answers, its worker runs, its lease is fresh, no group is given up.

All but the store's state is known without a query.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.app import Outbox
from penstock.errors import Error, SchemaError
from penstock.worker.status import WorkerHealth

from .store_probe import StoreProbe, StoreSilence

_START = (
    "start one with `penstock worker`, outbox.run() or `async with outbox.running()`; a process that only "
    "publishes says gateway.app(outbox, worker=False)"
)
_STOPPING = "nothing, if you stopped it; otherwise start it again"
_WAIT = "wait a moment; if it lasts, look for lines about membership in the log"
_STORE = "check the store and the network to it; workers wait for it and then go on by themselves"
_SILENT = "check the store: its locks, its load, the network; workers wait and then go on by themselves"
_TABLES = "run `penstock migrate`, or update Penstock here, and start this process again"
_LEASE = (
    "heartbeats do not reach the store in time, so others take over: check the store, and whether this "
    "process is paused (CPU limits, swapping); the lease is renewed by itself"
)
_HUNG = (
    "restart this process; give what the handler waits for a time limit of its own, shorter than its timeout="
)


class Unready(NamedTuple):
    """One reason why a process is not ready: its store, a code, a sentence, and a remedy."""

    store: str
    reason: str
    detail: str
    remedy: str


class OutboxProbe:
    """Checks an outbox of this process; from any event loop."""

    def __init__(self, outbox: Outbox, *, needs_worker: bool) -> None:
        self._outbox, self._needs_worker = outbox, needs_worker
        self._store = StoreProbe(outbox.store)

    async def ask(self) -> list[Unready]:
        """Return all reasons why it is not ready, within `store_probe.ANSWER_SECONDS` and a little more."""
        name, trouble = self._outbox.store.name, await self._store.ask()
        found = [] if trouble is None else [_of_store(name, trouble)]
        health = self._outbox.health()  # after the wait, so that it is current
        return [*found, *of_worker(name, health, needs_worker=self._needs_worker)]


def of_worker(name: str, health: WorkerHealth, *, needs_worker: bool) -> Iterator[Unready]:
    """Yield the problems of an outbox's workers, as far as the process knows them."""
    if not health.workers:
        if needs_worker:
            yield Unready(name, "not_running", "no worker of this store runs in this process", _START)
        return
    if health.refusal:
        yield Unready(name, "tables_refused", health.refusal, _TABLES)
    elif health.stopping:
        yield Unready(
            name, "stopping", "the worker is finishing what it has and takes nothing new", _STOPPING
        )
    elif health.lease_seconds is None:
        yield Unready(name, "joining", "the worker has not joined the others yet", _WAIT)
    elif health.lease_seconds <= 0:
        text = f"the lease of the worker ran out {-health.lease_seconds:.1f} s ago, so it starts no handler"
        yield Unready(name, "lease_lapsed", text, _LEASE)
    for group in health.given_up:
        yield Unready(name, "group_given_up", f"{group} is not served here", _HUNG)


def _of_store(name: str, trouble: Exception) -> Unready:
    if isinstance(trouble, StoreSilence):
        return Unready(name, "store_silent", str(trouble), _SILENT)
    if isinstance(trouble, Error):
        remedy = _TABLES if isinstance(trouble, SchemaError) else _STORE
        return Unready(name, trouble.code, str(trouble), remedy)
    return Unready(name, "store_failed", f"the store answers with {type(trouble).__name__}", _STORE)
