"""The contract of a dialect: the operations that Penstock needs from a database.

The defaults are those of a database without server, notifications or concurrent limits of its own. A dialect is a
folder with this class in `dialect.py`, `wording.py` for the neutral SQL of statements,
`migrations/` and `drop.sql`. It knows its driver, but not the meaning of the statements. `database.py`
builds transactions, retries and names on top of it, the same for every dialect.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from penstock.errors import Error

Row = tuple[Any, ...]
Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement: its rows, and the number of changed rows."""

    rows: list[Row]
    changed: int


class Rows:
    """A parameter that is a small table, with the columns of the SQL; each dialect passes it in its own way."""

    __slots__ = ("columns",)

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.columns = columns

    @classmethod
    def of(cls, columns: str, rows: Iterable[Row]) -> "Rows":
        """Return rows as a small table with these columns."""
        names = columns.split()
        values = list(zip(*rows, strict=True)) or [()] * len(names)
        return cls(**{name: list(each) for name, each in zip(names, values, strict=True)})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class Call(NamedTuple):
    """A named statement with its parameters, to run with others."""

    room: str
    name: str
    params: Params


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A dialect's words for each form of the neutral SQL."""

    rows: str  # `rows(:param, a integer, …) AS alias`, a small table; {columns} are of `rows_column`, by commas
    rows_column: str  # one of its columns: {param}, {name}, {type}, and its place {at}, from 0
    in_select: str  # `= ANY(ARRAY(SELECT …))`: {query}
    in_list: str = "= ANY(:{list}::{type}[])"
    not_in_list: str = "<> ALL(:{list}::{type}[])"
    now_ms: str  # `now_ms(:param)`: the parameter or, if NULL, the server's clock
    lock: str = "{lock}"  # ` FOR UPDATE OF c SKIP LOCKED` and such, with the blank before it
    ordered_join: str  # `CROSS JOIN x ON …`, which joins in this order: the words before x
    greatest: str = "greatest"  # functions, from here on
    least: str = "least"
    octet_length: str = "octet_length"
    cast: str = "::{type}"
    percent: str = "%"
    position: str = "?"  # a parameter without a name
    parameter: str = ":{name}"  # {name} may be `table.column`, in dialects with arrays


class TransactionState(Enum):
    """The state of a transaction after user code has used its connection."""

    OPEN = auto()
    FAILED = auto()  # a statement failed: only a rollback is possible
    ENDED = auto()  # the user code committed it or rolled it back
    LOST = auto()  # the connection is lost


class NotificationListener(Protocol):
    """Waits for notifications from other connections."""

    def wait(self, seconds: float) -> list[str]:
        """Wait at most that long; return the texts that came, "" for any change. Raises the driver's error."""

    def wake(self) -> None:
        """End the wait, or the next one, perhaps without a text. From any thread, even after `close`."""

    def expect_write(self) -> None:
        """Poll more often for a while, since this process is committing. From any thread."""

    def is_pooled(self) -> bool:
        """Return whether there is a pooler between this connection and the database."""
        return False

    def close(self) -> None:
        """Stop listening."""


class Dialect(Protocol):
    """One kind of database, reached through its driver."""

    name: str  # also of its folder and statement files
    lacks: frozenset[str] = frozenset()  # missing SQL features, by the names in `second_forms.py`
    has_schemas: bool = False  # tables can be in a named schema
    notifies: bool = False  # one connection can wake another through the database
    reports_writes: bool = False  # a listener learns of any write without a notification, by the operating system
    listen_url: str | None = None  # address for listening, if not the main one
    whole_trips: bool = False  # a transaction can be sent as one message; see `run_whole`
    writers: int | None = None  # number of concurrent write transactions; None: unlimited

    def connect(self) -> Any:
        """Open a connection. Raises the driver's error."""

    def missing_file(self) -> str | None:
        """Return the missing file that `connect` would create; None if it exists or there is no file."""
        return None

    def may_keep(self, conn: Any) -> bool:
        """Return whether an idle connection may be kept for the next transaction."""
        return True

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Register a method to call when idle connections must be closed; it is held weakly."""
        return None

    def may_use(self, conn: Any) -> bool:
        """Return whether an idle connection may be used. Raises StoreReplaced, StoreUnreachable."""
        return True

    def renew(self) -> None:
        """Drop connections after a failed write: no connection that is open now is kept by any holder."""
        return None

    def begin(
        self,
        conn: Any,
        *,
        bounded: bool,
        guarded: bool = False,
        lock_ms: int | None = None,
        first: Sequence[tuple[str, Params]] = (),
    ) -> list[Result]:
        """Begin a transaction that may write; run its first statements, in the same round trip if possible.

        Bounded: ours, and ended by a database that can do so when it waits or is idle too long. Guarded: `seal` can
        tell whether it is still open. `lock_ms`: longest wait for a lock, where several can write at once.
        """

    def seal(self, conn: Any) -> bool:
        """Switch to our bounded statements; return whether the guarded transaction is still the open one."""

    def state(self, conn: Any) -> TransactionState:
        """Return the state of the transaction as known to the driver, without a query."""

    def still_answers(self, conn: Any) -> bool:
        """Return whether only a session was lost, and the server of its transaction still runs; by a new connection."""
        return True

    def why_ended(self, error: Exception) -> str | None:
        """Return why the server ended a session or a statement, and the remedy; None if it did not."""
        return None

    def time_limits(self) -> dict[str, int]:
        """Return the set limits on sessions and statements in milliseconds, by name. Raises the driver's error."""
        return {}

    def sever(self, conn: Any) -> None:
        """Close a connection in use by another thread: its transaction ends, and that thread fails."""

    def begin_looking(self, conn: Any) -> None:
        """Begin a read-only transaction: all its statements see one snapshot, and it blocks no writer."""

    def read_only(self, conn: Any, text: str) -> list[Row]:
        """Run one statement of a user and return its rows; it can write nothing. Raises the driver's error."""

    def commit(self, conn: Any) -> None:
        """Commit the transaction."""

    def rollback(self, conn: Any) -> None:
        """Roll back; the connection may be broken already."""

    def close(self, conn: Any) -> None:
        """Close a connection in any state."""

    def execute(self, conn: Any, sql: str, params: Params) -> Result:
        """Run one statement; the dialect passes lists and `Rows` in its own way."""

    def execute_all(self, conn: Any, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Run statements in order, in one round trip if the driver can; at an error the rest is not run."""

    def run_whole(self, conn: Any, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Run a transaction in one round trip, where `whole_trips`. Raises unless the server confirms the commit."""
        self.begin(conn, bounded=True)
        results = self.execute_all(conn, calls)
        self.commit(conn)
        return results

    def bulk(self, conn: Any, sql: str, rows: Rows) -> None:
        """Run a statement for all rows; the columns are in the order of its parameters."""

    def run_script(self, conn: Any, script: str) -> None:
        """Run several statements without parameters inside the open transaction."""

    def serialize_migrations(self, conn: Any) -> None:
        """Inside the open transaction, make other migrations wait until this one has ended."""
        return None

    def notify(self, conn: Any, channel: str, word: str) -> None:
        """Notify the listeners of a channel; does nothing if the database has no notifications."""
        return None

    def listen(self, channel: str) -> NotificationListener:
        """Start to listen, on a new connection. Raises the driver's error."""

    def is_held(self) -> bool:
        """Return whether a transaction keeps all others from writing; never with concurrent writers."""
        return False

    def is_conflict(self, error: Exception) -> bool:
        """Return whether the transaction failed only because of others, so that a retry may succeed."""

    def is_away(self, error: Exception) -> bool:
        """Return whether the error means that the database is unreachable."""

    def translate(self, error: Exception) -> Error | None:
        """Return the Penstock error for a driver's error, or None to leave it."""
