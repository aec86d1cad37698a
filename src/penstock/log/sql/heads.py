"""Assigns offsets, under the row locks of the partitions' heads.

The head's row lock keeps offsets dense, not ownership: every append first locks the heads in one order (topic
id, partition), numbers the records under the locks and raises the heads in the same transaction.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.database.contract import Call, Row, Rows
from penstock.database.database import Transaction
from penstock.errors import TopicVanished

MARK_EVERY = 1024  # offsets between two marks of the time index


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


def lock_heads(tx: Transaction, keys: Iterable[HeadKey]) -> dict[HeadKey, Head]:
    """Lock heads in their order and return them. Raises TopicVanished."""
    wanted = sorted(set(keys))
    call = locking(wanted)
    return locked(wanted, tx.execute(*call).rows)


def _lock_free_heads(tx: Transaction, keys: Iterable[HeadKey]) -> dict[HeadKey, Head]:
    """Lock those heads that no other transaction has locked, and return them."""
    columns = Rows.of("topic_id partition", sorted(set(keys)))
    rows = tx.rows("log", "heads_lock_free", heads=columns)
    return {HeadKey(row[0], row[1]): Head(row[2], row[3]) for row in rows}


def locking(wanted: Sequence[HeadKey]) -> Call:
    """Return the statement that locks some sorted heads."""
    columns = Rows(topic_id=[key.topic_id for key in wanted], partition=[key.partition for key in wanted])
    return Call("log", "heads_lock", {"heads": columns})


def locked(wanted: Sequence[HeadKey], rows: Sequence[Row]) -> dict[HeadKey, Head]:
    """Return the locked heads. Raises TopicVanished when one is missing."""
    if len(rows) != len(wanted):
        raise TopicVanished
    return {HeadKey(row[0], row[1]): Head(row[2], row[3]) for row in rows}


class Numbering:
    """Assigns offsets under the locks of the heads, then raises the heads."""

    def __init__(self, tx: Transaction, keys: Iterable[HeadKey], *, waits: bool = True) -> None:
        """`waits`: for the locks; else heads locked by others are left out."""
        self._tx = tx
        self._heads = lock_heads(tx, keys) if waits else _lock_free_heads(tx, keys)
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
    """Raise locked heads, and add due time marks."""
    raises = [(one.topic_id, one.partition, one.added, one.max_ms) for one in raised]
    tx.change("log", "heads_raise", raises=Rows.of("topic_id partition added max_ms", raises))
    mark_times(tx, raised)


def mark_times(tx: Transaction, raised: Sequence[Raised]) -> None:
    """Add a mark to the time index for every head that has passed a multiple of the spacing."""
    due = [one for one in raised if one.base // MARK_EVERY != (one.base + one.added) // MARK_EVERY]
    if due:
        marks = Rows(
            topic_id=[one.topic_id for one in due],
            partition=[one.partition for one in due],
            place=[one.base + one.added for one in due],
            max_ms=[one.max_ms for one in due],
        )
        tx.change("log", "times_add", marks=marks)
