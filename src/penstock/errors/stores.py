"""Errors of the place where the data lives: connections, tables, files and commits."""

from collections.abc import Iterable
from typing import Any

from .base import Error, Fault, shown


class ConnectionRefused(Error, code="connection_refused", fault=Fault.CALLER):
    """`publish` cannot use the connection it was given."""


class NoOutbox(ConnectionRefused, code="no_outbox"):
    """The log is in files, so an event cannot join a transaction of the caller."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{what} needs an outbox in a database, but the log beside {where} is in files; add records with "
            "outbox.log.append(topic, records), or keep the outbox in the database of your own tables"
        )


class UnsupportedConnection(ConnectionRefused, code="unsupported_connection"):
    """No adapter supports this kind of connection, or it is of another kind than the outbox."""

    def __init__(self, conn: object, wanted: str, asked: str = "publish") -> None:
        cls = type(conn)
        super().__init__(f"{asked} got a {cls.__module__}.{cls.__qualname__}; {wanted}")


class NoTransaction(ConnectionRefused, code="no_transaction"):
    """The connection is in autocommit with no transaction open, so publish would be a second write."""

    def __init__(self, remedy: str) -> None:
        super().__init__(f"the connection is in autocommit and no transaction is open; {remedy}")
        self.remedy = remedy


class SchemaError(Error, code="schema", fault=Fault.CALLER):
    """The tables in the database are not as they should be."""


class NotMigrated(SchemaError, code="not_migrated"):
    """The tables are not those that this Penstock needs. `found` describes the difference, without the remedy."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(f"{found}; run outbox.migrate() or `penstock migrate --url …`")

    def replace_remedy(self, remedy: str) -> None:
        """Name a remedy that suits the caller better."""
        self.args = (f"{self.found}; {remedy}",)


class SchemaMissing(NotMigrated, code="schema_missing"):
    """The tables of Penstock are not in this database."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} is not in this database")


class StoreMissing(SchemaMissing, code="store_missing"):
    """There is no file at the address of the store, and reading does not create one."""

    def __init__(self, path: str) -> None:
        NotMigrated.__init__(self, f"there is no store at {path}")


class NoSuchSchema(SchemaError, code="no_such_schema"):
    """The database does not have the schema that was named for Penstock's tables."""

    def __init__(self, schema: str) -> None:
        super().__init__(f"this database has no schema {shown(schema)}; run CREATE SCHEMA {schema}, then migrate")


class SchemaBehind(NotMigrated, code="schema_behind"):
    """The tables are those of an older Penstock."""

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(f"the database has schema version {found}, but this Penstock needs {needed}")


class SchemaTooNew(SchemaError, code="schema_too_new"):
    """A newer Penstock has migrated this database, so this one can no longer use it."""

    def __init__(self, found: int, known: int, usable_from: int | None = None) -> None:
        usable = "" if usable_from is None else f" and can be used from version {usable_from} on"
        super().__init__(
            f"the database has schema version {found}{usable}, but this Penstock knows {known}; update Penstock here"
        )


class SchemaUnreleased(SchemaError, code="schema_unreleased"):
    """A development version of Penstock, from before the first release, has created these tables."""

    def __init__(self, found: int, first: int) -> None:
        super().__init__(
            f"the tables have schema version {found}, of an unreleased version of Penstock, and cannot be "
            f"migrated to {first}, the first released one; keep them, drain them with the Penstock that made "
            "them, and migrate another file, database, prefix or schema with this one"
        )


class SequenceCached(SchemaError, code="sequence_cached"):
    """The sequence that orders staged rows allocates its numbers in blocks."""

    def __init__(self, sequence: str, cache: int) -> None:
        super().__init__(
            f"sequence {sequence} has CACHE {cache}, so events of one key could be reordered; "
            f"run ALTER SEQUENCE {sequence} CACHE 1"
        )


class WrongEncoding(SchemaError, code="wrong_encoding"):
    """The database cannot store all Unicode text."""

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database is encoded in {encoding}, which cannot store all Unicode text; create one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


class StoreError(Error, code="store", fault=Fault.OUTSIDE):
    """The store cannot be read or written."""


class StoreUnreachable(StoreError, code="store_unreachable", retryable=True):
    """The file cannot be opened, or the server does not answer."""

    def __init__(self, where: str, why: str) -> None:
        reason = " ".join(why.split()) or "no reason given"  # servers answer in several lines
        super().__init__(f"the store {where} cannot be reached: {reason}")


class StoreFull(StoreError, code="store_full", retryable=True):
    """There is no space left; nothing was written."""

    def __init__(self, where: str) -> None:
        super().__init__(f"no space left for {where}; free some and try again: a waiting service continues on its own")


class StoreReadOnly(StoreError, code="store_read_only"):
    """The store cannot be written; nothing was written."""

    def __init__(self, where: str, remedy: str = "give this user write permission for the file and its folder") -> None:
        super().__init__(f"{where} cannot be written; {remedy}")


class StoreDamaged(StoreError, code="store_damaged"):
    """The file is damaged or not a database; Penstock has deleted nothing."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} is damaged or not a SQLite database ({why}); stop the programs that use it, keep a "
            f"copy, and restore a backup or save the readable part with `sqlite3 {where} .recover`"
        )


class StoreLocked(StoreError, code="store_locked", retryable=True):
    """Another process did not release its lock in time; nothing was written."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the store {where} is locked: another process has kept a transaction open for too long; end it, "
            "or try again"
        )


class StoreBusy(StoreError, code="store_busy", fault=Fault.CALLER, retryable=True):
    """Tables are not dropped while members are running."""

    def __init__(self, members: list[str]) -> None:
        super().__init__(
            f"{len(members)} members are running ({shown(', '.join(members))}): stop them first, or force it"
        )


class StoreReplaced(StoreError, code="store_replaced", fault=Fault.CALLER):
    """The tables or the file were replaced after they were opened, so cached facts no longer hold."""

    def __init__(self, file: str | None = None) -> None:
        if file is None:
            text = "the tables were dropped and recreated while this worker was running; restart it"
        else:
            text = (
                f"{file} was replaced by another file while it was open, for instance by a backup; "
                f"stop every program that uses it, remove {file}-wal and {file}-shm if they are older than "
                "it, and start again"
            )
        super().__init__(text)


class StoreUnsupported(StoreError, code="store_unsupported"):
    """This kind of store needs something that this Python does not have."""

    def __init__(self, store: str, needs: str) -> None:
        super().__init__(f"{store} needs {needs}")


class WriterElsewhere(StoreError, code="writer_elsewhere"):
    """Another process writes this log: only it may append, trim or erase."""

    def __init__(self, where: str, pid: str) -> None:
        super().__init__(
            f"process {pid} writes the log in {where}, and only that process may append, trim or erase; "
            "reach it through one of its ports, or stop it first"
        )
        self.pid = pid


class LogMismatch(StoreError, code="log_mismatch"):
    """A log in files and the SQLite file beside it come from different logs or different times."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the segments in {where} and the SQLite file beside them do not belong together: {why}; restore "
            "both from the same backup, or accept them and the loss: penstock restored"
        )


class PartitionUnwritable(StoreError, code="partition_unwritable", retryable=True):
    """The disk refused a write or a sync: the partition acknowledges nothing until a new segment succeeds."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} accepts no records: {why}; acknowledged records are kept and can be read. Check the "
            "disk: the partition recovers as soon as a new segment can be written"
        )


class FileUnreadable(StoreError, OSError, code="file_unreadable", retryable=True):
    """The system does not read a file of a log in files; its partition waits, the others do not.

    `path` is for this machine alone: the message names the file without its directory, for clients get it.
    """

    def __init__(self, path: str, why: str, number: int | None = None) -> None:
        """`number`: the system's number of the failure."""
        self.path = path
        self.why = (
            f"it cannot be read: {why}; check the disk, and let the user that runs Penstock read the file, "
            "for instance with chmod u+r; the other partitions are served, and nothing was deleted"
        )
        super().__init__(f"{'/'.join(path.split('/')[-3:])}: {self.why}")
        self.errno = number


class BufferFull(StoreError, code="buffer_full", retryable=True):
    """The write buffer has reached its limit; nothing was accepted."""

    def __init__(self, waiting: int, most: int) -> None:
        super().__init__(f"{waiting} bytes are waiting for the disk, and files.buffer_bytes is {most}; try again later")


class BellUnheard(StoreError, code="bell_unheard", retryable=True):
    """A test notification did not come back, so listeners on that connection receive nothing."""

    def __init__(self, where: str, seconds: float, pooled: bool) -> None:
        cause = "a pooler is in between" if pooled else "a pooler may be in between"
        super().__init__(
            f"notifications do not arrive through {where}: none came back within {seconds:g} s, and {cause}; "
            "set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to the direct address of the database. Until "
            "then workers poll: often at first, and when idle every polling.longest_seconds"
        )
        self.where, self.pooled = where, pooled


class CommitOutcomeUnknown(Error, code="commit_outcome_unknown", fault=Fault.OUTSIDE):
    """The commit is in doubt; look up its outcome by its `tokens`."""

    def __init__(self, why: str, tokens: Iterable[Any]) -> None:
        self.tokens = tuple(tokens)
        remedy = (
            "ask outbox.published(None, token) for one of its tokens: "
            + ", ".join(shown(token) for token in self.tokens[:3])
            if self.tokens
            else "publish with token=... so that outbox.published(None, token) can tell"
        )
        super().__init__(f"the commit is in doubt ({why}); {remedy}")
