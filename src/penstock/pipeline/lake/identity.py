"""How a table recognises a batch: by the offsets it holds, or by query and epoch.

The identity of a batch is written in the table's own transaction, beside the data. By offsets: an application
transaction id for each source partition, whose version is the end offset, and one whose version is the mark
of the last record (`history.py`). One more for each topic's name keeps a hash of the log's id and the topic's
id, so that another topic of that name is not mixed in. So any query, with any checkpoint, finds in the table
itself where the table ends, and whether the log is still the one it was filled from. Output of a stateful
query is not a function of a range, so its identity is the query's id, the number of the batch, and a hash of
the ranges it was computed from: an older copy of a checkpoint gives known numbers to other batches.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from penstock.errors import AnotherLog, BatchDiffers, InvalidOption, RangesDiffer, StateWithoutPast, WriteOutOfOrder

from ..checkpoint import MicroBatch, write_number
from ..offsets import Range

Transactions = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Source:
    """A topic that feeds a table; `incarnation`: that of the log it was read from, if it is known."""

    log_id: str
    topic: str
    topic_id: int
    partitions: int
    incarnation: int | None = None

    def describe(self) -> str:
        """Describe the topic in words."""
        return f"topic {self.topic} with id {self.topic_id} of log {self.log_id}"


class MarkedTable(Protocol):
    """A table as an identity sees it: the topics and the versions that its commits have kept."""

    path: str

    def sources(self) -> list[Source]:
        """Return the topics that feed the table."""

    def version_of(self, application: str) -> int | None:
        """Return the version that an application has reached. Raises EndsLost."""

    def is_empty(self) -> bool:
        """Return whether the table holds no files."""


class BatchIdentity(ABC):
    """The identity of one batch in tables. `of_lake`: the table is one of several of a lake."""

    of_lake: bool = False

    def sources(self) -> list[Source]:
        """Return the topics whose offsets the table keeps."""
        return []

    @abstractmethod
    def is_in(self, table: MarkedTable) -> bool:
        """Return whether the table holds the batch.

        Raises AnotherLog, RangesDiffer, StateWithoutPast, BatchDiffers, WriteOutOfOrder.
        """

    def transactions(self, table: MarkedTable) -> Transactions:
        """Return the transactions to write beside the batch's data."""
        return []

    def is_nothing(self) -> bool:
        """Return whether a batch without data need not be recorded."""
        return True


def application(log_id: str, topic_id: int, partition: int) -> str:
    """Return the application transaction id of a source partition."""
    return f"penstock/{log_id}/{topic_id}/{partition}"


def mark_application(log_id: str, topic_id: int, partition: int) -> str:
    """Return the application transaction id that keeps the mark of the last record."""
    return f"penstock-mark/{log_id}/{topic_id}/{partition}"


def name_application(topic: str) -> str:
    """Return the application transaction id that keeps which topic of that name feeds a table."""
    return f"penstock-topic/{topic}"


def name_version(log_id: str, topic_id: int) -> int:
    """Return a hash of a log's topic."""
    return _version(f"{log_id}/{topic_id}")


def _version(text: str) -> int:
    """Return a hash of 63 bits, as a Delta table can keep."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") >> 1


def check_name(keeper: str, lake: str, table: MarkedTable, source: Source, batch: Sequence[Source]) -> None:
    """Refuse a topic new to a table that another topic of the same name has fed. Raises AnotherLog.

    `batch`: the topics of the batch, which a query of the user's own may have joined under one name.
    """
    ours = [(each.log_id, each.topic_id) for each in batch if each.topic == source.topic]
    others = [each for each in table.sources() if each.topic == source.topic]
    others = [each for each in others if (each.log_id, each.topic_id) not in ours]
    known = table.version_of(name_application(source.topic))
    if not others and (known is None or known in [name_version(*each) for each in ours]):
        return
    was = others[0].describe() if others else f"topic {source.topic} with another id or of another log"
    anew = " (it was deleted and made anew)" if others and others[0].log_id == source.log_id else ""
    raise AnotherLog(keeper, was, f"{source.describe()}{anew}", lake)


@dataclass(frozen=True, slots=True)
class ByOffsets(BatchIdentity):
    """A batch that is a function of its ranges. `of_lake`: for a table that is one of several.

    A batch without rows for it does not commit to it, so it may be behind; the lake's mark then checks the order.
    """

    ranges: tuple[Range, ...]
    of_lake: bool = False

    def is_in(self, table: MarkedTable) -> bool:
        answers = {self._answer(table, each) for each in self.ranges if each.pieces()}
        if len(answers) > 1:
            raise RangesDiffer(table.path, "it holds the batch of one source and not that of another")
        return answers == {True}

    def transactions(self, table: MarkedTable) -> Transactions:
        """Return the ends of all partitions for a table new to the topic, else of those that moved."""
        return [pair for each in self.ranges for pair in self._ends(table, each)] + list(self._names(table))

    def is_nothing(self) -> bool:
        """Return False if offsets moved: the table's ends must move too, or the next batch would not fit."""
        return not any(each.pieces() for each in self.ranges)

    def sources(self) -> list[Source]:
        return [source_of(each) for each in self.ranges]

    def _answer(self, table: MarkedTable, batch: Range) -> bool:
        pieces = batch.pieces()
        known = _knows(table, batch)
        if not known:
            lake = table.path.rpartition("/")[0] if self.of_lake else table.path
            check_name(f"table {table.path}", lake, table, source_of(batch), self.sources())
        since = 0 if known else None  # for a partition added when the topic grew
        ends = {piece.partition: _reached(table, batch, piece.partition, since) for piece in pieces}
        found = [(ends[piece.partition], piece.start) for piece in pieces]
        if all(end is None or (self.of_lake and end <= start) for end, start in found):
            return False
        if not self.of_lake and all(end == start for end, start in found):
            return False
        if all(ends[piece.partition] == piece.end for piece in pieces):
            return True
        raise RangesDiffer(table.path, "; ".join(_differences(batch, ends)))

    def _ends(self, table: MarkedTable, batch: Range) -> Iterator[tuple[str, int]]:
        moved = [piece.partition for piece in batch.pieces()]
        for partition in moved if _knows(table, batch) else sorted(batch.ends) if moved else []:
            yield application(batch.log_id, batch.topic_id, partition), batch.ends[partition]
            if partition in batch.marks:
                yield mark_application(batch.log_id, batch.topic_id, partition), batch.marks[partition]

    def _names(self, table: MarkedTable) -> Iterator[tuple[str, int]]:
        """Yield the topics new to the table by name; of two joined under one name, the first."""
        moved = {each.topic: each for each in reversed(self.ranges) if each.pieces()}
        for topic, batch in sorted(moved.items()):
            if table.version_of(name_application(topic)) is None:
                yield name_application(topic), name_version(batch.log_id, batch.topic_id)


@dataclass(frozen=True, slots=True)
class ByEpoch(BatchIdentity):
    """A batch identified by its query or application and its number."""

    name: str
    epoch: int
    content: str = ""  # a hash of its input, where known
    continues: bool = True  # the numbers are those of one streaming query, which must have begun with an empty table

    def is_in(self, table: MarkedTable) -> bool:
        """Compare with the last batch that is in the table; a query must have begun with an empty one.

        A query repeats its last batch at most: a lower number means that its checkpoint is an older copy.
        """
        last = table.version_of(self._application)
        if last is None and self.continues and not table.is_empty():
            raise StateWithoutPast(table.path, f"query {self.name}")
        if last is None or self.epoch > last:
            return False
        if self.epoch < last and not self.continues:
            raise WriteOutOfOrder(self.name, self.epoch, last, follows=False)
        held, ours = table.version_of(self._content_application), self._content_version
        if self.epoch < last or ours not in (None, held):
            whose = f"query {self.name}" if self.continues else f"application {self.name}"
            raise BatchDiffers(table.path, whose, (last, held), (self.epoch, ours))
        return True

    def transactions(self, table: MarkedTable) -> Transactions:
        content = self._content_version
        kept = [] if content is None else [(self._content_application, content)]
        return [(self._application, self.epoch), *kept]

    @property
    def _content_version(self) -> int | None:
        return _version(self.content) if self.content else None

    @property
    def _application(self) -> str:
        return f"penstock-query/{self.name}" if self.continues else self.name

    @property
    def _content_application(self) -> str:
        return f"penstock-content/{self._application}"


@dataclass(frozen=True, slots=True)
class Unmoved(BatchIdentity):
    """No batch: rows are removed or rewritten, and the table keeps its topics and ends."""

    known: tuple[Source, ...]
    of_lake: bool = False

    def is_in(self, table: MarkedTable) -> bool:
        return False

    def sources(self) -> list[Source]:
        return list(self.known)


def identity_of(batch: MicroBatch) -> BatchIdentity:
    """Return the identity of a micro-batch."""
    if batch.stateful or batch.ranges is None:
        return ByEpoch(batch.query_id, batch.number, batch.content)
    return ByOffsets(batch.ranges)


def by_application(name: str | None, version: str | None, content: str = "") -> BatchIdentity:
    """Return the identity of a batch write. Raises InvalidOption."""
    if not name:
        raise InvalidOption("txnAppId", name, "a name for this job, so that a write that is repeated is seen")
    return ByEpoch(name, write_number(version), content, continues=False)


def source_of(batch: Range) -> Source:
    """Return the topic of a range."""
    return Source(batch.log_id, batch.topic, batch.topic_id, len(batch.ends), batch.incarnation)


def _knows(table: MarkedTable, batch: Range) -> bool:
    return _reached(table, batch, min(batch.ends), None) is not None


def _reached(table: MarkedTable, batch: Range, partition: int, otherwise: int | None) -> int | None:
    end = table.version_of(application(batch.log_id, batch.topic_id, partition))
    return otherwise if end is None else end


def _differences(batch: Range, ends: dict[int, int | None], at_most: int = 4) -> Iterator[str]:
    wrong = [piece for piece in batch.pieces() if ends[piece.partition] not in (piece.start, piece.end)]
    wrong = wrong or batch.pieces()  # some partitions hold the batch and others do not
    for piece in wrong[:at_most]:
        end = ends[piece.partition]
        there = f"{batch.topic}[{piece.partition}] is there up to {'nothing' if end is None else end}"
        yield f"{there}, the batch brings {piece.start} to before {piece.end}"
    if len(wrong) > at_most:
        yield f"and {len(wrong) - at_most} more partitions"
