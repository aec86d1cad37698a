"""Whether the code of a running process can use the tables: asked at its start, and again while it runs."""

import logging

from penstock.errors import SchemaError, SchemaTooNew

from .database import Database
from .migrations import SchemaState, check, known_version, refuse_too_new, stated

logger = logging.getLogger("penstock.database")


class SchemaWatch:
    """Checks the tables when they are first reached, then looks now and then whether they are still usable.

    Another process may migrate at any time. Newer tables that can be used are told once for each version; a
    refusal is kept, and is final. One thread at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._known = database, known_version(database)
        self._told = self._known
        self._is_checked = False
        self.refusal: SchemaError | None = None

    def look(self) -> None:
        """Check all, the first time; later ask by one statement whether a migration has made them unusable.

        Raises SchemaMissing and SchemaBehind the first time, SchemaTooNew every time.
        """
        if self._is_checked:
            self.see(self._database.look(stated))
            return
        try:
            found = check(self._database)
        except SchemaError as exc:
            self.refusal = exc
            raise
        self._is_checked = True
        self.see(found)

    def see(self, found: SchemaState) -> None:
        """Take note of what the tables say of themselves now. Raises SchemaTooNew."""
        try:
            refuse_too_new(found, self._known)
        except SchemaTooNew as exc:
            self.refusal = exc
            raise
        if found.version > self._told:
            logger.info(
                "the database has schema version %d, this Penstock knows %d and can still use it; "
                "update when you can",
                found.version,
                self._known,
            )
            self._told = found.version
