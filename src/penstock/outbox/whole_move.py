"""The move in one trip: fence, pick, move and commit go to the server together, where the dialect can.

For a few rows, as in a trickle: then the trips are what a move costs. What it does not move, because
something is due before it or its topic is not made yet, is left to the other form; so is a backlog, in large
batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.clock import Clock, own_ms
from penstock.log.entry import Entry
from penstock.log.sql.contract import Call
from penstock.log.sql.database import Database
from penstock.log.sql.fence import Fence
from penstock.log.sql.heads import MARK_EVERY, HeadKey
from penstock.model.partition import MURMUR3

MOST_RECORDS = 200  # of one trip


class Moved(NamedTuple):
    """What one trip did."""

    fenced: int  # slots that turned out to belong to someone else
    moved: int
    picked: int  # more than was moved: the rest has no topic yet, or somebody took it
    is_due: bool  # something is due, so nothing was picked
    ends: dict[HeadKey, int]  # where the partitions it added to now end
    entries: list[tuple[int, Entry]]  # what was moved, each with the id of its topic; none if it was too much


def move_whole(
    database: Database, clock: Clock, fence: Fence, slots: Sequence[int], *, limit: int, hand_over: int
) -> Moved:
    """Move what is staged in some slots, also if few of them have anything.

    The records are returned, too, if they are no more than so many bytes.

    After StoreUnreachable it may have been done. Doing it again is safe: what is moved is staged no more.
    """
    lock = fence.locking(slots, waiting=True)
    params = lock.params | {
        "now_ms": own_ms(clock),
        "per_slot": limit + 1,
        "limit": limit,
        "partitioner": MURMUR3,
        "mark_every": MARK_EVERY,
        "hand_over": hand_over,
    }
    first, second = database.run_whole([lock, Call("log", "move_at_once", params)])
    told, *rest = second.rows
    ends = dict[HeadKey, int]()
    for topic_id, partition, offset, *_ in rest:
        head = HeadKey(topic_id, partition)
        ends[head] = max(offset + 1, ends.get(head, 0))
    entries = [(row[0], Entry(*row[1:])) for row in rest if row[3] is not None]
    ((fenced, _),) = first.rows
    return Moved(fenced, told[0], told[1], bool(told[2]), ends, entries)
