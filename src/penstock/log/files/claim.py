"""Whether a directory and the tables beside it belong together: looked at by all, settled by who writes.

Each start of a writer draws a mark and puts it into the directory, into the tables, and into the directory
again as confirmed. So parts of two times, or of two logs, are told from a crash in between (`identity.py`).
"""

import logging
from uuid import uuid4

from penstock.errors import LogMismatch, StoreDamaged, StoreFull, StoreLocked

from ..contract import LogIdentity
from ..sql.database import Database, Transaction
from ..sql.log import SqlLog
from . import tables as tables_file
from .copies import keep_copies
from .directory import LogDirectory
from .identity import DirectoryIdentity, read_identity, write_identity

logger = logging.getLogger("penstock.log")

_MARK = "files_mark"
_LOOKS = 3


class LogClaim:
    """The marks of one directory and its tables."""

    def __init__(self, directory: LogDirectory, database: Database, tables: SqlLog) -> None:
        self._directory, self._database, self._tables = directory, database, tables
        self._looked = False  # for damage

    def claim(self) -> None:
        """Make sure that directory and tables belong together, and mark this start in both.

        Raises LogMismatch, StoreDamaged.
        """
        self._refuse_damage()
        identity, known = self._tables.identity(), _read_mark(self._database)
        mismatch = self._mismatch(identity, known)
        if mismatch is not None:
            raise mismatch
        self._mark(identity, known)
        try:
            self._database.run(lambda tx: keep_copies(tx, self._database))
        except (StoreFull, StoreLocked) as exc:  # they help to find damage; what is there is served without
            logger.warning("the tables of %s have no copies yet: %s", self._directory.path, exc)

    def check(self) -> None:
        """Make sure that directory and tables belong together, without writing.

        Raises LogMismatch, and the first time StoreDamaged.
        """
        if not self._looked:
            self._refuse_damage()
        mismatch = None
        for _ in range(_LOOKS):  # a writer that starts may change both between two looks
            # The tables first: the directory knows the mark that they had before.
            mismatch = self._mismatch(self._tables.identity(), _read_mark(self._database))
            if mismatch is None:
                return
        assert mismatch is not None
        raise mismatch

    def accept(self, identity: LogIdentity) -> None:
        """Let both be of one time from now on, whatever they were. While nobody else writes."""
        self._mark(identity, _read_mark(self._database))

    def accept_in(self, tx: Transaction, identity: LogIdentity) -> DirectoryIdentity:
        """Put a new mark into the tables within a transaction; return what the directory is to say."""
        mark = uuid4().hex
        _put_mark(tx, mark)
        return DirectoryIdentity(*identity, mark, mark)

    def say(self, identity: DirectoryIdentity) -> None:
        """Let the directory say which log it is."""
        write_identity(self._directory.disk, self._directory.path, identity)

    def said(self) -> DirectoryIdentity | None:
        """Return what the directory says; None before anybody has written. Raises LogMismatch."""
        try:
            return read_identity(self._directory.disk, self._directory.path)
        except ValueError as exc:
            raise LogMismatch(str(self._directory.path), f"the file `identity` is damaged ({exc})") from exc

    def _refuse_damage(self) -> None:
        why = tables_file.start_damage(self._directory.path, self._database.names)
        if why is not None:
            raise StoreDamaged(str(self._directory.path / tables_file.NAME), why)
        self._looked = True

    def _mismatch(self, identity: LogIdentity, known: str) -> LogMismatch | None:
        """Return what is wrong with directory and tables, by what the tables say."""
        where, found = str(self._directory.path), self.said()
        if found is None:
            if known or self._directory.disk.names(self._directory.path / "topics"):
                return LogMismatch(where, "the file `identity` is missing")
        elif (found.log_id, found.incarnation) != identity:
            theirs = f"{found.log_id} ({found.incarnation})"
            ours = f"{identity.id} ({identity.incarnation})"
            return LogMismatch(where, f"the segments are of log {theirs}, the tables of {ours}")
        elif known not in (found.mark, found.known_mark):
            return LogMismatch(where, "one of them is of an earlier time than the other")
        return None

    def _mark(self, identity: LogIdentity, known: str) -> None:
        mark = uuid4().hex
        self.say(DirectoryIdentity(*identity, mark, known))
        self._database.run(lambda tx: _put_mark(tx, mark))
        self.say(DirectoryIdentity(*identity, mark, mark))


def _read_mark(database: Database) -> str:
    rows = database.look(lambda tx: tx.rows("log", "meta_read", name=_MARK))
    return str(rows[0][0]) if rows else ""


def _put_mark(tx: Transaction, mark: str) -> None:
    tx.change("log", "meta_forget", name=_MARK)
    tx.change("log", "meta_add", name=_MARK, value=mark)
