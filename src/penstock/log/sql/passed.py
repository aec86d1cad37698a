"""Deleting by hand what every group is done with: retention by another rule.

Not what topics keep counts, but what is older than a moment and passed by every group there is, also by one
that retention would no longer wait for. A topic that no group reads keeps all.
"""

from collections.abc import Callable, Sequence

from penstock.clock import Clock

from .database import Database, Transaction
from .retention import Keep, Range, Retention, RetentionSettings, _Head, _Topic

Note = Callable[[Transaction, str, int], None]  # of a topic so many records are deleted, in this transaction

_BY_AGE = Keep(1, None, None)


class Passed(Retention):
    """Deletes what was published before a moment and every group has passed."""

    def __init__(
        self, database: Database, settings: RetentionSettings, clock: Clock, *, before_ms: int, note: Note
    ) -> None:
        super().__init__(database, settings, clock)
        self._before_ms, self._note = before_ms, note

    def _topics(self, name: str | None) -> list[_Topic]:
        return [each._replace(keep=_BY_AGE) for each in super()._topics(name)]

    def _seen_since(self, topic: _Topic) -> int:
        return 0

    def _goes(self, topic: _Topic, head: _Head, excess: dict[int, int]) -> bool:
        return head.held is not None and super()._goes(topic, head, excess)

    def _cutoff_ms(self, topic: _Topic) -> int | None:
        return self._before_ms

    def _delete(self, topic: _Topic, ranges: Sequence[Range], tx: Transaction) -> int:
        deleted = super()._delete(topic, ranges, tx)
        self._note(tx, topic.name, deleted)
        return deleted
