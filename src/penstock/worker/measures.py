"""The gauges of a whole store: what waits, who is there, who owns what. Taken by each worker once a minute.

They are read in one transaction, so that they fit together; every count has a bound.
"""

from typing import Any

from penstock import metrics
from penstock.delivery.unread import measure
from penstock.log.sql.database import Transaction
from penstock.log.store import Store
from penstock.membership.member import Member
from penstock.metrics import Series

_COUNTED = 100_000  # events that are not in the log yet: counted no further than this
_BY_GROUP = (
    metrics.PENDING,
    metrics.ASSIGNED,
    metrics.UNASSIGNED,
    metrics.WAITING_LANES,
    metrics.HELD_LANES,
    metrics.DEAD_RECORDS,
)
_OF_STORE = (
    metrics.MEMBERS,
    metrics.SLOTS_ASSIGNED,
    metrics.SLOTS_UNASSIGNED,
    metrics.STAGED,
    metrics.SCHEDULED,
)


class Measures:
    """The gauges that one worker sets, of one store."""

    def __init__(self, store: Store, member: Member) -> None:
        self._store, self._member = store, member
        self._groups: set[str] = set()

    def take(self) -> None:
        """Set them all to what holds now; those of a deleted group are removed."""
        found, store = self._store.database.look(self._look)
        for name, values in found.items():
            for series, value in values.items():
                series.set(value, group=name)
        for gone in self._groups - found.keys():
            for series in _BY_GROUP:
                series.forget(gone)
        self._groups = set(found)
        for series, value in zip(_OF_STORE, store, strict=True):
            series.set(value)
        measure(self._store)

    def _look(self, tx: Transaction) -> tuple[dict[str, dict[Series, int]], list[int]]:
        living = self._member.living(tx)
        who = {"owner": self._member.id, "living": living}
        groups: dict[str, dict[Series, int]] = {}
        for name, counts in self._cursors(tx, who).items():
            groups[name] = dict(zip(_BY_GROUP, counts, strict=False))
        for name, *counts in tx.rows("delivery", "gauge_waiting"):
            groups.setdefault(name, {}).update(zip(_BY_GROUP[3:], counts, strict=True))
        (slots,) = tx.rows("membership", "gauge_slots", **who)
        (backlog,) = tx.rows("outbox", "gauge_backlog", most=_COUNTED)
        return groups, [len(living), *slots, *backlog]

    def _cursors(self, tx: Transaction, who: dict[str, Any]) -> dict[str, list[int]]:
        """Return of each group how far it is behind, and how many cursors we own and nobody owns."""
        log = self._store.log_in(tx)
        ends = {topic.id: log.ends(topic) for topic in log.topics()}
        found: dict[str, list[int]] = {}
        for name, topic_id, partition, offset, mine, free in tx.rows("delivery", "gauge_cursors", **who):
            counts = found.setdefault(name, [0, 0, 0])
            counts[0] += max(0, ends.get(topic_id, {}).get(partition, 0) - offset)
            counts[1] += bool(mine)
            counts[2] += bool(free)
        return found
