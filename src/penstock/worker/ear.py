"""The ear of a worker: hears through the database that others have published or sequenced something.

A thread with a connection of its own. When it cannot listen (the database is away, a pooler in between) the
loops that it would wake look by themselves, only less soon.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from penstock.log.sql.contract import Listener
from penstock.log.sql.database import Database

from .patience import Patience, PollingSettings

log = logging.getLogger("penstock.bell")

_WAIT_SECONDS = 0.5


def notify_others(database: Database) -> None:
    """Wake the workers of other processes; if that fails, they look by themselves, less soon."""
    with suppress(Exception):
        database.look(lambda tx: database.dialect.notify(tx.conn, _channel(database)))


def _channel(database: Database) -> str:
    """Return the channel on which the members of one set of tables wake each other."""
    return database.names.table("bell")


class Ear:
    """Runs in a thread of its own between `start` and `stop`."""

    def __init__(self, database: Database, polling: PollingSettings, heard: Callable[[], object]) -> None:
        self._database, self._heard = database, heard
        self._patience = Patience("bell", polling)
        self._stopping = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-ear", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End; returns when its connection is closed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            listener: Listener | None = None
            try:
                listener = self._database.dialect.listen(_channel(self._database))
                self._heard()  # what came before it listened
                while not self._stopping.is_set():
                    if listener.wait(_WAIT_SECONDS):
                        self._heard()
                    self._patience.is_well()
            except Exception as exc:
                translated = self._database.dialect.translate(exc)
                self._stopping.wait(self._patience.trouble(translated or exc))
            finally:
                if listener is not None:
                    listener.close()
