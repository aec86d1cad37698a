"""One owned partition at work: the value that the parts of a group's delivery pass around."""

from dataclasses import dataclass, field

from penstock.delivery.machine import Delivery, Partition
from penstock.delivery.store import Owned
from penstock.delivery.verdict import Passed
from penstock.model.record import Record

from ..handler import Handler


@dataclass(slots=True, eq=False)
class PartitionWork:
    """An owned partition: its state machine, the records in memory, and those that may come a second time.

    Each field has one writer: the held records write `records`; the settling writes `settled_to`, `finished`
    and `writing`; the reader writes `has_holes` and `unhandled`; the owned partitions write `leaving`, `lost`
    and `lanes_changed`. While a unit of work has borrowed the partition, only that unit uses the machine.
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


def pass_unhandled(work: PartitionWork, delivery: Delivery) -> None:
    """Pass a record that waited and no longer has a handler.

    If the handler for its type is gone, it is noted for late delivery, and marked if it was handed out
    before. Otherwise the record itself or its topic is gone.
    """
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
