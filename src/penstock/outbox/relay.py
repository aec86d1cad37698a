"""The relay: the move into a log that is not in the outbox's database.

Two places cannot commit at once, so the log comes first, idempotently, and the rows are deleted after it. The
rows of one slot for one topic are the batches of one producer, in the slot's epoch: a sequencer that was
replaced is refused by the log. After a crash in between, the rows are still there; the log says which records
it has of that producer's last batch, and those are only deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.errors import UnknownTopic
from penstock.log.contract import Batch, Log, Position, Producer, Topic
from penstock.log.entry import Content
from penstock.log.sql.database import Transaction
from penstock.log.sql.heads import HeadKey

from .move import Pick, Picked


class _SlotRun(NamedTuple):
    """The rows of one slot for one topic, in order."""

    slot: int
    topic: str
    contents: list[Content]

    @property
    def producer(self) -> str:
        return f"outbox/{self.slot}/{self.topic}"


class Relay:
    """Moves what one sequencer has picked. One thread at a time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._topics: dict[str, Topic] = {}

    def move(self, tx: Transaction, picks: Sequence[Pick], epochs: Mapping[int, int]) -> dict[HeadKey, int]:
        """Append what was picked, delete it, and return where the partitions end that it was added to."""
        runs = list(_runs(tx, picks))
        self._find_topics({run.topic for run in runs})
        batches = [
            self._batch(run, epochs[run.slot])
            for run in (self._unmoved(each) for each in runs)
            if run.contents
        ]
        given = self._log.append_all(batches)
        ends: dict[HeadKey, int] = {}
        for batch, positions in zip(batches, given, strict=True):
            topic = self._topics[batch.topic]
            for partition, offset in dict(positions).items():
                self._log.durable(topic, Position(partition, offset))
                ends[HeadKey(topic.id, partition)] = offset + 1
        for pick in picks:
            if pick.rows:
                tx.change("outbox", f"delete_{pick.table}", **pick.ids)
        return ends

    def _find_topics(self, names: set[str]) -> None:
        for name in sorted(names):
            try:
                self._topics[name] = self._log.topic(name)
            except UnknownTopic:
                self._topics[name] = self._log.create_topic(name)

    def _unmoved(self, run: _SlotRun) -> _SlotRun:
        """Return a run without the records that the log has already: those of a batch left in doubt."""
        last = self._log.last_batch(run.producer)
        if last is None or last.topic_id != self._topics[run.topic].id:
            return run
        there = {each.id for each in self._log.at(self._topics[run.topic], last.positions, bare=True)}
        return run._replace(contents=[each for each in run.contents if each.id not in there])

    def _batch(self, run: _SlotRun, epoch: int) -> Batch:
        last = self._log.last_batch(run.producer)
        sequence = 0 if last is None else last.sequence + len(last.positions)
        return Batch(run.topic, run.contents, producer=Producer(run.producer, epoch, sequence))


def _runs(tx: Transaction, picks: Sequence[Pick]) -> Iterator[_SlotRun]:
    found: dict[tuple[int, str], list[Content]] = {}
    for pick in picks:
        if pick.rows:
            rows = tx.rows("outbox", f"contents_{pick.table}", **pick.ids)
            contents = {seq: Content(*rest) for seq, *rest in rows}
            for row in pick.rows:
                _put(found, row, contents)
    for (slot, topic), each in found.items():
        yield _SlotRun(slot, topic, each)


def _put(found: dict[tuple[int, str], list[Content]], row: Picked, contents: Mapping[int, Content]) -> None:
    if row.seq in contents:  # else it was cancelled or erased since it was picked
        found.setdefault((row.slot, row.topic), []).append(contents[row.seq])
