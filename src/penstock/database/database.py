"""The Database: pooled connections, transactions, and their retries after conflicts.

A connection is used by one thread at a time. A transaction that fails because of others (deadlock, serialization, busy)
is retried from its beginning; one whose commit is in doubt is never retried here: the caller compares and decides.
"""

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, local
from typing import Any, TypeVar

from penstock.backoff import CHANCE
from penstock.clock import SYSTEM
from penstock.errors import PickChanged, StoreDamaged, StoreLocked, StoreReadOnly, StoreUnreachable, TopicVanished
from penstock.redaction import words

from .address import without_password
from .contract import Call, Dialect, Params, Result, Row, Rows, TransactionState
from .naming import Names
from .second_forms import SecondForm, run
from .statements import second_forms, statement

logger = logging.getLogger("penstock.database")
T = TypeVar("T")

_REPLAYS = 10
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class Transaction:
    """One open transaction; statements are named by room and name, never built from strings."""

    def __init__(self, database: "Database", conn: Any, opened: Sequence[Result] = ()) -> None:
        self._database, self.conn = database, conn
        self.opened = opened  # results of its first statements

    def rows(self, room: str, name: str, /, **params: Any) -> list[Row]:
        """Run a statement of `<room>/sql/` and return its rows."""
        return self.execute(room, name, params).rows

    def change(self, room: str, name: str, /, **params: Any) -> int:
        """Run a statement and return the number of changed rows."""
        return self.execute(room, name, params).changed

    def execute(self, room: str, name: str, params: Params) -> Result:
        """Run a statement, or its second form if the database lacks a feature, and return its result."""
        form = self._database.second_form(room, name)
        if form is not None:
            return run(form, self, room, params)
        return self._database.dialect.execute(self.conn, self._database.sql(room, name), params)

    def execute_all(self, calls: Sequence[Call]) -> list[Result]:
        """Run statements in order, in one round trip if the driver can."""
        if any(self._database.second_form(each.room, each.name) for each in calls):
            return [self.execute(*each) for each in calls]
        return self._database.dialect.execute_all(self.conn, self._database.texts(calls))

    def seal(self) -> bool:
        """Switch from the caller's statements to ours; return whether the guarded one is still open."""
        return self._database.dialect.seal(self.conn)

    def state(self) -> TransactionState:
        """Return its state after the caller has used the connection."""
        return self._database.dialect.state(self.conn)

    def now_ms(self, own_ms: int | None) -> int:
        """Return the caller's own time if given, else the database's."""
        return int(self.rows("database", "now", now_ms=own_ms)[0][0])

    def bulk(self, room: str, name: str, rows: Rows) -> None:
        """Run a statement for many rows; the columns are in the order of its parameters."""
        form = self._database.second_form(room, name)
        if form is not None:
            run(form, self, room, {"rows": rows})
            return
        self._database.dialect.bulk(self.conn, self._database.sql(room, name), rows)


class Database:
    """One database, its dialect and the names of Penstock's tables in it."""

    def __init__(self, dialect: Dialect, names: Names) -> None:
        self.dialect, self.names = dialect, names
        self._idle: list[Any] = []
        self._idle_for_whole: list[Any] = []  # for `run_whole`: their sessions may be set up for it
        self._pid = os.getpid()
        self._inherited: list[Any] = []
        self._lock = Lock()
        self._closed = Event()
        self.timeout_seconds = math.inf  # how long a transaction is retried after conflicts
        self._lock_limit = local()  # lock_ms: a thread's own limit for lock waits
        dialect.when_renewed(self._drop_idle)

    def sql(self, room: str, name: str) -> str:
        """Return the text of a named statement for this dialect, with this database's names."""
        return statement(room, self.dialect.name, name, self.names)

    def second_form(self, room: str, name: str) -> SecondForm | None:
        """Return the second form of a statement, if this database lacks a feature that the first one uses."""
        form = second_forms(room).get(name) if self.dialect.lacks else None
        return form if form is not None and form.without & self.dialect.lacks else None

    def texts(self, calls: Sequence[Call]) -> list[tuple[str, Params]]:
        """Return calls with the dialect's text of each statement."""
        return [(self.sql(each.room, each.name), each.params) for each in calls]

    @contextmanager
    def transaction(
        self, *, bounded: bool = True, guarded: bool = False, first: Sequence[Call] = ()
    ) -> Iterator[Transaction]:
        """Open a transaction; commit at the end of the block, roll back if it raises.

        Our own transactions are bounded in time; one that runs a caller's code is not. Guarded: `seal` tells whether
        the caller's code has ended it. Passing `first` here saves a round trip; they must have no second forms.
        """
        conn, opened = self._begun(bounded, guarded, first)
        try:
            yield Transaction(self, conn, opened)
            self.dialect.commit(conn)
        except BaseException as exc:
            self._give_up(conn, exc, self._idle)
            raise
        self._give_back(conn, self._idle)

    def looking(self) -> AbstractContextManager[Transaction]:
        """Open a connection for reads without a transaction: each statement sees the latest commits."""
        return self._opened(self._idle)

    @contextmanager
    def _opened(self, idle: list[Any]) -> Iterator[Transaction]:
        conn = self._take(idle)
        try:
            yield Transaction(self, conn)
        except BaseException as exc:
            self._give_up(conn, exc, idle)
            raise
        self._give_back(conn, idle)

    @contextmanager
    def _snapshot(self) -> Iterator[Transaction]:
        with self.looking() as tx:
            self.dialect.begin_looking(tx.conn)
            yield tx
            self.dialect.commit(tx.conn)

    def look_once(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads, on one snapshot."""
        return self._repeat(self._snapshot, work)

    def look(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads, without a transaction."""
        had_idle = bool(self._idle)
        try:
            return self._repeat(self.looking, work)
        except StoreUnreachable:
            if not had_idle:
                raise
            self._drop_idle()  # idle ones may be dead; a new one shows
            return self._repeat(self.looking, work)

    def run(self, work: Callable[[Transaction], T], *, first: Sequence[Call] = ()) -> T:
        """Run `work` in a transaction; retry after a pause when it conflicts with others."""
        return self._repeat(lambda: self.transaction(first=first), work)

    def with_lock_limit(self, seconds: float, work: Callable[[], T]) -> T:
        """Call `work` with a limit on lock waits, except with a single writer; above it StoreLocked, and no retry."""
        if self.dialect.writers is not None:
            return work()
        self._lock_limit.lock_ms = max(1, int(seconds * 1000))
        try:
            return work()
        finally:
            self._lock_limit.lock_ms = None

    def run_whole(self, calls: Sequence[Call]) -> list[Result]:
        """Run a transaction in one trip, without second forms; after StoreUnreachable its commit is in doubt."""
        texts = self.texts(calls)
        try:
            return self._repeat(
                lambda: self._opened(self._idle_for_whole), lambda tx: self.dialect.run_whole(tx.conn, texts)
            )
        except StoreUnreachable:
            self._drop_idle()  # idle ones may be dead, too
            raise

    def _repeat(self, opened: Callable[[], AbstractContextManager[Transaction]], work: Callable[[Transaction], T]) -> T:
        pause, started = _FIRST_PAUSE_SECONDS, SYSTEM.monotonic()
        for replay in range(_REPLAYS + 1):
            try:
                with opened() as tx:
                    return work(tx)
            except Exception as exc:
                is_late = SYSTEM.monotonic() - started >= self.timeout_seconds
                is_last = replay == _REPLAYS or is_late or self._lock_ms is not None
                may_repeat = isinstance(exc, TopicVanished | PickChanged) or self.dialect.is_conflict(exc)
                if is_last or not may_repeat:
                    translated = self.dialect.translate(exc)
                    if translated is None and self.dialect.is_conflict(exc):
                        translated = StoreLocked(self.where)
                    if translated is None:
                        raise
                    raise translated from exc
                logger.debug("retrying a transaction after a conflict: %s", words(exc))
            self._closed.wait(pause + CHANCE.uniform(0, pause / 2))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("unreachable")

    @property
    def _lock_ms(self) -> int | None:
        return getattr(self._lock_limit, "lock_ms", None)

    def now_ms(self, own_ms: int | None) -> int:
        """Return the caller's own time if given, else the database's."""
        return self.look(lambda tx: tx.now_ms(own_ms)) if own_ms is None else own_ms

    def close(self) -> None:
        """Close all idle connections; an open transaction keeps its own until it ends."""
        self._closed.set()
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            self._disown()
            idle = [*self._idle, *self._idle_for_whole]
            self._idle.clear()
            self._idle_for_whole.clear()
        for conn in idle:
            self.dialect.close(conn)

    def _begun(self, bounded: bool, guarded: bool, first: Sequence[Call]) -> tuple[Any, list[Result]]:
        while True:
            had_idle, conn = bool(self._idle), self._take(self._idle)
            try:
                opened = self.dialect.begin(
                    conn, bounded=bounded, guarded=guarded, lock_ms=self._lock_ms, first=self.texts(first)
                )
            except BaseException as exc:
                self._give_up(conn, exc, self._idle)
                if not (had_idle and isinstance(exc, Exception) and self._is_spoiled(exc)):
                    raise
            else:
                return conn, opened

    def _is_spoiled(self, error: Exception) -> bool:
        lasting = StoreUnreachable | StoreReadOnly | StoreDamaged
        return isinstance(self.dialect.translate(error), lasting)

    @property
    def where(self) -> str:
        """The database's address for messages, without a password."""
        place = getattr(self.dialect, "url", None) or getattr(self.dialect, "path", self.dialect.name)
        return without_password(str(place))

    def _take(self, idle: list[Any]) -> Any:
        while True:
            with self._lock:
                self._disown()
                conn = idle.pop() if idle else None
            if conn is None:
                return self.dialect.connect()
            try:
                may_use = self.dialect.may_use(conn)
            except BaseException:
                self.dialect.close(conn)
                raise
            if may_use:
                return conn
            self.dialect.close(conn)

    def _disown(self) -> None:
        """After a fork the idle connections belong to the parent: keep them, so that nothing closes them."""
        if self._pid != os.getpid():
            self._inherited += [*self._idle, *self._idle_for_whole]
            self._idle.clear()
            self._idle_for_whole.clear()
            self._pid = os.getpid()

    def _give_back(self, conn: Any, idle: list[Any]) -> None:
        if self.dialect.may_keep(conn):
            with self._lock:
                if not self._closed.is_set():
                    idle.append(conn)
                    return
        self.dialect.close(conn)

    def _give_up(self, conn: Any, error: BaseException, idle: list[Any]) -> None:
        """Roll back after an error and keep the connection only if it is certainly usable.

        A connection opened while the store was read-only stays read-only when the store is writable again,
        and may keep others so: all are closed.
        """
        sound = isinstance(error, Exception) and not self._is_spoiled(error)
        try:
            self.dialect.rollback(conn)
        except Exception:
            sound = False
        if sound:
            self._give_back(conn, idle)
        else:
            self.dialect.close(conn)
        if isinstance(error, Exception) and isinstance(self.dialect.translate(error), StoreReadOnly):
            self.dialect.renew()
