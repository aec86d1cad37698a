"""Checks that a directory and the tables beside it belong together; the writer marks both.

Each start of a writer draws a random mark and writes it to the directory, to the tables, and to the directory again as
confirmed. So parts from two points in time, or of two logs, can be told from a crash in between (`small_files.py`).
"""

import logging
from uuid import uuid4

from penstock.database.database import Database, Transaction
from penstock.errors import LogMismatch, StoreDamaged, StoreFull, StoreLocked

from ..contract import LogIdentity
from ..sql.log import SqlLog
from ..topics import topic_uuid
from . import tables as tables_file
from .directory import TOPICS, LogDirectory
from .small_files import DirectoryIdentity, read_identity, write_identity

logger = logging.getLogger("penstock.log")

_MARK = "files_mark"
_LOOKS = 3
_AHEAD = 1000  # numbers of topics that are looked for


class LogClaim:
    """The marks of one directory and its tables."""

    def __init__(self, directory: LogDirectory, database: Database, tables: SqlLog) -> None:
        self._directory, self._database, self._tables = directory, database, tables
        self._looked = False  # checked for damage

    def claim(self) -> None:
        """Check that directory and tables belong together, and mark this start. Raises LogMismatch, StoreDamaged."""
        self._refuse_damage()
        identity, known = self._tables.identity(), _read_mark(self._database)
        self._compare(identity, known)
        self._mark(identity, known)
        try:
            self._database.run(lambda tx: tables_file.keep_copies(tx, self._database))
        except (StoreFull, StoreLocked) as exc:  # copies only help to find damage; the log works without them
            logger.warning("the tables of %s have no copies yet: %s", self._directory.path, exc)

    def check(self) -> None:
        """Check it without writing. Raises LogMismatch, and on the first call StoreDamaged."""
        if not self._looked:
            self._refuse_damage()
        for look in range(_LOOKS):  # a starting writer may change both between two reads
            try:  # the tables first: the directory also holds their previous mark
                return self._compare(self._tables.identity(), _read_mark(self._database))
            except LogMismatch:
                if look == _LOOKS - 1:
                    raise

    def accept(self, identity: LogIdentity) -> None:
        """Mark both as belonging together from now on. Call it while no other process writes."""
        self._mark(identity, _read_mark(self._database))

    def accept_in(self, tx: Transaction, identity: LogIdentity) -> DirectoryIdentity:
        """Put a new mark into the tables in a transaction; return the identity to write to the directory."""
        mark = uuid4().hex
        _put_mark(tx, mark)
        return DirectoryIdentity(*identity, mark, mark)

    def write(self, identity: DirectoryIdentity) -> None:
        """Write the identity of the directory."""
        write_identity(self._directory.disk, self._directory.path, identity)

    def read(self) -> DirectoryIdentity | None:
        """Return the identity of the directory; None before the first write. Raises LogMismatch."""
        try:
            return read_identity(self._directory.disk, self._directory.path)
        except ValueError as exc:
            raise LogMismatch(str(self._directory.path), f"the file `identity` is damaged ({exc})") from exc

    def _refuse_damage(self) -> None:
        why = tables_file.start_damage(self._directory.path, self._database.names)
        if why is not None:
            raise StoreDamaged(str(self._directory.path / tables_file.NAME), why)
        self._looked = True

    def _compare(self, identity: LogIdentity, known: str) -> None:
        """Compare directory and tables. `known`: the mark in the tables. Raises LogMismatch."""
        where, found = str(self._directory.path), self.read()
        if found is None:
            if known or self._directory.disk.names(self._directory.path / "topics"):
                raise LogMismatch(where, "the file `identity` is missing")
        elif (found.log_id, found.incarnation) != identity:
            theirs = f"{found.log_id} ({found.incarnation})"
            ours = f"{identity.id} ({identity.incarnation})"
            raise LogMismatch(where, f"the segments are of log {theirs}, the tables of {ours}")
        elif known not in (found.mark, found.known_mark):
            raise LogMismatch(where, "one of them is older than the other")
        elif self._database.look(self._newer_topics):
            raise LogMismatch(where, "the tables are older: they do not know a topic that has segments")

    def pass_over_newer(self, tx: Transaction) -> None:
        """Give the numbers of topics that the tables do not know to no new topic: it would take over their segments."""
        for number in self._newer_topics(tx)[-1:]:
            tx.change("log", "topic_number_take", number=number)
            tx.change("log", "topic_delete", topic_id=number)

    def _newer_topics(self, tx: Transaction) -> list[int]:
        """Return the numbers of topics that have a folder and that the tables never gave; deleted ones were given."""
        # Folders first: a row comes before its folder, so a topic made meanwhile is not taken for a newer one.
        folders = set(self._directory.disk.names(self._directory.path / TOPICS))
        ((given,),) = tx.rows("log", "topic_numbers_given")
        ((log_id,),) = tx.rows("database", "meta_read", name="log_id")
        return [each for each in range(given + 1, given + _AHEAD) if str(topic_uuid(log_id, each)) in folders]

    def _mark(self, identity: LogIdentity, known: str) -> None:
        mark = uuid4().hex
        self.write(DirectoryIdentity(*identity, mark, known))
        self._database.run(lambda tx: _put_mark(tx, mark))
        self.write(DirectoryIdentity(*identity, mark, mark))


def _read_mark(database: Database) -> str:
    rows = database.look(lambda tx: tx.rows("database", "meta_read", name=_MARK))
    return str(rows[0][0]) if rows else ""


def _put_mark(tx: Transaction, mark: str) -> None:
    tx.change("database", "meta_forget", name=_MARK)
    tx.change("database", "meta_add", name=_MARK, value=mark)
