"""Listeners: functions of the publishing process that are called after the commit.

Drivers show when a transaction has ended but not how. So a publish that a listener wants writes one more row beside its
events, a mark: the id of the first of them, in `token`. Once the transaction has ended, the mark exists exactly if it
committed. Nothing is written when no listener wants the events.

Best effort: if this process dies, its listeners are not called. Use a handler for calls that must happen.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from penstock import metrics
from penstock.database.database import Database, Transaction
from penstock.model.record import Record
from penstock.redaction import traced, words
from penstock.settings import Settings, setting
from penstock.wire.kafka.headers import decode_headers

from .bell import Bell, IsOpen, reference_to, still_open
from .contract import StagedEvent, Step, Steps

logger = logging.getLogger("penstock.listeners")

_MOST_WAITING = 10_000  # publishes whose transactions have not ended


class ListenersSettings(Settings, room="listeners"):
    """Whether functions of the publishing process are called after a commit."""

    enabled: bool = setting(True, "Call the listeners of this process.")
    publish_after_save: bool = setting(True, "Pass published events to listeners once they have committed.")

    @property
    def wanted(self) -> bool:
        """Whether listeners are called at all."""
        return self.enabled and self.publish_after_save


@dataclass(frozen=True, slots=True)
class Listener:
    """One function: its name, its filter of records, and the call."""

    name: str
    wants: Callable[[Record], bool]
    call: Callable[[Record], object]


ListenerCall = tuple[Listener, Record]


@dataclass(frozen=True, slots=True)
class _Publish:
    mark: str
    calls: Sequence[ListenerCall]
    conn: Callable[[], Any]
    is_open: IsOpen

    def has_ended(self) -> bool:
        conn = self.conn()
        return conn is None or not still_open(conn, self.is_open)


class Listeners:
    """The listeners of one outbox. Safe from any thread; calls are made one by one in a dedicated thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.all: tuple[Listener, ...] = ()  # read at every publish: an attribute saves a call
        self._waiting: deque[_Publish] = deque(maxlen=_MOST_WAITING)
        self._lock = Lock()
        self._bell = Bell(self._look)

    def add(self, listener: Listener) -> None:
        """Add a listener."""
        self.all = (*self.all, listener)

    def mark_steps(self, events: Sequence[StagedEvent]) -> Steps[Sequence[ListenerCall]]:
        """Write the mark of a publish that a listener wants; return the calls to make after its commit."""
        records = [_record_of(event) for event in events]
        calls = [(listener, record) for record in records for listener in self.all if _wants(listener, record)]
        if calls:
            first = events[0]
            yield Step("token_take", [(first.id.encode(), first.id, first.timestamp_ms, None)])
        return calls

    def watch(self, mark: str, calls: Sequence[ListenerCall], conn: Any, is_open: IsOpen) -> None:
        """Make the calls once the transaction on a driver's connection has committed."""
        with self._lock:
            if len(self._waiting) == _MOST_WAITING:
                logger.warning("too many open transactions to watch; listeners miss the oldest")
            self._waiting.append(_Publish(mark, calls, reference_to(conn), is_open))
        self._bell.watch(conn, is_open)

    def close(self) -> None:
        """Stop calling listeners."""
        self._bell.close()

    def _look(self, slots: object = None) -> None:
        """Call listeners for committed transactions, drop rolled-back ones. Runs in the bell's thread."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        if not waiting:
            return
        over = {each.mark for each in waiting if each.has_ended()}  # before the query: later ends wait
        try:
            committed = self._committed([each.mark for each in waiting], over)
        except Exception as exc:
            logger.warning("cannot look up which transactions committed; listeners are not called: %s", words(exc))
            return
        self._watch_on([each for each in waiting if each.mark not in committed | over])
        for each in waiting:
            if each.mark in committed:
                for listener, record in each.calls:
                    _call(listener, record)
        self._drop(sorted(committed))

    def _watch_on(self, publishes: list[_Publish]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(publishes))
        for each in publishes:
            if (conn := each.conn()) is not None:
                self._bell.watch(conn, each.is_open)

    def _committed(self, marks: list[str], over: set[str]) -> set[str]:
        """Return the marks that exist.

        SQLite reports the end of a transaction when its COMMIT begins, so missing ones are looked up again in a write
        transaction, which waits for the COMMIT.
        """
        found = self._database.look(lambda tx: _found(tx, marks))
        missing = sorted(over - found)
        return found | self._database.run(lambda tx: _found(tx, missing)) if missing else found

    def _drop(self, marks: list[str]) -> None:
        """Remove used marks; retention removes any that remain."""
        if not marks:
            return
        try:
            self._database.run(lambda tx: tx.change("outbox", "marks_drop", ids=marks))
        except Exception as exc:
            logger.debug("marks left to retention: %s", words(exc))


def _found(tx: Transaction, marks: list[str]) -> set[str]:
    return {row[0] for row in tx.rows("outbox", "marks_find", ids=marks)}


def _wants(listener: Listener, record: Record) -> bool:
    try:
        return listener.wants(record)
    except Exception as exc:
        _failed(listener, record, exc)
        return False


def _call(listener: Listener, record: Record) -> None:
    try:
        listener.call(record)
    except BaseException as exc:  # a cancelled task or an exit too: it would end the thread and all calls
        _failed(listener, record, exc)


def _failed(listener: Listener, record: Record, error: BaseException) -> None:
    metrics.LISTENER_FAILURES.add(1, listener=listener.name)
    fields = {"topic": record.topic, "key": record.key, "id": record.id, "type": record.type, "error": words(error)}
    what = listener.name, record.type, record.id, record.key
    logger.error("listener %s failed on %s %s (key %r)", *what, exc_info=traced(error), extra=fields)


def _record_of(event: StagedEvent) -> Record:
    key = None if event.key is None else event.key.decode()
    headers = () if event.headers is None else decode_headers(event.headers)
    return Record(event.id, key, event.value, event.type, headers, event.timestamp_ms, event.topic)
