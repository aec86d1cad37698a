"""The bell listener: hears through the database that others have published or sequenced.

A thread with a connection of its own. It does not trust a connection until it has heard something on it: it
notifies itself after connecting, because behind a transaction pooler LISTEN succeeds and nothing ever comes.
When it cannot hear (a pooler in between, the database away) the loops that it would wake poll, and are only
slower; it tries again from time to time.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from threading import Event, Thread

from penstock.backoff import Backoff, PollingSettings
from penstock.clock import SYSTEM
from penstock.errors import BellUnheard

from .address import without_password
from .contract import NotificationListener
from .database import Database

LOGGED = "logged"  # the text of a notification: records came into the log
_STAGED = "staged"  # or events were staged; the slots follow if they are known
_FLOOD = "staged flood "  # or are staged for so many milliseconds, without a word for each
_TEST = "test "

_WAIT_SECONDS = 0.5
_LONGEST_FLOOD_SECONDS = 1.0  # whatever a text says
_TEST_SECONDS, _LAST_LOOK_SECONDS = 1.0, 0.01
_TEST_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 5.0, 300.0


def staged_word(slots: Iterable[int] | None) -> str:
    """Return the text that says events were staged."""
    return _STAGED if slots is None else f"{_STAGED} {','.join(map(str, slots))}"


def staged_slots(word: str) -> frozenset[int] | None:
    """Return the slots that a text names; None if it names none, or comes from another version."""
    kind, _, names = word.partition(" ")
    if kind != _STAGED or not names.replace(",", "").isdecimal():
        return None
    return frozenset(int(name) for name in names.split(",") if name)


def flood_word(seconds: float) -> str:
    """Return the text that says events will be staged for so long; older versions look everywhere, once."""
    return f"{_FLOOD}{seconds * 1000:.0f}"


def flood_seconds(word: str) -> float:
    """Return for how long events will be staged without a word for each; 0 if a text does not say that."""
    milliseconds = word.removeprefix(_FLOOD)
    is_flood = milliseconds != word and milliseconds.isdecimal()
    return min(int(milliseconds) / 1000, _LONGEST_FLOOD_SECONDS) if is_flood else 0.0


def is_test(word: str) -> bool:
    """Return whether a listener sent this to itself, to find out whether it hears."""
    return word.startswith(_TEST)


def notify_others(database: Database, word: str) -> None:
    """Wake the workers of other processes; if that fails, they find out later, by polling."""
    with suppress(Exception):
        _notify(database, word)


def listen(database: Database) -> NotificationListener:
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


def _is_heard(database: Database, listener: NotificationListener) -> bool:
    """Return whether a text sent on another connection arrives; on its own it would, even behind a pooler."""
    word = f"{_TEST}{token_hex(8)}"
    _notify(database, word)
    end = SYSTEM.monotonic() + _TEST_SECONDS
    while True:
        left = end - SYSTEM.monotonic()
        if word in listener.wait(max(left, _LAST_LOOK_SECONDS)):
            return True
        if left <= 0:  # asked after the look: a process that was paused may have heard it meanwhile
            return False


def _notify(database: Database, word: str) -> None:
    database.look(lambda tx: database.dialect.notify(tx.conn, _channel(database), word))


def _channel(database: Database) -> str:
    """Return the channel on which the members of one set of tables wake each other."""
    return database.names.table("bell")


class BellListener:
    """Runs in a thread of its own between `start` and `stop`. `heard` is given the texts that arrive."""

    def __init__(
        self, database: Database, polling: PollingSettings, heard: Callable[[Sequence[str]], object]
    ) -> None:
        self._database, self._heard = database, heard
        self._backoff = Backoff("bell", polling)
        self._test_again = _TEST_AGAIN_SECONDS
        self._stopping = Event()
        self._listener: NotificationListener | None = None
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

    @property
    def hears(self) -> bool:
        """Whether others tell it at once of all that they publish or sequence: it need not be looked for."""
        return self._listener is not None and self._database.dialect.notifies

    @property
    def trouble(self) -> str:
        """Why it does not hear, in words; empty while it does, or has not found out yet."""
        return self._backoff.present_trouble

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
                self._backoff.warn_once(exc, "polling instead")
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
