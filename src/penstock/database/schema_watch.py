"""Checks that a running process can use the tables, at its start and again while it runs."""

import logging

from penstock.errors import SchemaError, SchemaTooNew

from .database import Database
from .migrations import SchemaState, check, known_version, refuse_too_new, stated

logger = logging.getLogger("penstock.database")


class SchemaWatch:
    """Checks the tables on first use, and rechecks from time to time that they are still usable.

    Another process may migrate at any time. Usable newer tables are logged once for each version; a refusal
    is kept, and is final. One thread at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._known = database, known_version(database)
        self._logged = self._known
        self._is_checked = False
        self.refusal: SchemaError | None = None

    def look(self) -> None:
        """Run all checks on the first call; later check that no migration has made the tables unusable.

        Later calls run one statement. Raises SchemaMissing and SchemaBehind on the first call, SchemaTooNew
        on any.
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
        """Record the present schema state. Raises SchemaTooNew."""
        try:
            refuse_too_new(found, self._known)
        except SchemaTooNew as exc:
            self.refusal = exc
            raise
        if found.version > self._logged:
            logger.info(
                "the database has schema version %d, this Penstock knows %d and can still use it; update when you can",
                found.version,
                self._known,
            )
            self._logged = found.version
