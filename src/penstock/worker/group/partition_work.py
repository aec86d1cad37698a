"""One owned partition at work: its state machine, its records in memory, and the tasks made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs
from msgspec.structs import force_setattr

from penstock.delivery.lane import is_late
from penstock.delivery.machine import Delivery, Partition
from penstock.delivery.store import Owned
from penstock.delivery.verdict import Passed
from penstock.model.record import Record

from ..handler import Handler, HandlerTask, TaskPlace
from . import bounds


@dataclass(slots=True, eq=False)
class PartitionWork:
    """An owned partition: its state machine, the records in memory, and those that may come a second time.

    Each field has one writer: the buffer `records`; the settling `settled_to`, `finished` and `writing`; the reader
    `has_holes` and `unhandled`; the owned partitions `leaving`, `lost` and `lanes_changed`. While a unit of work has
    borrowed the partition, only that unit uses the machine.
    """

    number: int
    owned: Owned
    machine: Partition
    untouched: set[int] = field(default_factory=set)  # waited in lanes behind records perhaps handed out
    since: int = 0  # its base when it was taken: records below come from a lane, or late from a note
    take: int = 0  # the number of the take that it came with
    topic_id: int = 0
    records: dict[int, tuple[Record, Handler]] = field(default_factory=dict)
    settled_to: int = 0  # its row says that nothing at or above is settled
    finished: list[int] = field(default_factory=list)  # done, but not settled
    writing: int = 0  # how many of these are in the settling that is being written
    unhandled: dict[int, str] = field(default_factory=dict)  # by offset: types whose handlers are gone
    has_holes: bool = True
    leaving: bool = False
    borrowed: bool = False
    lost: bool = False
    is_unsure: bool = False  # not everything is settled that a lost owner may have handed out
    lanes_changed: bool = False  # a person has decided on its dead letters; the next settling learns it

    def is_at_rest(self, end: int) -> bool:
        """Return whether there is no work until the log grows beyond this end, or others decide something."""
        machine, owned = self.machine, self.owned
        return not (
            self.borrowed
            or not machine.is_at_rest
            or machine.position < end
            or self.has_holes
            or self.leaving
            or self.lanes_changed
            or self.finished
            or self.is_unsure
            or owned.late
            or not owned.trial.is_empty
            or not owned.barrier.is_open
        )

    def is_doubtful(self, offset: int) -> bool:
        """Return whether a record may have been handed out before."""
        if offset in self.owned.repeats:
            return True
        return offset >= self.since and self.owned.doubtful.has(offset) and offset not in self.untouched

    @property
    def is_pressing(self) -> bool:
        """Whether each hand-out must be known: an owner was lost, or the partition is to be released."""
        return self.leaving or self.is_unsure or bool(self.owned.repeats) or self.has_suspects

    @property
    def has_suspects(self) -> bool:
        """Whether some of its records go by few, alone, or not at all for now."""
        trial = self.owned.trial
        return trial.goes_by_few or bool(trial.alone)


Taken = tuple[PartitionWork, Delivery]  # a record that was handed out, and its partition


def as_much_again(count: int) -> int:
    """Return how many more records may follow `count` before the next write; after a loss these are marked, too."""
    return min(max(count, bounds.LEAST_AGAIN), bounds.AHEAD)


def pass_unhandled(work: PartitionWork, delivery: Delivery) -> None:
    """Pass a record that waited and has no handler now; if the handler for its type is gone, it is noted."""
    offset, machine = delivery.offset, work.machine
    type = work.unhandled.pop(offset, None)
    if type is None:
        machine.finish(offset, Passed())
    else:
        machine.pass_over(offset, type, again=delivery.again or work.is_doubtful(offset))


def put_back(taken: list[Taken]) -> None:
    """Take back records that were handed out and that no task refers to."""
    for work, delivery in reversed(taken):
        work.machine.untake(delivery.offset)


class RecordBuffer:
    """Counts and changes the records in memory (`PartitionWork.records`). One thread, the delivery loop's."""

    def __init__(self) -> None:
        self._bytes = 0

    def is_full(self) -> bool:
        """Return whether reading must wait until some records are finished."""
        return self._bytes > bounds.HELD_BYTES

    def keep(self, work: PartitionWork, offset: int, record: Record, handler: Handler) -> None:
        """Keep a record until it is handed out, and set its handler's id in it."""
        force_setattr(record, "handler_id", handler.id)  # a copy would cost more, for every record
        work.records[offset] = (record, handler)
        self._bytes += _size(record)

    def drop(self, work: PartitionWork, offset: int) -> None:
        """Forget a record, if it is held."""
        known = work.records.pop(offset, None)
        if known is not None:
            self._bytes -= _size(known[0])

    def drop_all(self, work: PartitionWork) -> None:
        """Forget the records of a partition that is no longer ours."""
        for offset in list(work.records):
            self.drop(work, offset)


def _size(record: Record) -> int:
    size = len(record.data or b"")
    if record.raw_headers:
        for name, value in record.raw_headers:
            size += len(name) + len(value or b"")
    return size


def tasks_of(taken: Sequence[Taken]) -> list[HandlerTask]:
    """Return a task for the head of each run, linked with those that follow it."""
    tasks: list[HandlerTask] = []
    begin, count = 0, len(taken)
    while begin < count:
        work, head = taken[begin]
        end = begin + 1
        while end < count and taken[end][1].lane == head.lane and taken[end][0] is work:
            end += 1
        task = _run(work, [each for _, each in taken[begin:end]])
        if task is not None:
            tasks.append(task)
        begin = end
    return tasks


def task_of(work: PartitionWork, delivery: Delivery, behind: HandlerTask | None = None, more: int = 0) -> HandlerTask:
    """Return the task for a handed-out record, with the record as its handler receives it."""
    record, handler = work.records[delivery.offset]
    if delivery.again or work.is_doubtful(delivery.offset):
        record = structs.replace(record, attempt=delivery.failures + 1, redelivered=True)
    if is_late(delivery.lane):
        record = structs.replace(record, late=True)
    place = TaskPlace(work.number, delivery.offset)
    return HandlerTask(place, delivery.lane, handler, record, delivery.failures, behind, more, work.topic_id)


def _run(work: PartitionWork, run: list[Delivery]) -> HandlerTask | None:
    """Return the tasks of one run, as far as they are for the same handler; take the rest back."""
    records, machine = work.records, work.machine
    known = records.get(run[0].offset)
    kept = 1
    if known is not None and known[1].is_plain:
        while kept < len(run) and (other := records.get(run[kept].offset)) and other[1] is known[1]:
            kept += 1
    for each in run[kept:]:
        machine.untake(each.offset)
    if known is None:  # its topic or its handler is gone
        pass_unhandled(work, run[0])
        return None
    task: HandlerTask | None = None
    for more, delivery in enumerate(reversed(run[:kept])):
        task = task_of(work, delivery, task, more)
    return task
