"""The move in one round trip: fence, pick, move and commit go to the server together, if the dialect can.

For a few rows, as in a trickle, where round trips dominate the cost of a move. Rows that it cannot move,
because others are due before them or their topic does not exist yet, are left to the other form; so is a
backlog, which moves in large batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.clock import Clock, own_ms
from penstock.database.contract import Call
from penstock.database.database import Database
from penstock.log.entry import Entry
from penstock.log.sql.heads import MARK_EVERY, Fence, HeadKey
from penstock.model.partition import MURMUR3

MOST_RECORDS = 200  # per round trip


class Moved(NamedTuple):
    """The result of one round trip."""

    fenced: int  # slots that turned out to have another owner
    moved: int
    picked: int  # if larger than `moved`: the others have no topic yet, or another transaction took them
    is_due: bool  # scheduled rows are due, so nothing was picked
    ends: dict[HeadKey, int]  # the new ends of the partitions it added to
    entries: list[tuple[int, Entry]]  # the moved records with their topic ids; empty if too many bytes


def move_whole(
    database: Database, clock: Clock, fence: Fence, slots: Sequence[int], *, limit: int, hand_over: int
) -> Moved:
    """Move the staged rows of some slots, even if few of them have any.

    The records are returned too if they have at most `hand_over` bytes.

    After StoreUnreachable the outcome is in doubt. A retry is safe: moved rows are no longer staged.
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
    counts, *rest = second.rows
    ends = dict[HeadKey, int]()
    for topic_id, partition, offset, *_ in rest:
        head = HeadKey(topic_id, partition)
        ends[head] = max(offset + 1, ends.get(head, 0))
    entries = [(row[0], Entry(*row[1:])) for row in rest if row[3] is not None]
    ((fenced, _),) = first.rows
    return Moved(fenced, counts[0], counts[1], bool(counts[2]), ends, entries)
