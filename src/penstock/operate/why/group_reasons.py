"""Why a whole group waits on a topic, and the further reasons."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.contract import Bounds, Log, OffsetRange, Topic
from penstock.log.topics import former_places
from penstock.worker.group import bounds

from ..catch_up import PassedOverType, passed_over_by
from . import sentences as say
from .answer import Code, Reason, ahead, counted, with_others
from .member_reasons import busy, hanging
from .members import Members, Served, Service
from .record_case import CaseReader, Cursor, StoredGroup, cursor_of, group_of, waiting_counts
from .record_reasons import hindrances
from .unlogged import LONG_MS, OpenTransactions, blocked, explain_ready, unseen

_WORST = (
    Service.NONE,
    Service.GIVEN_UP,
    Service.PINNED,
    Service.DIFFERS,
    Service.STOPPED,
    Service.COMING,
    Service.OWNED,
)
_MOST_URGENT = (Code.SLOW_HANDLER, Code.CAREFUL, Code.RATE, Code.BUSY, Code.IN_WORK)


@dataclass(frozen=True, slots=True)
class PartitionCase:
    """A partition of the topic: the group's cursor and lanes in it, and its bounds.

    `stopped`: the whole partition is one lane, which is held or waits for the retry of its head.
    """

    partition: int
    cursor: Cursor
    bounds: Bounds
    held: int
    resting: int
    next_due_ms: int | None
    due: int
    moved: int
    stopped: bool
    served: Served
    waits_for: int | None  # a partition to be read first, since the topic has grown

    @property
    def behind(self) -> int:
        """How many records of the log the group has not passed."""
        return self.cursor.done.open_below(self.bounds.end) - self.lost

    @property
    def lost(self) -> int:
        """How many records retention deleted before the group passed them."""
        return self.cursor.done.open_below(self.bounds.start)

    @property
    def has_work(self) -> bool:
        """Whether the group has work to do now."""
        return not self.stopped and (self.behind > 0 or self.due > 0)


class GroupReasons:
    """Explains groups on one snapshot."""

    def __init__(
        self, tx: Transaction, log: Log, reader: CaseReader, members: Members, opened: OpenTransactions, now_ms: int
    ) -> None:
        self._tx, self._log, self._reader, self._members = tx, log, reader, members
        self._opened, self._now_ms = opened, now_ms

    def of(self, group: StoredGroup, only: str | None = None) -> Iterator[tuple[str, Reason]]:
        """Yield each topic that a group reads or wants to read, by name, and why it waits there."""
        rows = self._tx.rows("operate", "group_cursors", group_id=group.id, topic_id=None)
        by_id = {id: list(each) for id, each in groupby(rows, key=lambda row: row[0])}
        topics = {topic.name: topic for topic in self._log.topics()}
        read = {name for name, topic in topics.items() if topic.id in by_id}
        passed_over = passed_over_by(self._tx, self._log, group.id)
        for name in sorted(read | _topics_wanted(group)):
            if only not in (None, name):
                continue
            if name in read:
                places = list(self._places(group, topics[name], by_id[topics[name].id]))
                over = [each for each in passed_over if each.topic == name]
                yield name, self._explain(group, topics[name], places, over)
            else:
                yield name, self._new_topic(group, name, name in topics)

    def about_to_read(self, topic: str) -> Reason | None:
        """Return why a group that wants a topic has no cursor in it yet; None if no group wants it."""
        for row in self._tx.rows("operate", "groups_all", name=None):
            group = group_of(row)
            if topic in _topics_wanted(group):
                return self._unplaced(group, topic)
        return None

    # -- a topic in which the group has no cursor

    def _new_topic(self, group: StoredGroup, topic: str, there: bool) -> Reason:
        ready = explain_ready(self._tx, self._members, topic, self._now_ms, self._opened)
        if ready is not None:
            return _in_group(group, topic, ready)
        if there:
            return _in_group(group, topic, self._unplaced(group, topic))
        writers = self._opened.long_writers()
        if writers:
            return _in_group(group, topic, Reason(Code.OPEN_TRANSACTION, unseen(writers)))
        text = f"group {group.name} waits for topic {topic}: nothing has been published to it yet"
        return Reason(Code.DELIVERED, text)

    def _unplaced(self, group: StoredGroup, topic: str) -> Reason:
        serving = self._members.wanting(group.id, topic)
        text = f"group {group.name} has no cursor in topic {topic} yet, which is new or was created again"
        if serving:
            return Reason(Code.NEW_TOPIC, f"{text}; {serving[0].name} takes it over within seconds")
        return Reason(Code.NEW_TOPIC, f"{text}, and no living member serves the group there", commands=(say.WORKER,))

    # -- a topic that it reads

    def _places(self, group: StoredGroup, topic: Topic, rows: list[Row]) -> Iterator[PartitionCase]:
        ids = {"group_id": group.id, "topic_id": topic.id}
        found = self._tx.rows("operate", "lanes_by_partition", now_ms=self._now_ms, **ids)
        lanes = {row[0]: row[1:] for row in found}
        held_in, growths = self._log.all_bounds(topic), self._log.growths(topic) if topic.generation else []
        cursors = {row[1]: cursor_of(row[2:]) for row in rows}
        empty = Bounds(0, 0)
        passed = {number: max(cursor.offset, held_in.get(number, empty).start) for number, cursor in cursors.items()}
        for number, cursor in cursors.items():
            served = self._reader.served(group, topic, number, cursor)
            kept = held_in.get(number, empty)
            held, resting, next_due_ms, due, moved, whole = lanes.get(number, (0, 0, None, 0, 0, 0))
            former = former_places(growths, number)
            first = next((at for at, until in former if passed.get(at, until) < until), None)
            waits = held, resting, next_due_ms, due, moved
            yield PartitionCase(number, cursor, kept, *waits, bool(whole), served, waits_for=first)

    def _explain(
        self, group: StoredGroup, topic: Topic, places: list[PartitionCase], passed_over: list[PassedOverType]
    ) -> Reason:
        found = [*_beyond(topic, places, self._log.shortened(topic)), *_waiting(group, places, self._now_ms)]
        working = [place for place in places if place.has_work]
        hindered = hindrances(group, *_worst(topic, working or places), self._now_ms)
        rest = list(self._aside(group, topic, places, passed_over))
        ready = explain_ready(self._tx, self._members, topic.name, self._now_ms, self._opened)
        if working:
            lockers = self._opened.long_lockers()
            held_up = [Reason(Code.OPEN_TRANSACTION, blocked(lockers))] if lockers else []
            first, *others = hindered + held_up + [self._busy(group, topic, working)] + found
            if ready is not None and (ready.since_ms or 0) <= self._now_ms - LONG_MS:
                others.append(ready)
            return _in_group(group, topic.name, with_others(first, others + rest))
        first, *others = ([] if ready is None else [ready]) + found or [self._done(group, topic)]
        return _in_group(group, topic.name, with_others(first, others + hindered + rest))

    def _aside(
        self, group: StoredGroup, topic: Topic, places: list[PartitionCase], types: list[PassedOverType]
    ) -> Iterator[Reason]:
        """Yield what holds nothing up: dead letters that hold no key, records that are lost or were passed over."""
        counts = {row[1]: row[2] for row in self._tx.rows("operate", "group_dead", groups=[group.id])}
        dead = counts.get(topic.id, 0) - sum(each.held for each in places)
        if dead > 0:
            waits = counted(dead, "dead letter waits", "dead letters wait")
            text = f"{waits} to be requeued or discarded; they hold no key"
            yield Reason(Code.DEAD, text, commands=(say.of_group("dead list", group),))
        lost, unread = sum(each.lost for each in places), "that the group had not read"
        if lost:
            gone = counted(lost, f"record {unread} was", f"records {unread} were")
            yield Reason(Code.GONE, f"{gone} deleted by retention, which had stopped waiting for the group")
        left = [each for each in types if not each.coming]
        if left:
            count, names = sum(each.records for each in left), ", ".join(each.type for each in left[:3])
            more = f" and {len(left) - 3} more" if len(left) > 3 else ""
            which = f"for which it has no handler ({names}{more})"
            text = f"about {counted(count, f'record {which} was', f'records {which} were')} passed over"
            yield Reason(Code.NO_HANDLER, text)

    def _done(self, group: StoredGroup, topic: Topic) -> Reason:
        writers = [each for each in self._opened.long_writers() if each.age_ms is not None]
        if writers:
            return Reason(Code.OPEN_TRANSACTION, unseen(writers))
        text = f"group {group.name} has nothing to do on {topic.name}: all that its handlers want is delivered"
        unknown = self._opened.long_writers()
        return Reason(Code.DELIVERED, text, also=(unseen(unknown),) if unknown else ())

    def _busy(self, group: StoredGroup, topic: Topic, working: list[PartitionCase]) -> Reason:
        behind, text = sum(each.behind for each in working), _to_do(working)
        owned = {
            each.cursor.owner: each.served
            for each in working
            if each.served.service is Service.OWNED and each.cursor.owner is not None
        }
        counts = waiting_counts(self._tx, topic, [(group.id, owner) for owner in owned])
        for lanes, entries in counts.values():
            if behind and (lanes > bounds.LANES_BOUND or entries > bounds.ENTRIES_BOUND):
                commands = (say.of_group("lanes", group),)
                return Reason(Code.BOUNDS, f"{say.full(lanes, entries)}; {text}", commands=commands)
        crashed = next((each for each in working if each.cursor.trial.goes_by_few), None)
        if crashed is not None:
            careful = say.by_few(topic.name, crashed.partition, crashed.cursor.trial)
            return Reason(Code.CAREFUL, f"{careful}; {text}")
        found = [busy(one, group.name, None, self._now_ms) for one in owned.values()]
        inside = [each for each in found if each is not None]
        hung = tuple(filter(None, (hanging(one, group.name, self._now_ms) for one in owned.values())))
        if not inside:
            return Reason(Code.IN_WORK, text, also=hung)
        worst = min(inside, key=lambda each: _MOST_URGENT.index(each.code))
        return replace(worst, sentence=f"{worst.sentence}; {text}", also=hung)


def _topics_wanted(group: StoredGroup) -> set[str]:
    return {text.partition(":")[0] for text in group.filters[0]} if group.filters else set()


def _in_group(group: StoredGroup, topic: str, reason: Reason) -> Reason:
    if reason.code is Code.DELIVERED:
        return reason
    does = "is working" if reason.code is Code.IN_WORK else "waits"
    return replace(reason, sentence=f"group {group.name} {does} on {topic}: {reason.sentence}")


def _worst(topic: Topic, places: list[PartitionCase]) -> tuple[Served, str]:
    """Return the worst service among some partitions, and which of them have it."""
    worst = min((each.served for each in places), key=_badness)
    alike = [each.partition for each in places if _badness(each.served) == _badness(worst)]
    if len(alike) == 1:
        return worst, f"{topic.name}/{alike[0]}"
    return worst, f"{counted(len(alike), 'partition')} of {topic.name} (such as {alike[0]})"


def _badness(served: Served) -> tuple[int, bool]:
    return _WORST.index(served.service), "delivery" not in served.status.troubles


def _waiting(group: StoredGroup, places: list[PartitionCase], now_ms: int) -> Iterator[Reason]:
    held, resting = sum(each.held for each in places), sum(each.resting for each in places)
    of = "partition" if any(each.stopped for each in places) else "key"
    if resting:
        next_due_ms = min(each.next_due_ms for each in places if each.next_due_ms is not None)
        waits = counted(resting, f"{of} waits", f"{of}s wait")
        text = f"{waits} to be tried again, the first {ahead(next_due_ms, now_ms)}"
        yield Reason(Code.PARKED, text, until_ms=next_due_ms, commands=(say.of_group("lanes", group),))
    if held:
        text = f"{counted(held, f'{of} is', f'{of}s are')} held by dead letters until you requeue or discard them"
        yield Reason(Code.HELD, text, commands=(say.of_group("lanes", group, "--held"),))
    moved = sum(each.moved for each in places)
    if moved:
        waits = counted(moved, "key waits", "keys wait")
        text = f"{waits} for earlier records in partitions from before the topic grew"
        yield Reason(Code.GROWN, text, commands=(say.of_group("lanes", group),))
    closed = [each for each in places if each.waits_for is not None and each.behind]
    if closed:
        one, are = closed[0], "is" if len(closed) == 1 else "are"
        text = f"{counted(len(closed), 'partition')} (such as {one.partition}) {are} read once the records"
        text += f" from before the topic grew, in others (such as {one.waits_for}), are done"
        yield Reason(Code.GROWN, text)


def _beyond(topic: Topic, places: list[PartitionCase], lost: Mapping[int, OffsetRange]) -> Iterator[Reason]:
    """Yield a reason if the log lost records that the group had passed: it would skip new ones."""
    for each in places:
        found, offset = lost.get(each.partition), each.cursor.offset
        if found is not None and found.low < offset <= found.high:
            text = (
                f"it is stopped: it stands at offset {offset:,} of {topic.name}/{each.partition}, and the "
                f"log has lost its records from offset {max(0, found.low):,} on; new records are appended "
                "after the lost ones, and none is passed over"
            )
            yield Reason(Code.BEYOND_END, text, commands=("penstock restored",))
            return
    beyond = [each for each in places if each.cursor.offset > max(each.bounds)]
    if not beyond:
        return
    one, more = beyond[0], f" (and {counted(len(beyond) - 1, 'more partition')})" if len(beyond) > 1 else ""
    text = (
        f"it stands at offset {one.cursor.offset:,} of {topic.name}/{one.partition}{more}, but the log ends "
        f"at {one.bounds.end:,}: a backup was restored, or a crash lost records that were not on disk yet; "
        f"records appended below offset {one.cursor.offset:,} would be passed over"
    )
    yield Reason(Code.BEYOND_END, text, commands=("penstock restored",))


def _to_do(working: list[PartitionCase]) -> str:
    behind, due = sum(each.behind for each in working), sum(each.due for each in working)
    parts = []
    if behind:
        partitions = counted(sum(each.behind > 0 for each in working), "partition")
        parts.append(f"{counted(behind, 'record is', 'records are')} to be read in {partitions}")
    if due:
        parts.append(counted(due, "key waits for its turn", "keys wait for their turn"))
    return " and ".join(parts)
