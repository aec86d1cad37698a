"""The bell listener of a worker: hears through the database that others have published or sequenced.

A thread with a connection of its own. It trusts no listening that it has not heard: after each connecting it
notifies itself, because behind a transaction pooler LISTEN succeeds and nothing ever comes. When it cannot
hear (a pooler in between, the database away) the loops that it would wake look by themselves, only less soon,
and it tries again from time to time.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from threading import Event, Thread

from penstock.clock import SYSTEM
from penstock.errors import BellUnheard
from penstock.log.sql.address import without_password
from penstock.log.sql.contract import Listener
from penstock.log.sql.database import Database

from .backoff import Backoff, PollingSettings

logger = logging.getLogger("penstock.bell")

LOGGED = "logged"  # what a notification says: records came into the log; else
_STAGED = "staged"  # events were staged, in these slots if it is known
_TEST = "test "

_WAIT_SECONDS = 0.5
_TEST_SECONDS, _LAST_LOOK_SECONDS = 1.0, 0.01
_TEST_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 5.0, 300.0


def staged_word(slots: Iterable[int] | None) -> str:
    """Return the word for events that were staged."""
    return _STAGED if slots is None else f"{_STAGED} {','.join(map(str, slots))}"


def staged_slots(word: str) -> frozenset[int] | None:
    """Return the slots that a word names; None when it names none, or is one of another version."""
    kind, _, names = word.partition(" ")
    if kind != _STAGED or not names.replace(",", "").isdecimal():
        return None
    return frozenset(int(name) for name in names.split(",") if name)


def is_test(word: str) -> bool:
    """Return whether somebody only tries whether they hear."""
    return word.startswith(_TEST)


def notify_others(database: Database, word: str) -> None:
    """Wake the workers of other processes; if that fails, they look by themselves, less soon."""
    with suppress(Exception):
        _notify(database, word)


def listen(database: Database) -> Listener:
    """Return a listener that is known to hear. Raises BellUnheard, or the driver's error."""
    dialect = database.dialect
    listener = dialect.listen(_channel(database))
    try:
        if dialect.notifies and not _is_heard(database, listener):
            where = str(dialect.listen_url or getattr(dialect, "url", dialect.name))
            raise BellUnheard(without_password(where), _TEST_SECONDS, pooled=listener.is_pooled())
    except BaseException:
        listener.close()
        raise
    return listener


def _is_heard(database: Database, listener: Listener) -> bool:
    """Return whether a word sent on another connection comes back; one's own would, even through a pooler."""
    word = f"{_TEST}{token_hex(8)}"
    _notify(database, word)
    end = SYSTEM.monotonic() + _TEST_SECONDS
    while True:
        left = end - SYSTEM.monotonic()
        if word in listener.wait(max(left, _LAST_LOOK_SECONDS)):
            return True
        if left <= 0:  # only after a look: a process that was held up may have heard meanwhile
            return False


def _notify(database: Database, word: str) -> None:
    database.look(lambda tx: database.dialect.notify(tx.conn, _channel(database), word))


def _channel(database: Database) -> str:
    """Return the channel on which the members of one set of tables wake each other."""
    return database.names.table("bell")


class BellListener:
    """Runs in a thread of its own between `start` and `stop`. `heard` gets the words that came."""

    def __init__(
        self, database: Database, polling: PollingSettings, heard: Callable[[Sequence[str]], object]
    ) -> None:
        self._database, self._heard = database, heard
        self._backoff = Backoff("bell", polling)
        self._test_again = _TEST_AGAIN_SECONDS
        self._stopping = Event()
        self._listener: Listener | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-bell-listener", daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Say that a transaction that published here has ended, or is just ending."""
        listener = self._listener
        if listener is not None:
            listener.hurry()

    def stop(self) -> None:
        """End; returns when its connection is closed."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except BellUnheard as exc:
                self._backoff.said_once(exc, "polling instead")
                self._stopping.wait(self._test_again)
                self._test_again = min(self._test_again * 2, _LONGEST_AGAIN_SECONDS)
            except Exception as exc:
                translated = self._database.dialect.translate(exc)
                self._stopping.wait(self._backoff.trouble(translated or exc))

    def _listen(self) -> None:
        self._listener = listener = listen(self._database)
        try:
            self._test_again = _TEST_AGAIN_SECONDS
            self._heard([""])  # what came before it listened
            while not self._stopping.is_set():
                words = listener.wait(_WAIT_SECONDS)
                if words:
                    self._heard(words)
                self._backoff.is_well()
        finally:
            self._listener = None
            listener.close()
