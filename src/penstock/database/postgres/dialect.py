"""PostgreSQL through psycopg 3.

Works behind a transaction pooler: no prepared statements, no session state; each transaction sets its own
settings. Each of our transactions is READ COMMITTED and has time limits, so that an owner paused inside one
cannot keep its successor waiting: the server ends it.
"""

import os
import select
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Self

from penstock.clock import SYSTEM
from penstock.errors import (
    Error,
    InvalidUrl,
    MissingExtra,
    NoSuchSchema,
    SchemaMissing,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)

from ..address import without_password
from ..contract import Dialect, NotificationListener, Params, Result, Row, Rows, TransactionState
from ..end_statements import HandlerConnection, refuse_end
from .prepared import PreparedStatements
from .time_limits import read_limits, why_ended

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.rows import tuple_row
    from psycopg.sql import SQL, Composable, Identifier, Literal
except ImportError as exc:
    raise MissingExtra("a postgresql:// store", "postgres") from exc

DEFAULT_LIMIT_SECONDS = 15.0  # half of the default lease
# Connection options, unless the address sets them.
_DEFAULTS = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
_FORM = "postgresql://user@host:port/database"
_NOTIFY = SQL("BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY {}, {}; COMMIT")
_MIGRATION_LOCK = 0x70656E73746F636B  # "penstock"

_STEP_SECONDS = 0.05  # of a wait that cannot be ended by another thread
_CONFLICTS = (pg.SerializationFailure, pg.DeadlockDetected, pg.LockNotAvailable)
_GUARD = (
    ";SET LOCAL penstock.unit = '1';SELECT pg_backend_pid(), pg_postmaster_start_time(), "
    "current_setting('role'), current_setting('search_path')"
)
_RESTORE = SQL(";SELECT set_config({0}, {1}, false) WHERE current_setting({0}) <> {1}")
_CHECK = ";SET CONSTRAINTS ALL IMMEDIATE;SET CONSTRAINTS ALL DEFERRED"
_LOOK_FOR_MARK = ";SELECT current_setting('penstock.unit', true)"
_STATUS = psycopg.pq.TransactionStatus
_STATES = {
    _STATUS.INTRANS: TransactionState.OPEN,
    _STATUS.ACTIVE: TransactionState.OPEN,
    _STATUS.INERROR: TransactionState.FAILED,
    _STATUS.IDLE: TransactionState.ENDED,
}
# Messages of a pooler, under the code of a protocol violation, while the server behind it is down.
_POOLER_AWAY = ("server login has been failing", "cannot connect to server", "query_wait_timeout")
_AWAY = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.IdleInTransactionSessionTimeout,
    pg.TooManyConnections,
)
_WRITABLE = "connect to the primary, and check that default_transaction_read_only is off"


class PostgresHandlerCursor(psycopg.Cursor[Any]):
    """A cursor that a handler may use: it cannot end the transaction of `record.tx`."""

    def execute(self, query: Any, *args: Any, **options: Any) -> Self:
        """Execute a statement; refuse one of a handler that would end the transaction."""
        self._refuse_end(query)
        return super().execute(query, *args, **options)

    def executemany(self, query: Any, *args: Any, **options: Any) -> None:
        """Execute a statement for many rows; refuse one of a handler that would end the transaction."""
        self._refuse_end(query)
        super().executemany(query, *args, **options)

    def _refuse_end(self, query: Any) -> None:
        if getattr(self.connection, "guarded", False):
            text = query.as_string(self.connection) if isinstance(query, Composable) else query
            refuse_end(text, several=True)


class PostgresConnection(HandlerConnection, psycopg.Connection[Any]):
    """Our connection; while a handler has it as `record.tx`, it cannot end the transaction."""

    server_pid = 0  # of a guarded transaction, from the server: a pooler reports another to the driver
    server_started: Any = None  # start time of a guarded transaction's server
    began_as: tuple[str, ...] = ("", "")  # role and search path at the start of a guarded transaction
    statements: PreparedStatements | None = None  # set once it is known whether they are allowed

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = PostgresHandlerCursor

    def restore(self) -> None:
        """Read rows and make cursors as before: a caller may have set other factories."""
        if self.row_factory is not tuple_row:
            self.row_factory = tuple_row
        if self.cursor_factory is not PostgresHandlerCursor:
            self.cursor_factory = PostgresHandlerCursor

    def close(self) -> None:
        """Close; refuse it to a handler."""
        self.refuse("close()")
        super().close()


class PostgresDialect(Dialect):
    """One PostgreSQL database: sessions are independent, and `may_use` notices a lost one."""

    name = "postgres"
    has_schemas = True
    notifies = True
    whole_trips = True

    def __init__(
        self, url: str, *, limit_seconds: float = DEFAULT_LIMIT_SECONDS, listen_url: str | None = None
    ) -> None:
        self.url, self.listen_url = url, listen_url
        self._limit_ms = max(1, int(limit_seconds * 1000))
        self._defaults = _DEFAULTS | {"tcp_user_timeout": self._limit_ms}
        self._bounds = (
            f";SET LOCAL lock_timeout = {self._limit_ms}"
            f";SET LOCAL idle_in_transaction_session_timeout = {self._limit_ms}"
        )

    def connect(self) -> PostgresConnection:
        """Open a connection in autocommit mode: we send BEGIN and COMMIT."""
        return self._connected(self.url)

    def _connected(self, url: str) -> PostgresConnection:
        try:
            given = conninfo_to_dict(url)
            defaults: dict[str, Any] = {name: value for name, value in self._defaults.items() if name not in given}
            return PostgresConnection.connect(
                url, autocommit=True, prepare_threshold=None, application_name="penstock", **defaults
            )
        except psycopg.ProgrammingError:  # the driver cannot read the address
            # Without its cause: the driver's message quotes the whole address, with its password.
            raise InvalidUrl(without_password(url), [_FORM]) from None

    def may_use(self, conn: "psycopg.Connection[Any]") -> bool:
        """Return whether the server has sent nothing since: it tells an idle session that it ends it."""
        if conn.closed:
            return False
        if not hasattr(select, "poll"):  # on Windows, where the next use finds out
            return True
        poll = select.poll()
        poll.register(conn.fileno(), select.POLLIN)
        return not poll.poll(0)

    def begin(
        self,
        conn: PostgresConnection,
        *,
        bounded: bool,
        guarded: bool = False,
        lock_ms: int | None = None,
        first: Sequence[tuple[str, Params]] = (),
    ) -> list[Result]:
        """Begin, with isolation level and time limits, in one round trip."""
        conn.guarded = guarded
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED" + (self._bounds if bounded else "")
        if lock_ms is not None:
            begin += f";SET LOCAL lock_timeout = {min(lock_ms, self._limit_ms)}"
        results = _run_all(conn, [begin + (_GUARD if guarded else ""), *_texts(conn, first)])
        if guarded:
            ((conn.server_pid, conn.server_started, *began_as),) = results[-1 - len(first)].rows
            conn.began_as = tuple(began_as)
        return results[len(results) - len(first) :]

    def seal(self, conn: PostgresConnection) -> bool:
        """Set the bounds and look for the mark, which ends with the transaction that set it.

        Deferred constraints are checked here, not by the COMMIT: so a violation is found while it is certain
        that nothing is committed. Then role and search path are restored for our statements.
        """
        conn.guarded = False
        conn.restore()
        cursor = psycopg.Cursor(conn, row_factory=tuple_row)
        settings = zip(("role", "search_path"), conn.began_as, strict=True)
        restore = "".join(_RESTORE.format(*each).as_string(conn) for each in settings)
        cursor.execute(self._bounds[1:] + _CHECK + restore + _LOOK_FOR_MARK)
        while cursor.nextset():
            pass
        return cursor.fetchone() == ("1",)

    def state(self, conn: "psycopg.Connection[Any]") -> TransactionState:
        """Ask the driver, which learns the state with each response of the server."""
        state = _STATES.get(conn.info.transaction_status)
        if state is None:
            return TransactionState.LOST if conn.broken else TransactionState.ENDED  # else the caller closed it
        return state

    def still_answers(self, conn: PostgresConnection) -> bool:
        """Compare the server's start time: after a restart or a failover every session is lost."""
        try:
            with self.connect() as own:
                found = own.execute("SELECT pg_postmaster_start_time()").fetchone()
        except psycopg.Error:
            return False
        return found == (conn.server_started,)

    def why_ended(self, error: Exception) -> str | None:
        return why_ended(error, self.time_limits)

    def time_limits(self) -> dict[str, int]:
        with self.connect() as own:
            return read_limits(own)

    def sever(self, conn: PostgresConnection) -> None:
        """Make the server end the session; another thread uses the driver's side."""
        with self.connect() as own:
            own.execute("SELECT pg_terminate_backend(%s)", (conn.server_pid,))

    def begin_looking(self, conn: "psycopg.Connection[Any]") -> None:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + self._bounds)

    def read_only(self, conn: PostgresConnection, text: str) -> list[Row]:
        """Run it in a read-only transaction; a binary query is a single statement, so it cannot end that."""
        self.begin_looking(conn)
        try:
            cursor = psycopg.Cursor(conn, row_factory=tuple_row)
            cursor.execute(text, binary=True)
            return cursor.fetchall() if cursor.description else []
        finally:
            self.rollback(conn)

    def commit(self, conn: PostgresConnection) -> None:
        """Commit. Raises after a failed statement: the server then answers COMMIT with a rollback."""
        conn.restore()
        if conn.execute("COMMIT").statusmessage != "COMMIT":
            raise pg.InFailedSqlTransaction("a statement of this transaction had failed: nothing is committed")

    def rollback(self, conn: PostgresConnection) -> None:
        conn.guarded = False
        conn.restore()
        conn.execute("ROLLBACK")

    def close(self, conn: "psycopg.Connection[Any]") -> None:
        with suppress(psycopg.Error):
            conn.close()

    def execute(self, conn: "psycopg.Connection[Any]", sql: str, params: Params) -> Result:
        """Run one statement; results come in binary, which halves the cost of reading them."""
        cursor = psycopg.Cursor(conn, row_factory=tuple_row)  # a caller may have set another one
        return _result(cursor.execute(sql, _flat(params), binary=True))

    def execute_all(self, conn: "psycopg.Connection[Any]", calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Run statements as one message. A pipeline ends with a Flush, after which the idle time limit is ignored."""
        return _run_all(conn, _texts(conn, calls))

    def run_whole(self, conn: PostgresConnection, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        """Send it as one message: cut off halfway, a pipeline would leave a transaction that no time limit ends."""
        if conn.statements is None:
            conn.statements = PreparedStatements(conn, self._bounds[1:].replace("SET LOCAL", "SET"))
        statements = conn.statements
        if not statements.are_allowed:
            return self._run_whole(conn, self._bounds, _texts(conn, calls))
        try:
            return self._run_whole(conn, "", [statements.execute(*each) for each in calls])
        except statements.LOST:
            conn.execute("ROLLBACK")  # nothing has been committed
            statements.are_allowed = False
            return self._run_whole(conn, self._bounds, _texts(conn, calls))

    def _run_whole(self, conn: PostgresConnection, settings: str, statements: list[str]) -> list[Result]:
        """Return the results of the statements; only the answer COMMIT confirms the commit."""
        conn.guarded = False
        cursor = psycopg.Cursor(conn, row_factory=tuple_row)
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED" + settings
        cursor.execute(";".join([begin, *statements, "COMMIT"]), prepare=False)
        results = _results(cursor)
        if cursor.statusmessage != "COMMIT":
            raise pg.InFailedSqlTransaction("the server did not confirm COMMIT: nothing is committed")
        return results[-1 - len(statements) : -1]

    def bulk(self, conn: "psycopg.Connection[Any]", sql: str, rows: Rows) -> None:
        conn.execute(sql, list(rows.columns.values()))

    def run_script(self, conn: "psycopg.Connection[Any]", script: str) -> None:
        conn.execute(script)

    def serialize_migrations(self, conn: "psycopg.Connection[Any]") -> None:
        """Take a lock that ends with the transaction, which works behind a pooler."""
        conn.execute("SET LOCAL lock_timeout = '10min'")
        conn.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))

    def notify(self, conn: "psycopg.Connection[Any]", channel: str, word: str) -> None:
        """Notify in a separate transaction without waiting for the disk: it need not survive a crash."""
        conn.execute(_NOTIFY.format(Identifier(channel), Literal(word)))

    def listen(self, channel: str) -> "PostgresListener":
        return PostgresListener(self._connected(self.listen_url or self.url), channel)

    def is_conflict(self, error: Exception) -> bool:
        return isinstance(error, _CONFLICTS)

    def is_away(self, error: Exception) -> bool:
        lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        if isinstance(error, pg.ProtocolViolation):
            return any(each in str(error) for each in _POOLER_AWAY)
        return lost or isinstance(error, _AWAY)

    def translate(self, error: Exception) -> Error | None:
        if self.is_away(error):
            return StoreUnreachable(without_password(self.url), str(error))
        if isinstance(error, pg.DiskFull):
            return StoreFull("the database")
        if isinstance(error, pg.ReadOnlySqlTransaction):
            return StoreReadOnly("the database", _WRITABLE)
        if isinstance(error, pg.InvalidSchemaName):
            return NoSuchSchema(_named(error))
        return missing_table(error)


class PostgresListener(NotificationListener):
    """A session that receives NOTIFY."""

    def __init__(self, conn: "psycopg.Connection[Any]", channel: str) -> None:
        self._conn = conn
        self._poll = select.poll() if hasattr(select, "poll") else None  # not on Windows
        self._calls: tuple[int, int] | None = None
        self._lock, self._is_woken = Lock(), False
        if self._poll is not None:
            self._calls = os.pipe()
            for file in (conn.fileno(), self._calls[0]):
                self._poll.register(file, select.POLLIN)
        try:
            conn.execute(SQL("LISTEN {}").format(Identifier(channel)))
        except BaseException:
            self.close()
            raise

    def wait(self, seconds: float) -> list[str]:
        """Return the first notification's text, and those with it; one is lost only while a statement runs here."""
        if self._poll is None:
            return self._wait_in_steps(seconds)
        ready = [file for file, _ in self._poll.poll(max(seconds, 0) * 1000)]
        if self._calls is not None and self._calls[0] in ready:
            self._is_woken = False  # first: a call that comes after it writes another byte
            os.read(self._calls[0], 4096)
        if self._conn.fileno() not in ready:
            return []
        pgconn, words = self._conn.pgconn, list[str]()  # the driver's own method takes ten times as long
        pgconn.consume_input()
        while (each := pgconn.notifies()) is not None:
            words.append(each.extra.decode())
        return words

    def wake(self) -> None:
        with self._lock:  # otherwise the pipe might be closed meanwhile, and its number reused
            if not self._is_woken:
                self._is_woken = True
                if self._calls is not None:
                    os.write(self._calls[1], b"\1")

    def expect_write(self) -> None:
        """Nothing to do: notifications are pushed."""

    def is_pooled(self) -> bool:
        """Return whether the answering backend differs from the announced one, which poolers invent."""
        [answering] = self._conn.execute("SELECT pg_backend_pid()").fetchone() or [None]
        return bool(answering != self._conn.info.backend_pid)

    def close(self) -> None:
        self._conn.close()
        with self._lock:
            calls, self._calls = self._calls, None
            for file in calls or ():
                os.close(file)

    def _wait_in_steps(self, seconds: float) -> list[str]:
        """Wait where a wait cannot be ended by another thread."""
        end = SYSTEM.monotonic() + seconds
        while True:
            left = max(end - SYSTEM.monotonic(), 0.0)
            found = self._conn.notifies(timeout=min(left, _STEP_SECONDS), stop_after=1)
            if (words := [each.payload for each in found]) or self._is_woken or not left:
                self._is_woken = False
                return words


def _flat(params: Params) -> dict[str, Any]:
    """Return the parameters for the driver: one array per column, number lists as text."""
    flat: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Rows):
            flat.update((f"{name}.{column}", values) for column, values in value.columns.items())
        else:
            flat[name] = value
    for name, value in flat.items():
        if type(value) is list and value and all(type(each) is int for each in value):
            flat[name] = f"{{{str(value)[1:-1]}}}"  # the driver takes 2 us per number for the same text
    return flat


def _texts(conn: "psycopg.Connection[Any]", calls: Sequence[tuple[str, Params]]) -> list[str]:
    if not calls:
        return []
    cursor = psycopg.ClientCursor(conn)
    return [cursor.mogrify(sql, _flat(params)).rstrip(";") for sql, params in calls]


def _run_all(conn: "psycopg.Connection[Any]", statements: Sequence[str]) -> list[Result]:
    cursor = psycopg.Cursor(conn, row_factory=tuple_row)
    cursor.execute(";".join(statements))
    return _results(cursor)


def _results(cursor: "psycopg.Cursor[Row]") -> list[Result]:
    results = [_result(cursor)]
    while cursor.nextset():
        results.append(_result(cursor))
    return results


def _result(cursor: "psycopg.Cursor[Row]") -> Result:
    result = cursor.pgresult  # not `description`: that makes an object for each column
    return Result(cursor.fetchall() if result is not None and result.nfields else [], cursor.rowcount)


def missing_table(error: Exception) -> SchemaMissing | None:
    """Return SchemaMissing for PostgreSQL's error of a missing table."""
    return SchemaMissing(_named(error) or "penstock_*") if isinstance(error, pg.UndefinedTable) else None


def _named(error: psycopg.Error) -> str:
    _, _, rest = (error.diag.message_primary or "").partition('"')
    return rest.partition('"')[0]
