"""The two locks of a writing transaction: the fence on slots, then the heads of partitions.

Fence: only the owner of a slot, in its present epoch, may move the slot's staged rows. Its statement opens the
moving transaction: it locks the slot rows that still match, and only those slots are moved. A stale owner
finds none and writes nothing; a change of owner waits until the move has ended.

Heads: their row locks keep offsets dense. Every append first locks the heads in one order (topic id,
partition), numbers the records under the locks and raises the heads in the same transaction.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.database.contract import Call, Row, Rows
from penstock.database.database import Transaction
from penstock.errors import TopicVanished

MARK_EVERY = 1024  # offsets between two marks of the time index


@dataclass(frozen=True, slots=True)
class Fence:
    """The slots that a member believes it owns, with their epochs."""

    owner: str
    epochs: Mapping[int, int]

    def slots(self) -> list[int]:
        """Return the slots, sorted."""
        return sorted(self.epochs)

    def lock(self, tx: Transaction, slots: Collection[int]) -> list[int]:
        """Lock and return those of the slots that are still owned in their epochs."""
        return [row[0] for row in tx.execute(*self.locking(slots)).rows]

    def locking(self, slots: Collection[int], *, waiting: bool = False) -> Call:
        """Return the statement that locks slots; `waiting`: those with staged rows, with the number lost as result."""
        wanted = sorted(slots)
        owned = Rows(slot=wanted, epoch=[self.epochs[slot] for slot in wanted])
        name = "fence_waiting" if waiting else "fence_slots"
        return Call("log", name, {"owner": self.owner, "owned": owned})


class HeadKey(NamedTuple):
    """The key of a head; sorts in lock order."""

    topic_id: int
    partition: int


class Head(NamedTuple):
    """A locked head."""

    next_offset: int
    max_ms: int


class Raised(NamedTuple):
    """A head after records were added to it."""

    topic_id: int
    partition: int
    base: int  # the first assigned offset
    added: int
    max_ms: int


def lock_heads(tx: Transaction, keys: Iterable[HeadKey], *, waits: bool = True) -> dict[HeadKey, Head]:
    """Lock heads in their order and return them, or only those that need no wait. Raises TopicVanished."""
    wanted = sorted(set(keys))
    if waits:
        return locked(wanted, tx.execute(*locking(wanted)).rows)
    return _heads(tx.rows("log", "heads_lock_free", heads=Rows.of("topic_id partition", wanted)))


def locking(wanted: Sequence[HeadKey]) -> Call:
    """Return the statement that locks some sorted heads."""
    return Call("log", "heads_lock", {"heads": Rows.of("topic_id partition", wanted)})


def locked(wanted: Sequence[HeadKey], rows: Sequence[Row]) -> dict[HeadKey, Head]:
    """Return the locked heads. Raises TopicVanished when one is missing."""
    if len(rows) != len(wanted):
        raise TopicVanished
    return _heads(rows)


def _heads(rows: Sequence[Row]) -> dict[HeadKey, Head]:
    return {HeadKey(row[0], row[1]): Head(row[2], row[3]) for row in rows}


class Numbering:
    """Assigns offsets under the locks of the heads, then raises the heads."""

    def __init__(self, tx: Transaction, keys: Iterable[HeadKey], *, waits: bool = True) -> None:
        """`waits`: for the locks; else heads locked by others are left out."""
        self._tx = tx
        self._heads = lock_heads(tx, keys, waits=waits)
        self._next = {key: head.next_offset for key, head in self._heads.items()}
        self._max_ms = {key: head.max_ms for key, head in self._heads.items()}

    def holds(self, key: HeadKey) -> bool:
        """Return whether this object has locked a head."""
        return key in self._heads

    def give(self, key: HeadKey, timestamp_ms: int) -> int:
        """Return the next offset of a head."""
        offset = self._next[key]
        self._next[key] = offset + 1
        if timestamp_ms > self._max_ms[key]:
            self._max_ms[key] = timestamp_ms
        return offset

    def finish(self) -> list[Raised]:
        """Raise the heads, add due time marks, and return the raised heads."""
        raised = [
            Raised(*key, head.next_offset, self._next[key] - head.next_offset, self._max_ms[key])
            for key, head in self._heads.items()
        ]
        _raise(self._tx, raised)
        return raised


def raise_by(tx: Transaction, counts: Sequence[Row], move: Callable[[], object]) -> list[HeadKey]:
    """Lock heads, call `move` to add records at their ends, raise them, and return their keys.

    A count is (topic id, partition, number of records, latest time). Raises TopicVanished.
    """
    keys = [HeadKey(topic_id, partition) for topic_id, partition, _, _ in counts]
    heads = lock_heads(tx, keys)
    move()
    raised = [
        Raised(*key, heads[key].next_offset, added, max(max_ms, heads[key].max_ms))
        for key, (_, _, added, max_ms) in zip(keys, counts, strict=True)
    ]
    _raise(tx, raised)
    return keys


def _raise(tx: Transaction, raised: Sequence[Raised]) -> None:
    raises = [(one.topic_id, one.partition, one.added, one.max_ms) for one in raised]
    tx.change("log", "heads_raise", raises=Rows.of("topic_id partition added max_ms", raises))
    mark_times(tx, raised)


def mark_times(tx: Transaction, raised: Sequence[Raised]) -> None:
    """Add a mark to the time index for every head that has passed a multiple of the spacing."""
    due = [one for one in raised if one.base // MARK_EVERY != (one.base + one.added) // MARK_EVERY]
    if due:
        marks = [(one.topic_id, one.partition, one.base + one.added, one.max_ms) for one in due]
        tx.change("log", "times_add", marks=Rows.of("topic_id partition place max_ms", marks))
