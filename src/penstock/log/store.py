"""A store: a log and a database, opened together.

The database holds staged rows, members, groups, cursors and lanes. The log is in the same database or
elsewhere: the rooms above need not know which, except where a guarantee depends on it (`is_one`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from penstock.clock import SYSTEM, Clock
from penstock.database.address import directory_in, short_name
from penstock.database.database import Database, Transaction
from penstock.database.dialects import open_database
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.database.url import StoreUrl, plain_url
from penstock.errors import InvalidName

from .contract import Log
from .sql.log import SqlLog

if TYPE_CHECKING:
    from .batches import BatchLog
from .topics import MessageBounds


@dataclass(frozen=True)
class Store:
    """The log and database of one installation. Safe from any thread."""

    log: Log
    database: Database
    url: str = ""

    @property
    def name(self) -> str:
        """Its name in metrics and probes: the address without login, and any schema or prefix of its own."""
        names = self.database.names
        own = [names.schema or "", "" if names.prefix == DEFAULT_PREFIX else names.prefix]
        return " ".join([short_name(self.url or self.database.where), *filter(None, own)])

    @cached_property
    def bounds(self) -> MessageBounds:
        """What topics take at once, for all who add records without the database's own transaction."""
        return MessageBounds(self.database)

    @property
    def is_one(self) -> bool:
        """Whether log and database are one, so that one transaction can change both."""
        return isinstance(self.log, SqlLog) and self.log.database is self.database

    @property
    def has_outbox(self) -> bool:
        """Whether events can be published here: not beside a log in files, whose tables hold no user data."""
        return self.is_one or getattr(self.log, "database", None) is not self.database

    def log_in(self, tx: Transaction) -> Log:
        """Return the log for use inside a transaction of the database.

        Where both are one, it reads and writes in that transaction. Elsewhere each call takes effect at once:
        make changes last, so that a crash before the commit does no harm.
        """
        return self.log.within(tx) if getattr(self.log, "database", None) is self.database else self.log

    def close(self) -> None:
        """Close the open connections and stop writing files."""
        self.log.close()
        self.database.close()


@runtime_checkable
class HasStore(Protocol):
    """An outbox, or anything else that has a store."""

    @property
    def store(self) -> Store:
        """The store."""


StoreLike = Store | Database | HasStore


def open_store(
    url: StoreUrl,
    names: Names | None = None,
    *,
    limit_seconds: float | None = None,
    listen_url: str | None = None,
    clock: Clock = SYSTEM,
) -> Store:
    """Return the store of a URL or SQLAlchemy engine, unopened. Options and errors are those of `open_database`."""
    plain = plain_url(url)
    directory = directory_in(plain)
    if directory is not None:
        return _open_files(directory, names or Names(), clock)
    database = open_database(plain, names or Names(), limit_seconds=limit_seconds, listen_url=listen_url)
    return Store(SqlLog(database, clock), database, plain)


def _open_files(directory: str, names: Names, clock: Clock) -> Store:
    from .files.log import open_file_log
    from .files.tables import TablesDialect

    if names.schema is not None:
        raise InvalidName("schema", names.schema, "is not supported by this store; set a prefix instead")
    database = Database(TablesDialect(directory), names)
    return Store(open_file_log(directory, database, clock), database, f"file://{directory}")


def store_of(source: StoreLike, clock: Clock = SYSTEM) -> Store:
    """Return the store of an outbox, a store itself, or a store that is wholly in this database."""
    if isinstance(source, Store):
        return source
    if isinstance(source, HasStore):
        return source.store
    return Store(SqlLog(source, clock), source)


def open_batches(store: Store, clock: Clock = SYSTEM, *, batch_bytes: int) -> "BatchLog":
    """Return a store's log for record batches. Raises MissingExtra, and the errors of a log that cannot be written."""
    if isinstance(store.log, SqlLog):
        from .sql.batches import SqlBatchLog

        return SqlBatchLog(store.log, clock, batch_bytes=batch_bytes)
    from .files.batch_log import FileBatchLog
    from .files.log import FileLog

    assert isinstance(store.log, FileLog)
    return FileBatchLog(store.log, clock, batch_bytes=batch_bytes)
