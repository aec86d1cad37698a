"""Waiting lanes: keys whose records wait for a retry, for their turn, or for a person."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import groupby

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction
from penstock.delivery.lane import LANE_COLUMNS, SHARED, SideLane, WaitState, key_lane
from penstock.log.store import Store

from .operation import (
    PAGE_ROWS,
    Page,
    SeesTopic,
    every_topic,
    hidden_topics,
    ids,
    operation,
    page,
    places_after,
    with_topic_names,
)

_FIRST = {
    "after_group": 0,
    "after_topic": 0,
    "after_partition": 0,
    "after_lane": "",
    "after_whole": False,
    "after_late": False,
    "after_alone": SHARED,
}


class LaneState(Enum):
    """The reason why a lane waits."""

    HELD = "held"  # a person: its head is a dead letter
    PARKED = "parked"  # the time of its retry
    DUE = "due"  # its owner: it may be retried now
    SLOW = "slow"  # its turn: its handler was busy
    MOVED = "moved"  # the records of its key in the former partition, from before the topic grew


_UNTIMED = {WaitState.HELD: LaneState.HELD, WaitState.SLOW: LaneState.SLOW, WaitState.MOVED: LaneState.MOVED}


@dataclass(frozen=True, slots=True)
class WaitingLane:
    """A waiting key of a group.

    `alone`: only the record at that offset waits, later ones of the key flow. `late`: its records were passed
    over before the group had a handler for them. `waiting`: the records stored as waiting; more of the key
    may still be in the log. `whole`: all keys of the partition wait as one; `key` is empty.
    """

    group: str
    topic: str
    partition: int
    key: str
    alone: int | None
    state: LaneState
    until: datetime | None
    failures: int
    reason: str
    waiting: int
    late: bool = False
    whole: bool = False


@operation
def lanes(
    store: Store,
    *,
    group: str | None = None,
    topic: str | None = None,
    key: str | None = None,
    held: bool | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    seen: SeesTopic = every_topic,
    clock: Clock = SYSTEM,
) -> Page[WaitingLane]:
    """Return a page of waiting lanes, by group, topic, partition and key; `held`: only held or only others.

    Only those on topics that are `seen`. Raises InvalidPage, UnknownGroup, UnknownTopic.
    """
    params = ids(store, group, topic) | places_after(after, limit, _FIRST, least=SHARED)
    lane = None if key is None else key_lane(key)

    def look(tx: Transaction) -> tuple[list[Row], dict[Row, int]]:
        log = store.log_in(tx)
        hidden = [each.id for each in hidden_topics(log, seen)]
        found = tx.rows("operate", "lanes_list", lane=lane, held=held, limit=limit + 1, hidden=hidden, **params)
        # A database may have numbers for truth values.
        plain = [(*row[:4], bool(row[4]), bool(row[5]), *row[6:]) for row in found]
        rows = with_topic_names(log, plain, id_at=1, name_at=8)
        return rows, _counts(tx, rows[:limit])

    rows, counts = store.database.look(look)
    now_ms = clock.now_ms()
    return page(rows, limit, len(_FIRST), lambda row: _waiting(row, counts.get(row[:7], 0), now_ms))


def _counts(tx: Transaction, rows: list[Row]) -> dict[Row, int]:
    counts: dict[Row, int] = {}
    for (group_id, topic_id), each in groupby(rows, key=lambda row: row[:2]):
        table = Rows.of(f"partition {LANE_COLUMNS}", [row[2:7] for row in each])
        found = tx.rows("delivery", "entries_count", lanes=table, group_id=group_id, topic_id=topic_id)
        counts |= {(group_id, topic_id, *row[:5]): row[5] for row in found}
    return counts


def _waiting(row: Row, waiting: int, now_ms: int) -> WaitingLane:
    partition, lane = row[2], SideLane(*row[3:7])
    group, topic, stored, failures, due_ms, reason = row[7:]
    state, until = _UNTIMED.get(WaitState(stored), LaneState.DUE), None
    if state is not LaneState.HELD and due_ms > now_ms:
        state, until = LaneState.PARKED, from_ms(due_ms)
    place = group, topic, partition, lane.key, None if lane.alone == SHARED else lane.alone
    return WaitingLane(*place, state, until, failures, reason, waiting, lane.late, lane.whole)
