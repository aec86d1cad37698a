"""A group's progress in the database: cursors, waiting lanes, dead letters, and their settlement.

Only its owner moves a cursor, in its epoch, from the version it was left in; lanes, entries and dead letters are
written in the same transaction and only for cursors that took the move. So a late, stale or repeated settling changes
nothing and reports the partitions it lost. An owner learns a person's decisions on dead letters, then settles.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from penstock import points
from penstock.clock import Clock, own_ms
from penstock.database.contract import Call, Rows
from penstock.database.database import Transaction
from penstock.errors import UnknownTopic
from penstock.log.contract import LAST_OFFSET, Chunk, Position, Topic
from penstock.log.entry import Content, Entry, is_cut
from penstock.log.sql.append import COLUMNS, columns
from penstock.log.store import Store

from .cursor_state import GoingOut, Trial, stored_trial
from .groups import GroupKind, join_group
from .growth_barriers import OPEN, Barrier, FormerPartitions
from .lane import LANE_COLUMNS, LaneId, StoredLane, WaitState, columns_of, stored_lane
from .machine import Partition, Settlement
from .notes import CatchUp, LateRange, Notes

BEFORE_SETTLE = points.declare("delivery.before_settle", "Records are handled; nothing is written yet.")
BEFORE_COMMIT = points.declare("delivery.before_commit", "Cursors and lanes are written; not committed.")
AFTER_SETTLE = points.declare("delivery.after_settle", "The settlement is committed; no other thread knows yet.")
AFTER_TAKE = points.declare("delivery.after_take", "Cursors have a new owner in the open transaction.")
AFTER_RELEASE = points.declare("delivery.after_release", "Cursors are given back and committed.")

logger = logging.getLogger("penstock.delivery")

_AT_ONCE = 32  # cursors that are moved in one trip: its plan is for a few

Living = Callable[[Transaction], list[str]]
_DEAD = f"group_id topic_id partition place {LANE_COLUMNS} holding failures reason died_ms {COLUMNS}"
_SETTLED = "partition base passed crashes trial epoch version lanes_version handed_to kept_back"
_Lanes = dict[int, list[tuple[StoredLane, list[int]]]]


@dataclass(slots=True)
class Owned:
    """A partition this member owns for a group: its state, and the content its row must still have.

    `crashes` counts the owners lost without release: `doubtful` are the records they may have had in flight, which may
    come again; `repeats` single records that went out before and come again; `is_certain`: those owners hand out
    nothing more. `going_out`: the records that this owner may hand out before it writes down more. `trial`: the
    suspects; `killers` those to be put off. `copied`: the waiting records with a copy of their own, which takes
    precedence over the log. `lanes_version`: the decisions on its lanes that the machine knows. `barrier`: whether it
    may be read, after its topic has grown.
    """

    machine: Partition
    epoch: int
    version: int
    crashes: int
    filter_version: int
    copied: frozenset[int] = frozenset()
    trial: Trial = field(default_factory=Trial)
    killers: set[int] = field(default_factory=set)
    late: list[LateRange] = field(default_factory=list)  # notes of records to be delivered late
    lanes_version: int = 0
    barrier: Barrier = OPEN
    going_out: GoingOut = GoingOut()
    doubtful: GoingOut = GoingOut()
    repeats: set[int] = field(default_factory=set)
    is_certain: bool = False

    def plan(self, settlement: Settlement) -> None:
        """Hand out no more than the row allows, whether or not the settlement will be written."""
        settlement.going_out = self.with_repeats(settlement.going_out)
        self.going_out &= settlement.going_out

    def with_repeats(self, going_out: GoingOut) -> GoingOut:
        """Return the records going out joined with those that come again: a successor marks both."""
        base = self.machine.base
        again = [offset for offset in list(self.repeats) if offset >= base]
        return going_out | self.doubtful | GoingOut.only(again, base)

    def settled(self, settlement: Settlement, *, skips: bool) -> None:
        """Record that a settlement is written, with its skipped records or without."""
        self.version += 1
        self.going_out = settlement.going_out
        self.machine.confirm(skips=skips)

    def close(self, barrier: Barrier) -> None:
        """Let a partition, or some of its lanes, wait until their keys are done where they were before."""
        self.barrier = barrier
        self.machine.bar(barrier.barred)


Settling = Mapping[int, tuple[Owned, Settlement]]  # by partition: the content to be written


class Written(NamedTuple):
    """The partitions whose settlements are written, and those of them whose skipped records are included."""

    kept: set[int]
    skips: set[int]


class GroupStore:
    """The rows of one group on one topic, as one member sees them.

    While the group's filter differs from `filter`, nothing is taken, and no record is passed over that another version
    may have handlers for; while the group is paused, nothing is taken and nothing kept. `touch` is called with the ids
    of group and topic in each transaction that releases cursors. `gone` returns, under the group's lock, the members
    whose processes have ended for certain, and perhaps because of a record. `catch_up` selects the notes that are
    delivered late.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        group: str,
        topic: Topic,
        owner: str,
        from_start: bool = True,
        filter: tuple[str, ...] | None = None,
        touch: Callable[[Transaction, int, int], object] = lambda tx, group_id, topic_id: None,
        catch_up: CatchUp | None = None,
        gone: Living = lambda tx: [],
    ) -> None:
        self._store, self._database, self._clock, self._gone = store, store.database, clock, gone
        self.topic, self._owner, self._filter, self._touch = topic, owner, filter, touch
        self._group, self._was_paused = group, False
        store.log.check_parts()
        self.group_id: int = store.database.run(lambda tx: _join(tx, store, group, topic, own_ms(clock), from_start))
        self._ids = {"group_id": self.group_id, "topic_id": topic.id}
        self.notes = Notes(self.group_id, topic, catch_up)
        self._former = FormerPartitions(store, self.group_id, topic)

    @property
    def partitions(self) -> int:
        """How many partitions the topic had when some were last taken."""
        return self._former.partitions

    def barriers(self, partitions: Collection[int]) -> dict[int, Barrier]:
        """Return whether partitions may be read, and which of their lanes must wait."""
        found = self._database.look(lambda tx: self._former.barriers(tx, partitions))
        return {number: found.get(number, OPEN) for number in partitions}

    def take(self, living: Living) -> dict[int, Owned]:
        """Own every cursor that has work and no living owner; return their state.

        `living` is called under the group's lock: it then lists every member that has taken cursors before us.
        """

        def take(tx: Transaction) -> dict[int, Owned]:
            ends = self._store.log_in(tx).ends(self.topic)
            ends |= dict.fromkeys(self.notes.partitions(tx), LAST_OFFSET)  # these have work, too
            table = Rows(partition=list(ends), place=list(ends.values()))
            return self._take(tx, living, "cursors_take", now_ms=own_ms(self._clock), ends=table)

        return self._database.run(take)

    def take_wanted(self, living: Living) -> dict[int, Owned]:
        """Own every cursor that is meant for this member and has no living owner; return their state."""
        return self._database.run(lambda tx: self._take(tx, living, "cursors_take_wanted"))

    def owned(self) -> dict[int, tuple[int, bool, int]]:
        """Return the partitions owned: epoch, whether to keep it (not if paused), and the version of its lanes."""
        rows = self._database.look(lambda tx: tx.rows("delivery", "cursors_owned", owner=self._owner, **self._ids))
        return {
            partition: (epoch, wanted == self._owner and not paused, lanes_version)
            for partition, epoch, wanted, paused, lanes_version in rows
        }

    def is_paused(self) -> bool:
        """Return whether deliveries to the group are paused until a person resumes it."""
        rows = self._database.look(lambda tx: tx.rows("delivery", "group_paused", group_id=self.group_id))
        return any(paused_ms is not None for (paused_ms,) in rows)

    def hand_out(self, cursors: Mapping[int, tuple[Owned, GoingOut]]) -> set[int]:
        """Write down which records go out, and their trials; return the partitions lost.

        Call it before any of them begins: after a loss these records are marked, and no others.
        """
        going = [
            (number, owned.trial.encode(), out.to, owned.epoch, owned.version, out.bitmap())
            for number, (owned, out) in cursors.items()
        ]
        table = Rows.of("partition trial handed_to epoch version kept_back", going)
        rows = self._database.run(
            lambda tx: tx.rows("delivery", "cursors_hand_out", handed=table, owner=self._owner, **self._ids)
        )
        kept = {row[0] for row in rows}
        for partition in kept:
            owned, going_out = cursors[partition]
            owned.going_out = going_out
        return cursors.keys() - kept

    def copies(self, places: Collection[tuple[int, int]], *, max_bytes: int) -> Chunk:
        """Return the records that retention has copied to waiting entries, as a read of the log would."""
        table = Rows.of("partition place", places)
        rows = self._database.look(
            lambda tx: tx.rows("delivery", "entries_read", entries=table, max_bytes=max_bytes, **self._ids)
        )
        entries = [Entry(*row) for row in rows]
        return Chunk(entries, is_cut(entries, max_bytes))

    def settle(self, settled: Settling) -> set[int]:
        """Write the settlements of some partitions; return those that were lost to another owner."""
        return self.confirm(settled, self.write(settled))

    def write(self, settled: Settling) -> Written:
        """Write the settlements of some partitions, and touch no machine: another thread may use them."""
        points.reach(BEFORE_SETTLE)
        if self._goes_at_once(settled):
            [moved] = self._database.run_whole([self._moving(settled, set(settled))])  # others go step by step
            kept = skips = {row[0] for row in moved.rows}
        else:
            kept, skips = self._database.run(lambda tx: self._settle(tx, settled, learns=False))
        return Written(kept, skips & kept)  # refused ones are checked again: the filter may have changed

    def confirm(self, settled: Settling, written: Written) -> set[int]:
        """Record what was written; return the partitions lost. Those refused for decisions on letters are written."""
        kept, skips = written
        rest = {partition: each for partition, each in settled.items() if partition not in kept}
        if rest:
            more, skipping = self._database.run(lambda tx: self._settle(tx, rest))
            kept, skips = kept | more, skips | skipping
        points.reach(AFTER_SETTLE)
        for partition in kept:
            owned, settlement = settled[partition]
            owned.settled(settlement, skips=partition in skips)
        return settled.keys() - kept

    def _goes_at_once(self, settled: Settling) -> bool:
        """Return whether a few cursors are moved and nothing else, and no test needs to see the steps."""
        dialect = self._database.dialect
        return (
            dialect.whole_trips
            and not dialect.lacks
            and len(settled) <= _AT_ONCE
            and all(each.is_plain for _, each in settled.values())
            and not points.is_armed(BEFORE_COMMIT)
        )

    def settle_in(self, tx: Transaction, settled: Settling) -> tuple[set[int], set[int]]:
        """Write settlements as the last statements of the caller's transaction; the caller confirms them.

        Return the partitions lost to another owner, and those whose skipped records are included.
        """
        kept, skips = self._settle(tx, settled)
        return settled.keys() - kept, skips

    def release(self, partitions: Collection[int], in_doubt: Collection[int] = ()) -> None:
        """Release cursors; `in_doubt`: some records were handed out and not settled: the next owner marks them."""
        if partitions:
            self._database.run(lambda tx: self._release(tx, sorted(partitions), sorted(in_doubt)))
            points.reach(AFTER_RELEASE)

    def _take(self, tx: Transaction, living: Living, name: str, **params: Any) -> dict[int, Owned]:
        found = tx.rows("delivery", "group_lock", group_id=self.group_id)
        if not found:
            return {}  # deleted
        ((_, filters, filter_version, paused_ms),) = found
        self._log_pause(paused_ms is not None)
        if paused_ms is not None or not self._is_mine(filters):
            return {}
        gone = self._gone(tx)
        lost = {row[0] for row in tx.rows("delivery", "cursors_of", owners=gone, **self._ids)} if gone else set()
        rows = sorted(tx.rows("delivery", name, owner=self._owner, living=living(tx), **params, **self._ids))
        points.reach(AFTER_TAKE)
        lanes, copied = self._lanes(tx, [row[0] for row in rows]) if rows else ({}, {})
        taken = {
            partition: Owned(
                Partition(offset, bytes.fromhex(passed), lanes.get(partition, ())),
                epoch,
                version,
                crashes,
                filter_version,
                frozenset(copied.get(partition, ())),
                stored_trial(trial),
                lanes_version=lanes_version,
                going_out=GoingOut.stored(*handed_out),
                doubtful=GoingOut.stored(*handed_out) if crashes else GoingOut(),
                is_certain=crashes == 1 and partition in lost,
            )
            for partition, offset, epoch, version, passed, crashes, trial, lanes_version, *handed_out in rows
        }
        for partition, barrier in self._former.barriers(tx, taken).items():
            taken[partition].close(barrier)
        self._load_late(tx, taken)
        for partition, owned in taken.items():
            if partition in lost:  # the last owner has died: judge the records it had begun
                owned.killers = owned.trial.died(owned.epoch - 1)
                trial = owned.trial.encode()
                tx.change("delivery", "cursor_judge", partition=partition, trial=trial, **self._ids)
            owned.trial.at_work.clear()  # of former owners: the records they had begun are judged
        return taken

    def _load_late(self, tx: Transaction, taken: dict[int, Owned]) -> None:
        if taken:
            machines = {partition: owned.machine for partition, owned in taken.items()}
            now_ms = tx.now_ms(own_ms(self._clock))
            late = self.notes.take(tx, self._store.log_in(tx), machines, now_ms)
            for partition, ranges in late.items():
                taken[partition].late = ranges

    def _lanes(self, tx: Transaction, partitions: list[int]) -> tuple[_Lanes, dict[int, list[int]]]:
        found: dict[tuple[int, LaneId], tuple[StoredLane, list[int]]] = {}
        copied: dict[int, list[int]] = {}
        by_partition: _Lanes = {}
        now_ms = self._clock.now_ms()
        rows = tx.rows("delivery", "lanes_load", partitions=partitions, **self._ids)
        for partition, *lane, state, failures, due_ms, reason, wait_ms in rows:
            if wait_ms is not None:  # whatever the clock of its last owner showed
                due_ms = min(due_ms, now_ms + wait_ms)
            stored = StoredLane(stored_lane(*lane), WaitState(state), failures, due_ms, reason)
            loaded = found[partition, stored.key] = (stored, [])
            by_partition.setdefault(partition, []).append(loaded)
        if found:
            entries = tx.rows("delivery", "entries_load", partitions=partitions, **self._ids)
            for partition, *lane, offset, has_copy in entries:
                found[partition, stored_lane(*lane)][1].append(offset)
                if has_copy:
                    copied.setdefault(partition, []).append(offset)
        return by_partition, copied

    def _log_pause(self, paused: bool) -> None:
        if paused != self._was_paused:
            how = "is paused: it is given nothing" if paused else "goes on"
            logger.info("group %s %s", self._group, how, extra={"group": self._group})
        self._was_paused = paused

    def _is_mine(self, filters: str) -> bool:
        known = msgspec.json.decode(filters, type=list[tuple[str, ...]])
        return self._filter is None or not known or known[0] == self._filter

    def _settle(self, tx: Transaction, settled: Settling, *, learns: bool = True) -> tuple[set[int], set[int]]:
        """Return the partitions whose settling was written, and those with their skips; see `_learn` for `learns`."""
        skips = self._skips(tx, settled)
        kept = self._move(tx, settled, skips)
        refused = {partition: settled[partition] for partition in settled.keys() - kept} if learns else {}
        if refused and (learned := self._learn(tx, refused)):
            kept |= self._move(tx, learned, skips)
        written = {partition: each for partition in kept if not (each := settled[partition][1]).is_plain}
        if written:
            self._write(tx, written)
            self.notes.settle(tx, written, skips)
        points.reach(BEFORE_COMMIT)
        return kept, skips

    def _move(self, tx: Transaction, settled: Settling, skips: set[int]) -> set[int]:
        return {row[0] for row in tx.execute(*self._moving(settled, skips)).rows} if settled else set()

    def _moving(self, settled: Settling, skips: set[int]) -> Call:
        rows = []
        for number, (owned, each) in settled.items():
            progress = (each.base, each.passed) if number in skips or each.unskipped is None else each.unskipped
            known = owned.crashes, owned.trial.encode(), owned.epoch, owned.version, owned.lanes_version
            rows.append((number, progress[0], progress[1].hex(), *known, each.going_out.to, each.going_out.bitmap()))
        cursors = Rows.of(_SETTLED, rows)
        return Call("delivery", "cursors_settle", {"settled": cursors, "owner": self._owner, **self._ids})

    def _learn(self, tx: Transaction, refused: Settling) -> Settling:
        """Tell machines the decisions on dead letters; return the partitions refused only because of them."""
        rows = tx.rows("delivery", "cursors_lanes_versions", owner=self._owner, partitions=sorted(refused), **self._ids)
        versions = {
            partition: lanes_version
            for partition, epoch, version, lanes_version in rows
            if (epoch, version) == (refused[partition][0].epoch, refused[partition][0].version)
        }
        if not versions:
            return {}
        lanes, copied = self._lanes(tx, list(versions))
        learned = {}
        for partition, lanes_version in versions.items():
            owned, settlement = refused[partition]
            back = owned.machine.learn(lanes.get(partition, ()), settlement)
            if back is None:
                continue
            owned.lanes_version = lanes_version
            owned.copied |= set[int]().union(*back.values()).intersection(copied.get(partition, ()))
            learned[partition] = refused[partition]
        return learned

    def _skips(self, tx: Transaction, settled: Settling) -> set[int]:
        """Return the partitions that may skip unwanted records: the group's filter is unchanged."""
        if all(each.unskipped is None for _, each in settled.values()):
            return set(settled)
        ((version,),) = tx.rows("delivery", "filter_keep", group_id=self.group_id)
        return {number for number, (owned, _) in settled.items() if owned.filter_version == version}

    def _write(self, tx: Transaction, kept: Mapping[int, Settlement]) -> None:
        """Write dead letters, entries and lanes; a record that changes its lane keeps its entry."""
        dead, entries, gone, flowing, lanes, fallbacks = (list[tuple[Any, ...]]() for _ in range(6))
        now_ms = self._clock.now_ms()
        for number, one in kept.items():
            dead += [(number, each.offset, *columns_of(each.lane), *each[2:]) for each in one.dead]
            entries += [(number, offset, *columns_of(lane)) for lane, offset in one.entries]
            gone += [(number, offset) for offset in one.entries_gone]
            flowing += [(number, *columns_of(lane)) for lane in one.lanes_gone]
            for each in one.lanes:
                wait_ms = max(0, each.due_ms - now_ms)
                lanes.append((number, *columns_of(each.key), each.state.value, *each[2:], wait_ms))
            fallbacks += [(number, *each) for each in one.fallbacks]
        if dead:
            self._bury(tx, dead)
        if fallbacks:
            self._note_fallbacks(tx, fallbacks)
        moved = {each[:2] for each in entries}  # these keep their copies
        gone = [place for place in gone if place not in moved]
        if gone:
            tx.change("delivery", "entries_drop", entries=Rows.of("partition place", gone), **self._ids)
        if entries:
            table = Rows.of(f"partition place {LANE_COLUMNS}", entries)
            tx.change("delivery", "entries_put", entries=table, **self._ids)
        if flowing:
            tx.change("delivery", "lanes_drop", lanes=Rows.of(f"partition {LANE_COLUMNS}", flowing), **self._ids)
        if lanes:
            names = f"partition {LANE_COLUMNS} state failures due_ms reason wait_ms"
            tx.change("delivery", "lanes_put", lanes=Rows.of(names, lanes), **self._ids)

    def _bury(self, tx: Transaction, dead: list[tuple[Any, ...]]) -> None:
        """Store records that are given up, each with its content, if its copy or the log still holds it."""
        places = [Position(partition, offset) for partition, offset, *_ in dead]
        contents = self._contents(tx, places)
        died_ms = tx.now_ms(own_ms(self._clock))
        rows = [
            (*self._ids.values(), *each, died_ms, *columns(contents[place]))
            for place, each in zip(places, dead, strict=True)
            if place in contents
        ]
        if rows:
            tx.bulk("delivery", "dead_put", Rows.of(_DEAD, rows))

    def _note_fallbacks(self, tx: Transaction, completed: list[tuple[Any, ...]]) -> None:
        """Write down which records only a fallback completed, if the log still holds them."""
        places = {Position(partition, offset) for partition, offset, *_ in completed}
        found = self._store.log_in(tx).at(self.topic, places, bare=True)
        logged = {(each.partition, each.offset) for each in found}
        rows = {each[:2]: each for each in completed if each[:2] in logged}
        if rows:
            table = Rows.of("partition place", rows)
            tx.change("delivery", "fallbacks_drop", places=table, **self._ids)
            completed_ms = tx.now_ms(own_ms(self._clock))
            noted = Rows.of("partition place failures reason", rows.values())
            tx.change("delivery", "fallbacks_put", noted=noted, completed_ms=completed_ms, **self._ids)

    def _contents(self, tx: Transaction, places: list[Position]) -> dict[Position, Content]:
        table = Rows.of("partition place", places)
        rows = tx.rows("delivery", "entries_read", entries=table, max_bytes=LAST_OFFSET, **self._ids)
        copies = [Entry(*row) for row in rows]
        found = {Position(each.partition, each.offset): each.content for each in copies}
        rest = [place for place in places if place not in found]
        logged = self._store.log_in(tx).at(self.topic, rest)
        return found | {Position(each.partition, each.offset): each.content for each in logged}

    def _release(self, tx: Transaction, partitions: list[int], in_doubt: list[int]) -> None:
        self._touch(tx, self.group_id, self.topic.id)  # first: a rebalance locks in this order
        cursors = {"owner": self._owner, "partitions": partitions, "in_doubt": in_doubt}
        tx.change("delivery", "cursors_release", **cursors, **self._ids)


def _join(tx: Transaction, store: Store, group: str, topic: Topic, now_ms: int | None, from_start: bool) -> int:
    """Make the group and its cursors unless they are there; return its id. It starts at the start of added ones."""
    log = store.log_in(tx)
    with suppress(UnknownTopic):  # it cannot grow meanwhile: a later growth sees these cursors
        log.pinned_topic(topic.name)
    group_id = join_group(tx, group, GroupKind.HANDLER, now_ms)
    tx.change("delivery", "group_seen", names=[group], now_ms=now_ms)
    bounds = log.all_bounds(topic)
    from_start |= (topic.id,) in tx.rows("delivery", "group_topics", group_id=group_id)
    places = [each.start if from_start else each.end for each in bounds.values()]
    cursors = Rows(partition=list(bounds), place=places)
    if tx.change("delivery", "cursors_create", group_id=group_id, topic_id=topic.id, cursors=cursors):
        tx.execute("delivery", "cursors_measure", {})
    return group_id
