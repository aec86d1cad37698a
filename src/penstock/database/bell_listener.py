"""Hearing the bell: learning through the database that other processes have published or sequenced.

A connection is not trusted until a notification has arrived on it: it notifies itself after connecting, because behind
a transaction pooler LISTEN succeeds and nothing ever arrives. While nothing can be heard (a pooler in between, the
database unreachable) the loops that the bell would wake poll, and are only slower; it retries from time to time.
"""

from collections.abc import Iterable
from contextlib import suppress
from secrets import token_hex
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import SYSTEM
from penstock.errors import BellUnheard

from .address import without_password
from .contract import NotificationListener
from .database import Database

LOGGED = "logged"  # notification: records were added to the log
_STAGED = "staged"  # notification: events were staged; the slots follow if known
_FLOOD = "staged flood "  # notification: events are staged for this many milliseconds, without one for each
_TEST = "test "

_LONGEST_FLOOD_SECONDS = 1.0  # upper bound for any notification
_TEST_SECONDS, _LAST_LOOK_SECONDS = 1.0, 0.01
_TEST_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 5.0, 300.0


def staged_word(slots: Iterable[int] | None) -> str:
    """Return the notification that events were staged."""
    return _STAGED if slots is None else f"{_STAGED} {','.join(map(str, slots))}"


def staged_slots(word: str) -> frozenset[int] | None:
    """Return the slots in a notification; None if it names none, or comes from another version."""
    kind, _, names = word.partition(" ")
    if kind != _STAGED or not names.replace(",", "").isdecimal():
        return None
    return frozenset(int(name) for name in names.split(",") if name)


def flood_word(seconds: float) -> str:
    """Return the notification that events will be staged for a time; older versions look everywhere, once."""
    return f"{_FLOOD}{seconds * 1000:.0f}"


def flood_seconds(word: str) -> float:
    """Return the time for which events will be staged without single notifications; 0 for any other text."""
    milliseconds = word.removeprefix(_FLOOD)
    is_flood = milliseconds != word and milliseconds.isdecimal()
    return min(int(milliseconds) / 1000, _LONGEST_FLOOD_SECONDS) if is_flood else 0.0


def is_test(word: str) -> bool:
    """Return whether a listener sent this to itself, as a test."""
    return word.startswith(_TEST)


def notify_others(database: Database, word: str) -> None:
    """Wake the workers of other processes; if that fails, their polling finds the change later."""
    with suppress(Exception):
        _notify(database, word)


def listen(database: Database) -> NotificationListener:
    """Return a listener that has passed its test. Raises BellUnheard, or the driver's error."""
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


def _is_heard(database: Database, listener: NotificationListener) -> bool:
    """Return whether a text from another connection arrives; its own would, even behind a pooler."""
    word = f"{_TEST}{token_hex(8)}"
    _notify(database, word)
    end = SYSTEM.monotonic() + _TEST_SECONDS
    while True:
        left = end - SYSTEM.monotonic()
        if word in listener.wait(max(left, _LAST_LOOK_SECONDS)):
            return True
        if left <= 0:  # checked after the read: it may have arrived while this process was paused
            return False


def _notify(database: Database, word: str) -> None:
    database.look(lambda tx: database.dialect.notify(tx.conn, _channel(database), word))


def _channel(database: Database) -> str:
    return database.names.table("bell")


class BellConnection:
    """Hears the bell in the thread that calls `wait`; the other methods are for any thread.

    It connects in a thread of its own, which ends when the connection has passed its test: a test that fails
    takes a second, and an unreachable database longer. Until then only time and `wake` end a wait.
    """

    def __init__(self, database: Database, polling: PollingSettings) -> None:
        self._database, self._backoff = database, Backoff("bell", polling)
        self._test_again = _TEST_AGAIN_SECONDS
        self._stopping, self._woken = Event(), Event()
        self._listener: NotificationListener | None = None
        self._is_new = False  # nothing was heard of what came before it
        self._connecting: Thread | None = None

    @property
    def hears(self) -> bool:
        """Whether other processes notify at once of every publish or move, so that no poll is needed."""
        return self._listener is not None and self._database.dialect.notifies

    @property
    def trouble(self) -> str:
        """Why it cannot hear, in words; empty while it can, or does not know yet."""
        return self._backoff.present_trouble

    def start(self, after_seconds: float = 0.0) -> None:
        """Begin to connect; returns at once."""
        name = "penstock-bell-connection"
        self._connecting = Thread(target=self._connect, args=(after_seconds,), name=name, daemon=True)
        self._connecting.start()

    def wait(self, seconds: float) -> list[str]:
        """Wait for texts, `wake` or that long; an empty text: something was missed. After an error it reconnects."""
        listener = self._listener
        if listener is None:
            self._woken.wait(seconds)
            self._woken.clear()
            return self._first()
        try:
            words = listener.wait(0 if self._woken.is_set() else seconds)
        except Exception as exc:
            self._listener = None
            listener.close()
            self.start(self._trouble(exc))
            return []
        self._woken.clear()
        self._backoff.is_well()
        return self._first() + words

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._woken.set()
        listener = self._listener
        if listener is not None:
            listener.wake()

    def expect_write(self) -> None:
        """Poll more often for a while: a publishing transaction of this process is ending."""
        listener = self._listener
        if listener is not None:
            listener.expect_write()

    def stop(self) -> None:
        """Let the present wait end, and connect no more; returns at once."""
        self._stopping.set()
        self.wake()

    def close(self) -> None:
        """Close the connection, in the thread that waits; returns when the thread that connects has ended."""
        self.stop()
        if self._connecting is not None:
            self._connecting.join()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _first(self) -> list[str]:
        """Return, once for each connection, the text for what may have come before it."""
        is_new, self._is_new = self._is_new, False
        return [""] if is_new else []

    def _trouble(self, error: Exception) -> float:
        return self._backoff.trouble(self._database.dialect.translate(error) or error)

    def _connect(self, after_seconds: float) -> None:
        self._stopping.wait(after_seconds)
        while not self._stopping.is_set():
            try:
                listener = listen(self._database)
            except BellUnheard as exc:
                self._backoff.warn_once(exc, "polling instead")
                self._stopping.wait(self._test_again)
                self._test_again = min(self._test_again * 2, _LONGEST_AGAIN_SECONDS)
            except Exception as exc:
                self._stopping.wait(self._trouble(exc))
            else:
                self._test_again, self._is_new = _TEST_AGAIN_SECONDS, True
                self._listener = listener
                self._woken.set()
                return
