"""How many bytes a topic takes at once, where it was set to a bound of its own: one place, for every door."""

from collections.abc import Mapping
from types import MappingProxyType

from penstock.database.database import Database

MESSAGE_BYTES = "max.message.bytes"  # topic config
_KNOWN_SECONDS = 1.0  # for which what was looked up is taken as it was


class MessageBounds:
    """The bounds by topic, in memory. Safe from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: Mapping[str, int] = MappingProxyType({})
        self._looked: float | None = None

    def of(self, topic: str) -> int | None:
        """Return a topic's own bound, as it was when it was looked up last; None: it has none."""
        return self._known.get(topic)

    def are_known(self, now: float) -> bool:
        """Return whether they were looked up just now: without waiting."""
        return self._looked is not None and 0 <= now - self._looked < _KNOWN_SECONDS

    def refresh(self, now: float) -> None:
        """Look them up."""
        rows = self._database.look(lambda tx: tx.rows("log", "topics_with_config", name=MESSAGE_BYTES))
        self._known = MappingProxyType({name: int(value) for name, value in rows})
        self._looked = now
