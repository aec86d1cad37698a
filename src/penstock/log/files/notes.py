"""The last batch of each named producer: a row in the SQLite file, written before and after an append.

Two stores cannot commit atomically. So the row first holds the intent: the ids about to be appended, and the offsets
from which on they may be found (`floors`). Then the records are appended; then the row gets their positions. A reader
of an intent row searches the log for its ids: those found were appended, and the producer continues behind them.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.database.contract import Row, Rows

from ..contract import Appended, Batch, Position, Topic, is_repeated

if TYPE_CHECKING:
    from .log import FileLog

_lock = RLock()  # one append of a named producer at a time in this process
_COLUMNS = "id epoch sequence topic_id positions ids"


class _Floors(msgspec.Struct):
    """Where to search for the records of an append in doubt: partition → first offset."""

    floors: dict[str, int]


_placed = msgspec.json.Decoder(list[tuple[int, int]] | _Floors).decode
_ids = msgspec.json.Decoder(tuple[str, ...]).decode


class ProducerNotes:
    """The producer rows of one log."""

    def __init__(self, log: "FileLog") -> None:
        self._log = log

    def guard(self, batches: Sequence[Batch]) -> AbstractContextManager[object]:
        """Keep other threads from appending as a named producer meanwhile."""
        return _lock if any(batch.producer is not None for batch in batches) else nullcontext()

    def last(self, producer: str) -> Appended | None:
        """Return the last batch of a producer: those records of it that are in the log."""
        with _lock:
            rows = self._log.database.look(lambda tx: tx.rows("log", "producer_find", id=producer))
            return self._appended(producer, rows[0]) if rows else None

    def repeated(self, batch: Batch) -> list[Position] | None:
        """Return the positions of a batch that was appended before. Raises ProducerFenced, OutOfSequence."""
        if batch.producer is None:
            return None
        last = self.last(batch.producer.id)
        if last is not None and not last.positions and batch.producer.sequence == last.sequence:
            is_repeated(batch.producer, last)
            return None
        return list(last.positions) if is_repeated(batch.producer, last) and last is not None else None

    def intend(
        self,
        batches: Sequence[Batch],
        known: Sequence[list[Position] | None],
        plans: Sequence[Sequence[Any]],
        topics: Mapping[str, tuple[Topic, int]],
    ) -> None:
        """Record the ids about to be appended, and the offsets from which to search for them."""
        rows = []
        for batch, before, parts in zip(batches, known, plans, strict=True):
            if batch.producer is not None and before is None and parts:
                topic = topics[batch.topic][0]
                floors = {str(part.partition): self._log.view(topic, part.partition).end for part in parts}
                rows.append(_row(batch, topic, _Floors(floors)))
        self._put(rows)

    def put(
        self,
        batches: Sequence[Batch],
        known: Sequence[list[Position] | None],
        found: Sequence[list[Position]],
        topics: Mapping[str, tuple[Topic, int]],
    ) -> None:
        """Record the positions of the producers' batches."""
        each = zip(batches, known, found, strict=True)
        new = [(batch, positions) for batch, before, positions in each if before is None and positions]
        self._put([_row(batch, topics[batch.topic][0], at) for batch, at in new if batch.producer is not None])

    def _put(self, rows: Sequence[Row]) -> None:
        if rows:
            table = Rows.of(_COLUMNS, rows)
            self._log.database.run(lambda tx: tx.change("log", "producers_put", producers=table))

    def _appended(self, producer: str, row: Row) -> Appended:
        epoch, sequence, topic_id, positions, ids = row
        placed = _placed(positions)
        if isinstance(placed, _Floors):
            return self._resolved(producer, epoch, sequence, topic_id, placed.floors, _ids(ids))
        return Appended(epoch, sequence, topic_id, tuple(Position(*each) for each in placed), _ids(ids))

    def _resolved(
        self, producer: str, epoch: int, sequence: int, topic_id: int, floors: dict[str, int], ids: tuple[str, ...]
    ) -> Appended:
        """Search the log for the records of an interrupted append, and record the result."""
        topic = next((each for each in self._log.topics() if each.id == topic_id), None)
        wanted, found = set(ids), dict[str, Position]()
        if topic is not None:
            for number, floor in floors.items():
                view = self._log.view(topic, int(number))
                for header, batch in view.batches(floor, view.end):  # also behind an open transaction
                    for entry in () if header.is_transactional else view.decoded(header, batch):
                        if entry.id in wanted:
                            found[entry.id] = Position(entry.partition, entry.offset)
        there = [each for each in ids if each in found]
        places = [found[each] for each in there]
        self._put([(producer, epoch, sequence, topic_id, _json(places), _json(there))])
        return Appended(epoch, sequence, topic_id, tuple(places), tuple(there))


def _row(batch: Batch, topic: Topic, placed: _Floors | list[Position]) -> Row:
    assert batch.producer is not None
    ids = [each.id for each in batch.contents]
    return (*batch.producer, topic.id, _json(placed), _json(ids))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
