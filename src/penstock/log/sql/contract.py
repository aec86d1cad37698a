"""What a database must be able to do for Penstock: the contract of a dialect.

A dialect is a folder with this class in `dialect.py`, `adapt.py` for the neutral SQL of statements,
`schema.sql` and `migrations/`. It knows its driver and nothing of what the statements mean. `database.py`
builds transactions, retries and names on top of it, the same for all.
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
    """What a statement gave: its rows, and how many rows it changed."""

    rows: list[Row]
    changed: int


class Rows:
    """A parameter that is a small table: columns of equal length, with names and order as the SQL has them.

    Each dialect hands it over in its own way: one array a column, or one JSON array of rows.
    """

    __slots__ = ("columns",)

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.columns = columns

    @classmethod
    def of(cls, columns: str, rows: Iterable[Row]) -> "Rows":
        """Return rows as a small table with these columns, of which there is at least one row."""
        values = zip(*rows, strict=True)
        return cls(**{column: list(each) for column, each in zip(columns.split(), values, strict=True)})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class Call(NamedTuple):
    """A named statement with its parameters, to be run with others."""

    room: str
    name: str
    params: Params


class TransactionState(Enum):
    """What has become of a transaction while others used its connection."""

    OPEN = auto()
    FAILED = auto()  # a statement failed: only a rollback can follow
    ENDED = auto()  # somebody committed it or rolled it back
    LOST = auto()  # the connection is gone


class NotificationListener(Protocol):
    """Waits for a signal from other connections that something may have come."""

    def wait(self, seconds: float) -> list[str]:
        """Wait at most that long; return the texts of the signals that came. Raises the driver's error.

        An empty text says that something came, but not what.
        """

    def hurry(self) -> None:
        """Expect a signal soon, since this process is committing: poll more often. From any thread."""

    def is_pooled(self) -> bool:
        """Return whether something stands between this connection and the database that answers."""

    def close(self) -> None:
        """End listening."""


class Dialect(Protocol):
    """One kind of database, reached through its driver."""

    name: str  # also that of its folder and of its files of statements
    lacks: frozenset[str]  # what statements have to do without; `second_forms.py` has the names
    has_schemas: bool  # tables can live in a named schema
    notifies: bool  # one connection can wake another through the database
    listen_url: str | None  # where it listens, if not where all else goes
    whole_trips: bool  # a transaction can go to the server as one message; see `run_whole`
    writers: int | None  # how many transactions can write at once; None: as many as there are

    def connect(self) -> Any:
        """Open a connection of ours. Raises the driver's error."""

    def missing_file(self) -> str | None:
        """Return the file that is not there yet and that `connect` would make; None where there is none."""

    def may_keep(self, conn: Any) -> bool:
        """Return whether a connection that is not in use may be kept for the next transaction."""

    def when_renewed(self, drop: Callable[[], None]) -> None:
        """Have a method called when connections that are kept are to be closed; it is held weakly."""

    def may_use(self, conn: Any) -> bool:
        """Return whether a connection that was kept may be used. Raises StoreReplaced, StoreUnreachable."""

    def renew(self) -> None:
        """Let connections that could not write go: none that is open now is kept, wherever it is held."""

    def begin(
        self,
        conn: Any,
        *,
        bounded: bool,
        guarded: bool = False,
        lock_ms: int | None = None,
        first: Sequence[tuple[str, Params]] = (),
    ) -> list[Result]:
        """Begin a transaction that may write; run its first statements, in the same trip if that can be.

        Bounded: it is ours, and where the database can, it ends one that waits or stands idle too long.
        Guarded: `seal` will tell whether it is still this one. `lock_ms`: how long it waits for a lock at
        most, where several can write at once.
        """

    def seal(self, conn: Any) -> bool:
        """Go over from a caller's statements to ours, bounded from here on.

        Return whether the guarded transaction is still open: nobody has ended it and begun another.
        """

    def state(self, conn: Any) -> TransactionState:
        """Return what has become of the transaction, as the driver knows without asking the database."""

    def still_answers(self, conn: Any) -> bool:
        """Return whether the server that a guarded transaction began on is there: only its session is lost.

        It asks over a connection of its own.
        """

    def why_ended(self, error: Exception) -> str | None:
        """Return why the server ended a session or a statement, and the remedy; None where it did not."""

    def time_limits(self) -> dict[str, int]:
        """Return the limits in milliseconds, by setting, after which the server ends what a caller does.

        Without those that are off. It asks over a connection of its own. Raises the driver's error.
        """

    def sever(self, conn: Any) -> None:
        """Close a connection that another thread uses: its transaction ends, and that thread fails."""

    def begin_looking(self, conn: Any) -> None:
        """Begin a transaction that only reads: all its statements see one moment, and it holds up nobody."""

    def read_only(self, conn: Any, text: str) -> list[Row]:
        """Run one statement of a user's, which can only read, and return its rows. Raises the driver's error.

        Whatever it says, nothing is written.
        """

    def commit(self, conn: Any) -> None:
        """Commit it."""

    def rollback(self, conn: Any) -> None:
        """Take it back; the connection may be broken already."""

    def close(self, conn: Any) -> None:
        """Close a connection, in whatever state."""

    def execute(self, conn: Any, sql: str, params: Params) -> Result:
        """Run one statement; lists and `Rows` among the parameters are handed over as the dialect can."""

    def execute_all(self, conn: Any, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Run statements one after the other, where the driver can without waiting for an answer in between.

        Each sees what those before it did. Raises the error of the first that fails; the rest is not run.
        """

    def run_whole(self, conn: Any, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Begin, run statements one after the other and commit, in one trip; only where `whole_trips`.

        Each sees what those before it did, and what others have committed by then. Raises unless the server
        says that it has committed; after an error of the server's nothing has.
        """

    def bulk(self, conn: Any, sql: str, rows: Rows) -> None:
        """Run a statement for all rows, whose columns are in the order of its parameters."""

    def run_script(self, conn: Any, script: str) -> None:
        """Run several statements without parameters inside the open transaction."""

    def serialize_migrations(self, conn: Any) -> None:
        """Make a second migration wait, inside the open transaction, until this one has ended."""

    def notify(self, conn: Any, channel: str, word: str) -> None:
        """Notify the listeners of a channel; nothing where the database has no notifications."""

    def listen(self, channel: str) -> NotificationListener:
        """Begin to listen, on a connection of its own. Raises the driver's error."""

    def is_held(self) -> bool:
        """Return whether a transaction keeps all others from writing; never where many may write at once."""

    def is_conflict(self, error: Exception) -> bool:
        """Return whether the transaction failed only because of others, so that it may be run again."""

    def is_away(self, error: Exception) -> bool:
        """Return whether the error means that the database cannot be reached now."""

    def translate(self, error: Exception) -> Error | None:
        """Return what the error means in Penstock's words, or None to let it stand."""
