"""Delivery under crashes, take-overs, pauses and commits in doubt, held against a list (P1 P2 P5 P6).

Three workers share one cursor. Each has its own machine, loaded from the store, and its own copy of the
truth, so that every hand-out can be judged; what it has finished counts only once the store accepts it.
"""

import random
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from penstock.delivery import machine
from penstock.delivery.lane import LaneId
from penstock.delivery.machine import Delivery, Partition, Settlement
from penstock.delivery.verdict import Dead, OnExhausted, OnFailure, Parked, Rules, Verdict
from penstock.model.outcome import Cancel, Done, Retry, Snooze
from penstock.model.outcome import Outcome as Answer
from penstock.model.retry import Fixed
from tests.property.delivery_model import (
    ERROR_MS,
    MAX_RETRIES,
    RESULTS,
    RETRY_MS,
    SNOOZE_MS,
    Breach,
    Outcome,
    Pending,
    Reference,
    Row,
    Store,
    judge,
    require,
)
from tests.services.budget import level_from_environment

MS = timedelta(milliseconds=1)
WINDOW, SLOW_WAITING = 12, 3  # small, so that a few dozen steps meet their limits
ALL = 1_000_000
PARK, ALONE, DEAD = OnFailure
HOLD, RELEASE = OnExhausted
T = TypeVar("T")

some, picks = st.integers(0, 8), st.integers(0, 9)
# A key that looks like the lane of another's record on its own is a key all the same. One draw for a whole
# record is several times faster than one for each of its parts.
kinds = ["a", "a", "a", "b", "#1#a", "unique", "not wanted", "a, not wanted", "not there"]
record = st.sampled_from(list(product(kinds, [PARK, PARK, ALONE, DEAD], [HOLD, HOLD, RELEASE])))
records = st.lists(record, min_size=1, max_size=8)
results = st.lists(st.sampled_from(list(product(range(6), ["ok", *RESULTS, "not begun"]))), max_size=8)
fates = ["told"] * 6 + ["late"] * 3 + ["pause", "done, told failed", "failed, told failed", "failed, told done"]
disturbances = ["crash", "crash in flight", "take over", "take over", "release", "look"]

# What may happen, how often against the others, and what is drawn for it.
ACTIONS: dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]] = {
    "append": (4, (records,)),
    "work": (9, (picks, some, some, results)),
    "settle": (8, (picks, st.sampled_from(fates))),
    "advance": (2, (st.sampled_from([300, 500, 1000, 5000]),)),
    "disturb": (2, (picks, st.sampled_from(disturbances))),
    "land_late": (4, (picks,)),
    "decide": (1, (picks, st.sampled_from(["requeue", "requeue", "discard"]))),
}
NAMES = [name for name, (weight, _) in ACTIONS.items() for _ in range(weight)]


@st.composite
def actions(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the name of a method of the state machine, and what to call it with."""
    name = draw(st.sampled_from(NAMES))
    return name, *(draw(argument) for argument in ACTIONS[name][1])


LEVEL, STEPS = level_from_environment(), 50
settings.register_profile("delivery-fast", max_examples=50, stateful_step_count=STEPS)
settings.register_profile("delivery-slow", max_examples=300, stateful_step_count=STEPS)
settings.register_profile("delivery-long", max_examples=10_000, stateful_step_count=2 * STEPS)


class Final(Exception):
    """An error that no retry helps."""


POLICY = Fixed(ERROR_MS * MS, max_retries=MAX_RETRIES, no_retry_on=Final)


def verdict_on(row: Row, result: str, failures: int, now_ms: int) -> Verdict:
    """Return what the rules under test say."""
    rules = Rules(POLICY, row.on_failure, row.on_exhausted)
    if result in ("error", "final"):
        error = Final("no") if result == "final" else ValueError("no")
        return rules.after_error(error, failures=failures, now_ms=now_ms, rng=random)
    answers: dict[str, Answer] = {"ok": Done(), "retry": Retry(RETRY_MS * MS), "snooze": Snooze(SNOOZE_MS * MS)}
    answer = answers.get(result, Cancel("no"))
    return rules.after_outcome(answer, failures=failures, now_ms=now_ms, rng=random)


def outcome_of(offset: int, failures: int, verdict: Verdict) -> Outcome:
    """Return a verdict in the reference's words."""
    match verdict:
        case Parked(due_ms, failed, _, alone):
            return Outcome(offset, "open", failed, due_ms, alone)
        case Dead(failed, _, hold):
            return Outcome(offset, "dead", failed, hold=hold)
    return Outcome(offset, "done", failures)


@dataclass
class Worker:
    """One process: what it believes, what it has in hand, and what it has not settled yet."""

    name: str
    partition: Partition | None = None  # None: it works on nothing
    epoch: int = 0
    version: int = 0
    view: Reference = field(default_factory=Reference)
    known: set[int] = field(default_factory=set)  # offsets its machine has met
    skips: dict[str, int] = field(default_factory=dict)  # keys with a skip that is not settled: the first
    out: dict[int, Delivery] = field(default_factory=dict)
    finished: list[Outcome] = field(default_factory=list)
    limbo: set[int] = field(default_factory=set)  # told settled, and not
    paused: Pending | None = None
    zombie: bool = False  # another owns its partition: its lease has run out, so it starts nothing

    def unsettled(self) -> set[int]:
        """Return what was handed out and is not settled: what a failure may deliver again."""
        return {*self.out, *(outcome.offset for outcome in self.finished), *self.limbo}

    def drop(self) -> None:
        """Forget everything."""
        self.__init__(self.name)  # type: ignore[misc]  # as a new process would begin


class Deliveries(RuleBasedStateMachine):
    """Any of the steps that a log, workers, a store, a clock and an operator can take."""

    partition_type: type[Partition] = Partition
    store_type: type[Store] = Store
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1000
        self.store = self.store_type()
        self.workers = [Worker(name) for name in ("one", "two", "three")]
        self.late: list[Pending] = []
        self.may_go_out: Counter[int] = Counter()  # how often each offset may still be handed out
        self.take_over(self.workers[0])

    # -- the log and the clock

    # One rule: Hypothesis turns whole rules off for most of its runs, and to settle anything takes them all.
    @rule(action=actions())
    def step(self, action: tuple[Any, ...]) -> None:
        type(self).steps += 1
        getattr(self, action[0])(*action[1:])

    @initialize(records=records)
    def append(self, records: list[tuple[str, OnFailure, OnExhausted]]) -> None:
        for key, on_failure, on_exhausted in records:
            offset = len(self.store.truth.rows)
            there = key != "not there"
            wanted = there and not key.endswith("not wanted")
            name = f"u{offset}" if key == "unique" else key.removesuffix(", not wanted")
            self.add(Row(offset, name, wanted, there, on_failure, on_exhausted))

    def add(self, row: Row) -> None:
        self.store.append(row)
        self.may_go_out[row.offset] = 1
        for worker in self.workers:
            if worker.partition is not None:
                worker.view.rows.append(replace(row))

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    # -- what a worker does with its partition

    def work(self, who: int, feed: int, take: int, results: list[tuple[int, str]]) -> None:
        able = [each for each in self.workers if each.partition is not None and each.paused is None]
        if not able:
            self.take_over(_one(self.workers, who))
            return
        worker = _one(able, who)
        self.feed_worker(worker, feed)
        if not worker.zombie:
            self.take_worker(worker, take)
        for which, result in results:
            if worker.out:
                offset = _one(list(worker.out), which)
                if result == "not begun":
                    self.untake(worker, offset)
                else:
                    self.finish_one(worker, offset, result)

    def feed_worker(self, worker: Worker, count: int) -> None:
        partition, rows = worker.partition, self.store.truth.rows
        assert partition is not None
        missing = partition.missing()
        for offset in missing[:count]:
            self.feed_row(worker, rows[offset])
        if len(missing) >= count:
            return
        if not partition.room():
            partition.relieve()
            require("P8", partition.room() > 0, "a spilled lane still holds the window")
        for row in rows[partition.position :][: min(count - len(missing), partition.room())]:
            if row.there:
                self.feed_row(worker, row)

    def feed_row(self, worker: Worker, row: Row) -> None:
        assert worker.partition is not None
        worker.partition.feed(row.offset, row.key, row.wanted)
        worker.known.add(row.offset)
        if not row.wanted:
            worker.skips.setdefault(row.key, row.offset)

    def take_worker(self, worker: Worker, limit: int) -> list[Delivery]:
        partition = worker.partition
        assert partition is not None
        heads = {row.offset: row for row in worker.view.heads() if row.offset in worker.known}
        free = [row for row in heads.values() if row.offset <= worker.skips.get(row.key, row.offset)]
        waiting = [row for row in free if row.offset not in worker.out]
        ready = {row.offset: row for row in waiting if row.due_ms <= self.now_ms}
        taken = partition.take(self.now_ms, limit)
        for delivery in taken:
            self.check_turn(worker, delivery, ready)
            worker.out[delivery.offset] = delivery
            self.may_go_out[delivery.offset] -= 1
        require("P1", len(taken) == min(limit, len(ready)), f"took {taken} of {sorted(ready)}")
        later = [row.due_ms for row in waiting if row.offset not in ready]
        if len(taken) == len(ready) < limit:
            require("P1", partition.next_due_ms() == min(later, default=None), "wakes at another time")
            require("P1", partition.idle(self.now_ms) == (not worker.out), "is not as idle as it says")
        return taken

    def check_turn(self, worker: Worker, delivery: Delivery, ready: dict[int, Row]) -> None:
        offset = delivery.offset
        row = worker.view.rows[offset]
        require("P6", row.state == "open", f"{worker.name} hands out {offset}, which is {row.state}")
        require("P6", offset not in worker.out, f"{worker.name} hands out {offset} while it is out")
        require("P2", offset in ready, f"{worker.name} hands out {offset} of {row.key} out of turn")
        require("P6", self.may_go_out[offset] > 0, f"offset {offset} was not lost, and is handed out again")
        require("rows", delivery.failures == row.failures, f"{delivery} should count {row.failures}")

    def finish_one(self, worker: Worker, offset: int, result: str) -> None:
        assert worker.partition is not None
        delivery, row = worker.out.pop(offset), worker.view.rows[offset]
        verdict = verdict_on(row, result, delivery.failures, self.now_ms)
        outcome = judge(row, result, self.now_ms)
        said = outcome_of(offset, delivery.failures, verdict)
        require("rules", said == outcome, f"{row} after {result}: {said}, not {outcome}")
        worker.partition.finish(offset, verdict)
        worker.view.apply(outcome)
        worker.finished.append(outcome)
        if outcome.state == "open" and not worker.zombie:
            self.may_go_out[offset] += 1

    def untake(self, worker: Worker, offset: int) -> None:
        assert worker.partition is not None
        worker.partition.untake(offset)
        del worker.out[offset]
        if not worker.zombie:
            self.may_go_out[offset] += 1

    # -- settling

    def settle(self, who: int, fate: str) -> None:
        able = [each for each in self.workers if each.partition is not None]
        worker = _one(able or self.workers, who)
        pending = worker.paused or self.pending(worker)
        if pending is None:
            return
        worker.paused = None
        match fate:
            case "failed, told done" if self.store.accepts(pending):  # a failover loses it after
                self.store.interfere()
                worker.limbo |= worker.unsettled() - set(worker.out)
                worker.finished, worker.version = [], worker.version + 1
            case "told" | "failed, told done":
                self.told(worker, pending)
            case "pause":
                worker.paused = pending
            case _:
                if fate == "done, told failed":
                    self.store.settle(pending)
                elif fate == "late":
                    self.late.append(pending)
                self.forget(worker)
                self.load(worker)

    def pending(self, worker: Worker) -> Pending | None:
        settled = None if worker.partition is None else worker.partition.settlement()
        if settled is None:
            require("P1", not worker.finished, "outcomes are not settled")
            return None
        return Pending(worker.name, worker.epoch, worker.version, settled, list(worker.finished))

    def told(self, worker: Worker, pending: Pending) -> bool:
        accepted = self.store.settle(pending)
        if accepted:
            worker.finished, worker.version = [], worker.version + 1
            assert worker.partition is not None
            worker.partition.confirm(skips=True)
            worker.skips = {}
            counted = (worker.partition.entry_count, worker.partition.stored_count)
            rows = self.store.rows
            require("P8", counted == (len(rows.entries), len(rows.lanes)), f"{counted} is not what is stored")
        else:
            self.forget(worker)
            self.load(worker)
        return accepted

    def land_late(self, which: int) -> None:
        if self.late:
            self.store.settle(self.late.pop(which % len(self.late)))

    # -- who owns the partition

    def disturb(self, who: int, what: str) -> None:
        if what == "take over":
            self.take_over(_one(self.workers, who))
            return
        worker = _one([each for each in self.workers if each.partition is not None] or self.workers, who)
        if what.startswith("crash"):
            if "in flight" in what and (pending := worker.paused or self.pending(worker)):
                self.late.append(pending)
            self.forget(worker)
        elif worker.paused is None:
            self.release(worker) if what == "release" else self.look(worker)

    def take_over(self, worker: Worker) -> None:
        for other in self.workers:
            if other.name == self.store.owner:
                self.lose(other)
                other.zombie = True
        self.forget(worker)
        self.store.take(worker.name)
        self.load(worker)

    def release(self, worker: Worker) -> None:
        for offset in list(worker.out):
            self.untake(worker, offset)
        pending = self.pending(worker)
        if pending is not None and not self.told(worker, pending):
            return
        if (worker.name, worker.epoch, worker.version) == self.store.place():
            require("P6", not worker.unsettled(), "a graceful release leaves something unsettled")
            self.store.release()
            worker.drop()

    def look(self, worker: Worker) -> None:
        """Load anew when someone else has written."""
        if (worker.name, worker.epoch, worker.version) != self.store.place():
            self.forget(worker)
            self.load(worker)

    def load(self, worker: Worker) -> None:
        """Begin with what the store holds, if this worker is the owner."""
        store = self.store
        if store.owner != worker.name or worker.partition is not None:
            return
        worker.partition, worker.view = store.rows.load(self.partition_type), store.truth.copy()
        worker.epoch, worker.version = store.epoch, store.version
        worker.known = {row.offset for row in store.truth.rows if store.rows.has_passed(row.offset)}

    def lose(self, worker: Worker) -> None:
        """Let what a worker has in hand be delivered again."""
        if not worker.zombie:
            for offset in worker.unsettled():
                self.may_go_out[offset] = max(1, self.may_go_out[offset])

    def forget(self, worker: Worker) -> None:
        self.lose(worker)
        worker.drop()

    # -- the operator

    def decide(self, which: int, what: str) -> None:
        if not self.store.rows.dead:
            return
        holding = list(self.store.truth.held.values())
        offset = _one(holding or list(self.store.rows.dead), which)
        if what == "requeue":
            self.requeue(offset)
        else:
            self.store.discard(offset)

    def requeue(self, offset: int) -> None:
        self.store.requeue(offset)
        self.may_go_out[offset] = 1

    # -- what always holds

    @invariant()
    def stays_within_bounds(self) -> None:
        for worker in self.workers:
            if (partition := worker.partition) is not None:
                require("P8", partition.out() == len(worker.out), "it does not know how many are out")
                fed = partition.position - partition.base
                require("P8", fed + partition.room() == WINDOW, f"{fed} offsets are in the window")

    def teardown(self) -> None:
        if sys.exc_info()[0] is None:  # else a failure is on its way, and is not to be hidden by another
            self.drain()

    def drain(self) -> None:
        """Let all handlers succeed and requeue what holds a lane: everything is settled, exactly once."""
        store, worker = self.store, self.workers[0]
        self.add(Row(len(store.truth.rows), "end"))
        for each in self.workers:
            self.forget(each)
        self.take_over(self.workers[0])
        rounds = 10 + 10 * len(store.truth.rows)
        while rounds and (store.truth.held or any(store.truth.open())):
            rounds -= 1
            for offset in list(store.truth.held.values()):
                self.requeue(offset)
            self.look(worker)
            self.feed_worker(worker, ALL)
            for delivery in self.take_worker(worker, ALL):
                self.finish_one(worker, delivery.offset, "ok")
            if (pending := self.pending(worker)) is not None:
                require("P5", self.told(worker, pending), "the only owner is refused")
            elif (partition := worker.partition) is not None and (due_ms := partition.next_due_ms()):
                self.now_ms = max(self.now_ms, due_ms)
        require("P1", rounds > 0, f"stuck with {list(store.truth.open())}")
        self.check_end()

    def check_end(self) -> None:
        rows = self.store.rows
        for offset, count in self.store.wanted.items():
            settled = self.store.settled[offset]
            require("P1", settled == count, f"offset {offset} was settled {settled} times, not {count}")
        require("P8", not rows.lanes and not rows.entries, f"left behind: {rows}")
        require("P1", rows.base == len(self.store.truth.rows), f"the cursor stopped at {rows.base}")


def _one(items: list[T], which: int) -> T:
    return items[which % len(items)]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "WINDOW", WINDOW)
    monkeypatch.setattr(machine, "SLOW_WAITING", SLOW_WAITING)


def test_delivery_keeps_its_promises() -> None:
    run_state_machine_as_test(Deliveries, settings=settings.get_profile("delivery-fast"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_delivery_keeps_its_promises_in_ten_thousand_steps() -> None:
    class Counted(Deliveries):
        pass

    run_state_machine_as_test(Counted, settings=settings.get_profile(f"delivery-{LEVEL}"))

    assert Counted.steps >= 10_000


# -- the tests of the test: each planted bug is found


class NoFence(Store):
    """Takes a settling of any owner and epoch."""

    def accepts(self, pending: Pending) -> bool:
        return self.version == pending.version


class NoCompare(Store):
    """Sets the cursor wherever it stands."""

    def accepts(self, pending: Pending) -> bool:
        return self.place()[:2] == (pending.worker, pending.epoch)


class NoLaneCheck(Partition):
    """Hands out a record although an older one of its key is out or parked."""

    def feed(
        self, offset: int, lane: LaneId, wanted: bool, unhandled_type: str | None = None, again: bool = False
    ) -> bool:
        return super().feed(offset, f"{lane}@{offset}", wanted, unhandled_type, again)


class NoEntries(Partition):
    """Moves the cursor past the records of a waiting lane without writing them down."""

    def settlement(self, more: int = 0) -> Settlement | None:
        settled = super().settlement(more)
        return None if settled is None else replace(settled, entries=[])


class EntriesStay(Partition):
    """Forgets to delete the entries that are settled."""

    def settlement(self, more: int = 0) -> Settlement | None:
        settled = super().settlement(more)
        return None if settled is None else replace(settled, entries_gone=[])


class LanesStay(Partition):
    """Forgets to delete the lanes that have no entries left."""

    def settlement(self, more: int = 0) -> Settlement | None:
        settled = super().settlement(more)
        return None if settled is None else replace(settled, lanes_gone=[])


class TooEarly(Partition):
    """Does not wait until a parked lane is due."""

    def take(self, now_ms: int, limit: int, run: int = 1) -> list[Delivery]:
        return super().take(now_ms + SNOOZE_MS, limit)


PLANTED: list[tuple[str, type[Store], type[Partition]]] = [
    ("P5", NoFence, Partition),
    ("P1|P2|P6", NoCompare, Partition),
    ("P2", Store, NoLaneCheck),
    ("P1: .* lost", Store, NoEntries),
    ("P6", Store, EntriesStay),
    ("P8", Store, LanesStay),
    ("P1|P2", Store, TooEarly),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "store", "partition"),
    PLANTED,
    ids=[(store if partition is Partition else partition).__name__ for _, store, partition in PLANTED],
)
def test_a_planted_bug_is_found(promise: str, store: type[Store], partition: type[Partition]) -> None:
    class Planted(Deliveries):
        store_type, partition_type = store, partition

    with pytest.raises(Breach, match=promise):
        run_state_machine_as_test(
            Planted,
            settings=settings(
                max_examples=1000,
                stateful_step_count=STEPS,
                derandomize=True,
                database=None,
                phases=[Phase.generate],  # to find it is enough
                report_multiple_bugs=False,
            ),
        )
