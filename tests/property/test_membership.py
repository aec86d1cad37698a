"""Sharing is fair and moves the least; a row has one accepted owner, whatever happens to the cluster."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from penstock.database.database import Transaction
from penstock.database.dialects import open_database
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.log.sql.heads import Fence
from penstock.membership import domain, sharing
from penstock.membership.assignment import Owners, Participant, assign
from penstock.membership.domain import Changes, View, changes
from penstock.membership.filters import Filter, covers, filter_of, succeed
from penstock.membership.process import Process
from penstock.membership.sharing import SharingMember
from penstock.testing import FakeClock
from tests.services.budget import level_from_environment
from tests.unit.membership.cluster import GATHER, LEASE, NEW, Cluster, Owned, Pod, serves

# --- assignment --------------------------------------------------------------------------------

IDS = [f"m{number}" for number in range(6)]
owners = st.sampled_from([None, "stranger", *IDS])
rows = st.lists(owners, max_size=40).map(lambda listed: dict(enumerate(listed)))
ids = st.lists(st.sampled_from(IDS), unique=True)
PINS = [None, {0}, {0, 1, 2}, {1, 2, 3}, {2, 3, 4, 5}]  # apart, one in the other, and overlapping in part
pins = st.sampled_from(PINS).map(lambda chosen: None if chosen is None else frozenset(chosen))


@st.composite
def pinned(draw: st.DrawFn) -> list[Participant]:
    """Draw a few members, some with pins."""
    some = draw(st.lists(st.sampled_from(IDS[:3]), unique=True))
    return [Participant(id, draw(pins)) for id in some]


few_rows = st.lists(st.sampled_from([None, "stranger", *IDS[:3]]), max_size=7).map(
    lambda listed: dict(enumerate(listed))
)


def holders(row: int, members: Sequence[Participant]) -> list[str]:
    """Return who may hold a row, by the rule's own words."""
    pinned_to = [each.id for each in members if each.pins is not None and row in each.pins]
    return pinned_to or [each.id for each in members if each.pins is None]


def cost(before: Mapping[int, str | None], after: Owners, members: Sequence[Participant]) -> tuple[int, int]:
    """Return how uneven a sharing is, and how many rows it takes from who may keep them."""
    sizes = Counter(after.values())
    uneven = sum(sizes[each.id] ** 2 for each in members)
    moves = sum(before[row] in holders(row, members) and before[row] != after[row] for row in before)
    return uneven, moves


def every_sharing(before: Mapping[int, str | None], members: Sequence[Participant]) -> Iterator[Owners]:
    """Yield every lawful sharing."""
    choices: list[list[str | None]] = [[*holders(row, members)] or [None] for row in before]
    yield from (dict(zip(before, chosen, strict=True)) for chosen in product(*choices))


@given(rows, ids)
def test_sharing_is_fair_and_moves_the_least(before: dict[int, str | None], members: list[str]) -> None:
    after = assign(before, [Participant(id) for id in members])
    assert after.keys() == before.keys()
    if not members:
        assert set(after.values()) <= {None}
        return
    sizes = Counter(after.values())
    assert sizes.keys() <= set(members)
    assert max(sizes[id] for id in members) - min(sizes[id] for id in members) <= 1
    held = sorted((Counter(before.values())[id] for id in members), reverse=True)
    size, odd = divmod(len(before), len(members))
    moves = sum(max(0, count - size - (rank < odd)) for rank, count in enumerate(held))
    assert sum(before[row] in members and before[row] != after[row] for row in before) == moves


@settings(max_examples=300)
@given(few_rows, pinned())
def test_no_lawful_sharing_is_more_even_or_moves_less(
    before: dict[int, str | None], members: list[Participant]
) -> None:
    """Also where pins overlap in part: held against every sharing there is."""
    after = assign(before, members)
    assert all(
        after[row] in holders(row, members) or (after[row] is None and not holders(row, members)) for row in before
    )
    assert cost(before, after, members) == min(cost(before, each, members) for each in every_sharing(before, members))


@given(few_rows, pinned(), st.randoms())
def test_sharing_depends_on_nothing_but_what_is_shared(
    before: dict[int, str | None], members: list[Participant], random: Any
) -> None:
    after = assign(before, members)
    shuffled = list(before.items())
    random.shuffle(shuffled)
    random.shuffle(members)
    assert assign(dict(shuffled), members) == after
    assert assign(after, members) == after


@given(rows, ids.filter(bool))
def test_a_join_moves_rows_to_the_newcomer_only(before: dict[int, str | None], members: list[str]) -> None:
    settled = assign(before, [Participant(id) for id in members])
    after = assign(settled, [Participant(id) for id in [*members, "new"]])
    moved = {row for row in settled if settled[row] != after[row]}
    assert {after[row] for row in moved} <= {"new"}
    assert len(moved) == len(before) // (len(members) + 1)


@given(rows, ids.filter(lambda members: len(members) > 1))
def test_a_leave_moves_the_leavers_rows_only(before: dict[int, str | None], members: list[str]) -> None:
    settled = assign(before, [Participant(id) for id in members])
    after = assign(settled, [Participant(id) for id in members[1:]])
    assert all(settled[row] == members[0] for row in settled if settled[row] != after[row])


# --- filters -----------------------------------------------------------------------------------

TYPES = ["a", "a.b", "a.b.c", "b.c", "?p", "?q"]  # a predicate wants things of its own, unknown to us
texts = st.sampled_from(["a", "a.b", "a.*", "a.b.*", "b.c", "*", "?p", "?q"]).map(lambda text: f"t:{text}")
filters = st.frozensets(texts, min_size=1, max_size=4).map(filter_of)


def wanted_types(texts: Sequence[str]) -> set[str]:
    """Return which of the types are wanted, as a handler decides it."""
    expressions = [
        re.compile(".*" if text == "t:*" else re.escape(text.removeprefix("t:")).replace(r"\*", ".+")) for text in texts
    ]
    return {each for each in TYPES if any(expression.fullmatch(each) for expression in expressions)}


@given(st.frozensets(texts, max_size=5), filters)
def test_a_filter_wants_what_its_matches_want(texts: frozenset[str], other: Filter) -> None:
    one = filter_of(texts)
    assert wanted_types(one) == wanted_types(sorted(texts))
    if covers(one, other):
        assert wanted_types(one) >= wanted_types(other)
    assert (covers(one, other) and covers(other, one)) == (one == other)


@given(st.lists(filters, max_size=12), st.lists(filters, max_size=12))
def test_whose_filter_counts_is_settled_at_once_and_for_all(stored: list[Filter], living: list[Filter]) -> None:
    known = succeed(list(dict.fromkeys(stored)), living)
    assert succeed(known, living) == known
    assert not living or known[0] in living
    assert len(known) == len(set(known))


@given(filters, filters, st.lists(st.sampled_from(["start old", "start new", "stop old", "stop new"])))
def test_no_order_of_a_rolling_deploy_lets_the_old_version_back_while_the_new_one_runs(
    old: Filter, new: Filter, steps: list[str]
) -> None:
    """The new version counts from its first start on, as long as one of it is there."""
    assume(not covers(old, new))  # else the old one would skip nothing
    known, living = succeed([], [old]), [old]
    for step in [*steps, "start new", *steps]:
        act, _, which = step.partition(" ")
        version = old if which == "old" else new
        if act == "start":
            living.append(version)
        elif version in living:
            living.remove(version)
        counted = known[0] == new or new not in known
        known = succeed(known, living)
        if new in living and counted:
            assert known[0] == new


# --- a cluster ---------------------------------------------------------------------------------

LEVEL, STEPS = level_from_environment(), 30
EXAMPLES = {"fast": 6, "slow": 60, "long": 1500}
PAUSES = [timedelta(seconds=seconds) for seconds in (1, 3, 12, 31)]
picks = st.integers(0, 9)


class Breach(AssertionError):
    """Something that must never happen has happened."""


def require(fact: object, what: str) -> None:
    """Raise Breach unless it holds."""
    if not fact:
        raise Breach(what)


class Sharing(RuleBasedStateMachine):
    """A cluster in which processes come, work, pause, end well or badly, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.dead: set[Process] = set()
        self.patch.setattr(Process, "is_surely_dead", lambda process: process in self.dead)
        self.plant()
        self.clock = FakeClock()
        self.database = open_database("memory://", Names())
        migrate(self.database)
        self.cluster = Cluster(self.database, self.clock)
        self.paused: list[Pod] = []
        self.fences: list[Fence] = []  # every belief somebody once had
        self.actor = ""
        self.kept: dict[str, Owned] = {"slots": self.cluster.slots(), "cursors": self.cluster.cursors()}
        self.given: dict[tuple[str, int, int], str | None] = {}

    def plant(self) -> None:
        """Break something on purpose; here nothing."""

    def pod(self, pick: int) -> Pod:
        """Return one of the running pods, which acts from now on."""
        pod = self.cluster.pods[pick % len(self.cluster.pods)]
        self.actor = pod.id
        return pod

    def running(self) -> bool:
        """Return whether anybody runs."""
        return bool(self.cluster.pods)

    @precondition(lambda self: len(self.cluster.pods) < 5)
    @rule(new_version=st.booleans(), pins=st.sampled_from([None, None, range(3)]))
    def start(self, new_version: bool, pins: range | None) -> None:
        """Start a process on this host."""
        what = serves(filter=NEW, pins=pins) if new_version else serves(pins=pins)
        self.actor = self.cluster.start(what, self.process()).id

    @precondition(running)
    @rule(pick=picks, what=st.sampled_from(["beat", "beat", "rebalance", "rebalance", "look", "look", "look"]))
    def work(self, pick: int, what: str) -> None:
        """Let a process do one step of its loop; without a living lease it only beats."""
        pod = self.pod(pick)
        if what == "beat" or not pod.member.is_live():
            pod.member.heartbeat()
        elif what == "rebalance":
            pod.member.rebalance()
        else:
            self.cluster.work(pod)
        self.fences.append(pod.member.fence)

    @precondition(running)
    @rule(pick=picks)
    def stale_look(self, pick: int) -> None:
        """Let a process that was paused between two statements go on, whatever its lease says."""
        pod = self.pod(pick)
        pod.member.exchange_slots()
        self.cluster.exchange_cursors(pod)

    @precondition(running)
    @rule(pick=picks, known=st.booleans())
    def crash(self, pick: int, known: bool) -> None:
        """End a process; its host may know it."""
        pod = self.pod(pick)
        self.cluster.crash(pod)
        if known:
            self.dead.add(Process("here", int(pod.id.removeprefix("member-")), "1"))

    @precondition(running)
    @rule(pick=picks)
    def leave(self, pick: int) -> None:
        """End a process well: what others own does not move."""
        pod = self.pod(pick)
        before = self.cluster.slots()
        self.cluster.leave(pod)
        after = self.cluster.slots()
        require(
            all(after[row] == held for row, held in before.items() if held[0] != pod.id),
            "a leave touched what others own",
        )

    @precondition(running)
    @rule(pick=picks)
    def pause(self, pick: int) -> None:
        """Stop a process for a while."""
        pod = self.pod(pick)
        self.cluster.pods.remove(pod)
        self.paused.append(pod)

    @precondition(lambda self: self.paused)
    @rule(pick=picks)
    def go_on(self, pick: int) -> None:
        """Let a stopped process go on: it owns what the database says, in no older epoch."""
        pod = self.paused.pop(pick % len(self.paused))
        self.cluster.pods.append(pod)

    @rule(by=st.sampled_from(PAUSES), beating=st.booleans())
    def advance(self, by: timedelta, beating: bool) -> None:
        """Move time, with the running ones beating or not."""
        self.clock.advance(by)
        for pod in self.cluster.pods if beating else []:
            self.actor = pod.id
            pod.member.heartbeat()

    @precondition(running)
    @rule()
    def calm(self) -> None:
        """Let all come to rest: every row has an owner that it should have, and the shares are even."""
        self.clock.advance(LEASE)  # the silent are known to be
        for pod in self.cluster.pods:
            self.actor = pod.id
            pod.member.heartbeat()  # one that was silent for so long that it was removed joins again,
        self.clock.advance(GATHER)  # as a newcomer does
        self.rest()
        running = {pod.id: pod for pod in self.cluster.pods}
        slots = Counter(owner for owner, _ in self.cluster.slots().values())
        require(slots.keys() <= running.keys(), "a slot has no living owner")
        require(max(slots.values()) - min(slots[id] for id in running) <= 1, "slots are not even")
        self.check_cursors(running)
        for pod in self.cluster.pods:
            require(set(pod.member.fence.slots()) == self.owned_by(pod), "a member does not know what it owns")

    @precondition(lambda self: 0 < len(self.cluster.pods) < 5)
    @rule(new_version=st.booleans())
    def grow(self, new_version: bool) -> None:
        """A join moves the newcomer's share of slots, and no more."""
        self.calm()
        before = self.cluster.slots()
        self.start(new_version, None)
        self.clock.advance(GATHER)
        self.rest()
        require(self.moved(before) == 256 // len(self.cluster.pods), "a join moved too much")

    @precondition(lambda self: len(self.cluster.pods) > 1)
    @rule(pick=picks)
    def shrink(self, pick: int) -> None:
        """A leave moves the leaver's slots, and no more; it takes no rebalance."""
        self.calm()
        before = self.cluster.slots()
        theirs = self.owned_by(self.pod(pick))
        self.leave(pick)
        self.rest(rebalance=False)
        require(self.moved(before) == len(theirs), "a leave moved too much or too little")

    def rest(self, *, rebalance: bool = True) -> None:
        """Let all do all they can until nothing changes, each step watched."""
        for _ in range(12):
            before = self.cluster.slots(), self.cluster.cursors()
            for pod in [*self.cluster.pods, *self.cluster.pods]:
                self.actor = pod.id
                pod.member.heartbeat()
                if rebalance:
                    pod.member.rebalance()
                self.cluster.work(pod)
                self.fences.append(pod.member.fence)
                self.one_owner_an_epoch()
            if before == (self.cluster.slots(), self.cluster.cursors()):
                return
        raise Breach("the cluster does not come to rest")

    def moved(self, before: Owned) -> int:
        """Return how many slots have another owner."""
        return sum(before[row][0] != owner for row, (owner, _) in self.cluster.slots().items())

    def check_cursors(self, running: Mapping[str, Pod]) -> None:
        """Require that cursors belong to members with one filter, and by their pins."""
        stored = self.cluster.fetch("SELECT filters FROM penstock_group")[0][0]
        told = dict(self.cluster.fetch("SELECT id, serves FROM penstock_member"))
        sharing = [
            each
            for each in (Participant(id, _pins(told[id])) for id in running)
            if _filter(told[each.id]) == sharing_filter(stored)
        ]
        owners: Owners = {
            row: owner if owner in running else None for row, (owner, _) in self.cluster.cursors().items()
        }
        for row, owner in owners.items():
            lawful = holders(row, sharing)
            require(owner in lawful or (owner is None and not lawful), f"cursor {row} has a wrong owner")
        require(assign(owners, sharing) == owners, "cursors are not even")

    def owned_by(self, pod: Pod) -> set[int]:
        """Return the slots that are a pod's."""
        return {row for row, (owner, _) in self.cluster.slots().items() if owner == pod.id}

    def process(self) -> Process:
        """Return the process of the next member."""
        return Process("here", self.cluster.started + 1, "1")

    @invariant()
    def one_owner_an_epoch(self) -> None:
        """P5: a new owner is a new epoch, nobody living is robbed, no stale belief is accepted."""
        living = self.living()
        for what, rows in (("slots", self.cluster.slots()), ("cursors", self.cluster.cursors())):
            for row, (owner, epoch) in rows.items():
                before, epoch_before = self.kept[what][row]
                require(epoch >= epoch_before, f"{what} {row}: the epoch fell")
                require(owner == before or epoch > epoch_before, f"{what} {row}: a new owner, the old epoch")
                robbed = owner != before and before not in (None, self.actor) and before in living
                require(not robbed, f"{what} {row}: taken from a living member")
                first = self.given.setdefault((what, row, epoch), owner)
                require(first == owner, f"{what} {row}: two owners in epoch {epoch}")
            self.kept[what] = rows
        self.stale_beliefs_are_refused()

    def living(self) -> set[str]:
        """Return the members that nobody may take from."""
        rows = self.cluster.fetch("SELECT id, pid, lease_until_ms FROM penstock_member")
        return {
            id
            for id, pid, lease_until_ms in rows
            if lease_until_ms > self.clock.now_ms() and Process("here", pid, "1") not in self.dead
        }

    def stale_beliefs_are_refused(self) -> None:
        """Require that the fence lets nobody through but the present owner in its epoch."""
        slots = self.kept["slots"]
        for fence in self.fences[-4:]:
            accepted = self.database.run(partial(_accepted, fence))
            require(
                all(slots[row] == (fence.owner, fence.epochs[row]) for row in accepted), "a stale owner was accepted"
            )

    def teardown(self) -> None:
        """In the end everything has an owner."""
        try:
            if not self.cluster.pods:
                self.cluster.start(process=self.process())
            self.calm()
        finally:
            self.patch.undo()
            self.database.close()


def _accepted(fence: Fence, tx: Transaction) -> list[int]:
    return fence.lock(tx, fence.slots())


def sharing_filter(stored: str) -> list[str]:
    """Return the filter that counts."""
    return list(json.loads(stored)[0])


def _pins(text: str) -> frozenset[int] | None:
    listed = json.loads(text)["pins"]
    return None if listed is None else frozenset(listed)


def _filter(text: str) -> list[str]:
    return list(json.loads(text)["groups"][0]["filter"])


def run(machine: type[Sharing], examples: int, **options: Any) -> None:
    """Run a machine."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=STEPS, deadline=None, **options)
    )


def test_a_cluster_has_one_accepted_owner_a_row_and_comes_to_rest() -> None:
    run(Sharing, EXAMPLES["fast"])


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_cluster_has_one_accepted_owner_a_row_for_long() -> None:
    run(Sharing, EXAMPLES[LEVEL])


class NoNewEpoch(Sharing):
    """Releases without a new epoch."""

    def plant(self) -> None:
        def give(member: SharingMember, tx: Transaction) -> None:
            tx.conn.execute(
                f"UPDATE penstock_slot SET owner = NULL WHERE owner = '{member.id}' AND owner_wanted <> owner"
            )

        self.patch.setattr(SharingMember, "_give", give)


class NoLook(Sharing):
    """Takes without asking who lives."""

    def plant(self) -> None:
        self.patch.setattr(SharingMember, "living", lambda member, tx: ["nobody"])


class NoFence(Sharing):
    """Lets through whoever once owned a slot."""

    def plant(self) -> None:
        self.patch.setattr(Fence, "lock", lambda fence, tx, slots: sorted(slots))


class NoRelease(Sharing):
    """Keeps what others should own."""

    def plant(self) -> None:
        self.patch.setattr(SharingMember, "_give", lambda member, tx: None)


class NoReassignment(Sharing):
    """Gives to newcomers, and forgets what the silent have left."""

    def plant(self) -> None:
        def forgetful(view: View, *, gather_ms: int) -> Changes:
            found = changes(view, gather_ms=gather_ms)
            for each, rows in view.rows.items():
                if any(held.wanted for held in rows.values()):
                    found.members.pop(each, None)
            return found

        self.patch.setattr(sharing, "changes", forgetful)


class NoFilter(Sharing):
    """Gives partitions to members whose filter does not count."""

    def plant(self) -> None:
        self.patch.setattr(domain, "succeed", lambda stored, living: stored or list(living[:1]))
        self.patch.setattr(domain, "_candidates", lambda view, found, domain: list(view.present))


class NoLearning(Sharing):
    """Does not look at what it still owns."""

    def plant(self) -> None:
        self.patch.setattr(SharingMember, "_learn", lambda member: None)


PLANTED: dict[type[Sharing], str] = {
    NoNewEpoch: "the old epoch",
    NoLook: "taken from a living member",
    NoFence: "a stale owner was accepted",
    NoRelease: "not even",
    NoReassignment: "no living owner|not even",
    NoFilter: "a wrong owner",
    NoLearning: "does not know what it owns",
}


@pytest.mark.slow
@pytest.mark.parametrize("machine", PLANTED, ids=lambda machine: machine.__name__)
def test_a_planted_bug_is_found(machine: type[Sharing]) -> None:
    with pytest.raises(AssertionError, match=PLANTED[machine]):
        run(
            machine,
            300,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # to find it is enough
            report_multiple_bugs=False,
        )
