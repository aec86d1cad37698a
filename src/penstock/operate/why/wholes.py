"""Why a whole group is where it is on a topic: what it waits for, and what comes next."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from penstock.log.contract import Log, Topic
from penstock.log.growth import former_places
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Transaction
from penstock.worker.group import bounds

from . import sentences as say
from .answer import Code
from .explaining import Reason, hindrances, with_others
from .members import Served, Service
from .standing import Cursor, StandingReader, StoredGroup, cursor_of
from .wording import ahead, counted

_WORST = (Service.NONE, Service.PINNED, Service.DIFFERS, Service.COMING, Service.OWNED)


@dataclass(frozen=True, slots=True)
class PartitionStanding:
    """A partition of the topic, where the group is in it and where it ends, and its lanes.

    `stopped`: it is a lane itself, and that is held or rests until its head is tried again.
    """

    partition: int
    cursor: Cursor
    end: int
    held: int
    resting: int
    next_due_ms: int | None
    due: int
    moved: int
    stopped: bool
    served: Served
    waits_for: int | None  # a partition that comes first, since the topic has grown

    @property
    def behind(self) -> int:
        """How many records of the log it has not passed."""
        return self.cursor.open_before(self.end)

    @property
    def has_work(self) -> bool:
        """Whether something is to be done now."""
        return not self.stopped and (self.behind > 0 or self.due > 0)


def topics_of(
    tx: Transaction, log: Log, reader: StandingReader, group: StoredGroup, topic_id: int | None, now_ms: int
) -> Iterator[tuple[Topic, Reason]]:
    """Yield each topic that a group reads, by name, and why it is where it is."""
    rows = tx.rows("delivery", "group_cursors", group_id=group.id, topic_id=topic_id)
    by_id = {id: list(each) for id, each in groupby(rows, key=lambda row: row[0])}
    for topic in log.topics():
        if topic.id in by_id:
            places = list(_places(tx, log, reader, group, topic, by_id[topic.id], now_ms))
            yield topic, _explain(tx, group, topic, places, now_ms)


def _places(
    tx: Transaction,
    log: Log,
    reader: StandingReader,
    group: StoredGroup,
    topic: Topic,
    rows: list[Row],
    now_ms: int,
) -> Iterator[PartitionStanding]:
    ids = {"group_id": group.id, "topic_id": topic.id}
    lanes = {row[0]: row[1:] for row in tx.rows("delivery", "lanes_by_partition", now_ms=now_ms, **ids)}
    bounds_now, growths = log.all_bounds(topic), log.growths(topic) if topic.generation else []
    cursors = {row[1]: cursor_of(row[2:]) for row in rows}
    passed = {
        number: max(cursor.offset, bounds_now[number].start if number in bounds_now else 0)
        for number, cursor in cursors.items()
    }
    for number, cursor in cursors.items():
        served, _ = reader.served(group, topic, number, cursor)
        held, resting, next_due_ms, due, moved, whole = lanes.get(number, (0, 0, None, 0, 0, 0))
        end = bounds_now[number].end if number in bounds_now else 0
        former = former_places(growths, number)
        first = next((at for at, until in former if passed.get(at, until) < until), None)
        yield PartitionStanding(
            number, cursor, end, held, resting, next_due_ms, due, moved, bool(whole), served, waits_for=first
        )


def _explain(
    tx: Transaction, group: StoredGroup, topic: Topic, places: list[PartitionStanding], now_ms: int
) -> Reason:
    found = _waiting(group, places, now_ms)
    working = [place for place in places if place.has_work]
    hindered = hindrances(group, *_worst(topic, working or places), now_ms)
    if not working:
        first, *rest = _staged(tx, topic) + found or [_done(group, topic)]
        return _ended(group, topic, with_others(first, rest + hindered))
    found.insert(0, _busy(tx, group, topic, working))
    first, *rest = hindered + found
    return _ended(group, topic, with_others(first, rest))


def _ended(group: StoredGroup, topic: Topic, reason: Reason) -> Reason:
    if reason.code is Code.DELIVERED:
        return reason
    does = "is at work" if reason.code is Code.IN_WORK else "waits"
    return replace(reason, sentence=f"group {group.name} {does} on {topic.name}: {reason.sentence}")


def _worst(topic: Topic, places: list[PartitionStanding]) -> tuple[Served, str]:
    """Return the worst state of service among some partitions, and which of them have it."""
    worst = min((each.served for each in places), key=lambda each: _WORST.index(each.service))
    alike = [each.partition for each in places if each.served.service is worst.service]
    if len(alike) == 1:
        return worst, f"{topic.name}/{alike[0]}"
    return worst, f"{counted(len(alike), 'partition')} of {topic.name} (such as {alike[0]})"


def _staged(tx: Transaction, topic: Topic) -> list[Reason]:
    """Return what is committed and not in the log yet."""
    ((staged, _),) = tx.rows("outbox", "topic_unlogged", topic=topic.name)
    if not staged:
        return []
    text = f"{counted(staged, 'event')} {'is' if staged == 1 else 'are'} committed and not in the log yet"
    return [Reason(Code.NOT_SEQUENCED, text)]


def _done(group: StoredGroup, topic: Topic) -> Reason:
    return Reason(Code.DELIVERED, f"group {group.name} has nothing to do on {topic.name}: all is delivered")


def _waiting(group: StoredGroup, places: list[PartitionStanding], now_ms: int) -> list[Reason]:
    """Return what waits in lanes for a time or a person."""
    held, resting = sum(each.held for each in places), sum(each.resting for each in places)
    found, of = [], "partition" if any(each.stopped for each in places) else "key"
    if resting:
        next_due_ms = min(each.next_due_ms for each in places if each.next_due_ms is not None)
        waits = "waits" if resting == 1 else "wait"
        first = ahead(next_due_ms, now_ms)
        text = f"{counted(resting, of)} {waits} to be tried again, the first {first}"
        found.append(Reason(Code.PARKED, text, until_ms=next_due_ms, commands=(say.list_lanes(group),)))
    if held:
        are = "is" if held == 1 else "are"
        text = f"{counted(held, of)} {are} held by dead letters until a person requeues or discards them"
        found.append(Reason(Code.HELD, text, commands=(say.list_lanes(group, held=True),)))
    moved = sum(each.moved for each in places)
    if moved:
        waits = "waits" if moved == 1 else "wait"
        text = f"{counted(moved, 'key')} {waits} for what is left where they were before the topic grew"
        found.append(Reason(Code.GROWN, text, commands=(say.list_lanes(group),)))
    closed = [each for each in places if each.waits_for is not None and each.behind]
    if closed:
        one, are = closed[0], "is" if len(closed) == 1 else "are"
        text = f"{counted(len(closed), 'partition')} (such as {one.partition}) {are} read once what came"
        text += f" before the topic grew, in others (such as {one.waits_for}), is done"
        found.append(Reason(Code.GROWN, text))
    return found


def _busy(tx: Transaction, group: StoredGroup, topic: Topic, working: list[PartitionStanding]) -> Reason:
    """Return what there is to do, and how it is done."""
    behind, due = sum(each.behind for each in working), sum(each.due for each in working)
    parts = []
    if behind:
        partitions = counted(sum(each.behind > 0 for each in working), "partition")
        parts.append(
            f"{counted(behind, 'record')} {'is' if behind == 1 else 'are'} to be read in {partitions}"
        )
    if due:
        parts.append(f"{counted(due, 'key')} {'waits for its' if due == 1 else 'wait for their'} turn")
    text = " and ".join(parts)
    for owner in {each.cursor.owner for each in working if each.served.service is Service.OWNED}:
        params = {"group_id": group.id, "topic_id": topic.id, "owner": owner}
        lanes, entries = map(int, tx.rows("delivery", "waiting_counts", **params)[0])
        if behind and (lanes > bounds.LANES_BOUND or entries > bounds.ENTRIES_BOUND):
            commands = (say.list_lanes(group),)
            return Reason(Code.BOUNDS, f"{say.full(lanes, entries)}; {text}", commands=commands)
    crashed = next((each for each in working if each.cursor.trial.goes_by_few), None)
    if crashed is not None:
        careful = say.by_few(topic.name, crashed.partition, crashed.cursor.trial)
        return Reason(Code.CAREFUL, f"{careful}; {text}")
    return Reason(Code.IN_WORK, text)
