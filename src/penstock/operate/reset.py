"""Resets a group: records of a topic come again or are skipped. The rules are in `delivery.reset`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.reset import CursorReset, Move
from penstock.errors import InvalidSelection, OffsetOutOfRange, PickChanged, TopicVanished, UnknownPartition, shown
from penstock.log.contract import Log, Topic
from penstock.log.store import Store
from penstock.log.topics import later_partitions
from penstock.model.limits import check_moment

from . import audit
from .members import living_at, touch_group
from .operation import group_id, operation

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
To = Literal["earliest", "latest"] | int | datetime


@dataclass(frozen=True, slots=True)
class Reset:
    """The result of a reset, or of its dry run, per partition."""

    moves: tuple[Move, ...]

    @property
    def again(self) -> int:
        """How many records come again."""
        return sum(each.again for each in self.moves)

    @property
    def skipped(self) -> int:
        """How many records are skipped unread."""
        return sum(each.skipped for each in self.moves)


@operation
def reset(
    store: Store,
    group: str,
    *,
    topic: str,
    to: To,
    partition: int | None = None,
    drop_parked: bool = False,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> Reset:
    """Move a group on a topic to "earliest", "latest", the first record at a moment, or an offset.

    An offset needs `partition`, unless the topic has only one; the others apply to one partition or to all.
    Safe while workers run. Records that wait in lanes below the target stay unless `drop_parked`. Raises
    UnknownGroup, UnknownTopic, UnknownPartition, OffsetOutOfRange, InvalidTime, InvalidSelection.
    """
    found, id = store.log.topic(topic), group_id(store, group)
    to = _checked(to, found, partition, clock)
    cursors = CursorReset(id, found.id, living=living_at(clock), touch=touch_group)

    def done_by(moves: list[Move]) -> Reset:
        if not moves:
            raise InvalidSelection(f"group {group} does not read topic {topic}: see `groups show`")
        return Reset(tuple(moves))

    def would(tx: Transaction) -> Reset:
        return done_by(cursors.moves(tx, _targets(store.log_in(tx), found, to, partition)))

    def change(tx: Transaction) -> Reset:
        now_ms, log = own_ms(clock), store.log_in(tx)
        targets = _targets(log, found, to, partition)
        behind = later_partitions(log.growths(found), len(log.all_bounds(found)), targets)
        moves = cursors.reset(tx, targets, drop_parked=drop_parked, now_ms=now_ms, behind=behind)
        # If retention deleted meanwhile, the reset is retried; it cannot while the bounds are pinned.
        bounds = log.all_bounds(found, pinned=[each.partition for each in moves])
        kept = sum(bounds[each.partition].start <= each.to_offset for each in moves if each.partition in bounds)
        if kept < len(moves):
            raise PickChanged(len(moves), kept)
        done = done_by(moves)
        subject = {"group": group, "topic": topic, "partition": partition, "to": str(to)}
        subject |= {"drop_parked": drop_parked or None}
        audit.write(tx, "group reset", subject, done.again + done.skipped, now_ms, actor=actor)
        return done

    return store.database.look(would) if dry_run else store.database.run(change)


def _checked(to: To, topic: Topic, partition: int | None, clock: Clock) -> To:
    if partition is not None and not 0 <= partition < topic.partitions:
        raise UnknownPartition(topic.name, partition, topic.partitions)
    if isinstance(to, datetime):
        check_moment("to", to, clock.now_ms())
    elif isinstance(to, bool) or not (isinstance(to, int) or to in (EARLIEST, LATEST)):
        wanted = f"{EARLIEST}, {LATEST}, an offset or a moment"
        raise InvalidSelection(f"a group can be reset to {wanted}, not to {shown(to)}")
    elif isinstance(to, int) and partition is None and topic.partitions > 1:
        raise InvalidSelection(f"offset {to} needs a partition of topic {topic.name}: name one")
    return to


def _targets(log: Log, topic: Topic, to: To, partition: int | None) -> dict[int, int]:
    bounds = log.all_bounds(topic)
    if isinstance(to, datetime):
        found = log.offsets_at(topic, check_moment("to", to, 0))
    elif isinstance(to, int):
        only = partition or 0
        start, end = bounds.get(only, (0, 0))
        if not start <= to <= end:
            raise OffsetOutOfRange(topic.name, only, to, start, end)
        found = {only: to}
    else:
        found = {number: each.end if to == LATEST else each.start for number, each in bounds.items()}
    if not found:
        raise TopicVanished
    return found if partition is None else {partition: found[partition]}
