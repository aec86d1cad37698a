"""P6 under owners that die, stop, are robbed: what began before comes marked, and little else."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.delivery.store import GroupStore, Written
from penstock.delivery.verdict import Parked, Passed
from penstock.errors import StoreUnreachable
from penstock.worker.group import bounds
from penstock.worker.group.delivery import GroupDelivery
from penstock.worker.handler import HandlerTask
from tests.conformance.engines import StoreEngine
from tests.services.budget import Budget
from tests.unit.worker.test_group_delivery import (
    Make,
    database,  # noqa: F401
    fill,
    kind,  # noqa: F401
    make,  # noqa: F401
    publish,
)

KEYS = ("a", "b", "c", "d", "e", "f", "hot", "hot", "hot", "hot", "hot", "hot")
STEPS = 200


@dataclass(eq=False)
class Owner:
    """One process: what it was given, what of it waits for a handler, and what is with one."""

    name: str
    delivery: GroupDelivery
    queued: list[list[HandlerTask]] = field(default_factory=list)  # runs, what follows of each
    running: list[tuple[HandlerTask, list[HandlerTask]]] = field(default_factory=list)  # and what follows


class World:
    """A partition, its owners, and all that has begun."""

    def __init__(self, make: Make, engine: StoreEngine) -> None:  # noqa: F811
        self._make, self._engine, self.rng = make, engine, random.Random()
        self._names, self._gone = 0, list[str]()
        self._begun: dict[int, int] = {}  # by offset: the latest epoch it began in
        self.owners = [self._new(), self._new()]
        self.losses = self.overmarked = self.unheard = 0

    def _new(self) -> Owner:
        self._names += 1
        name = f"owner-{self._names}"
        return Owner(name, self._make(name, None, self._gone))

    def step(self) -> None:
        """Let something happen."""
        owner = self.rng.choice(self.owners)
        often = [self._hand_out, self._begin, self._end]
        now_and_then = [self._publish, self._take, self._settle, self._settle]
        seldom = [self._rob, self._lose_answer, self._die, self._stop, self._wait]
        self.rng.choice(6 * often + 2 * now_and_then + seldom)(owner)

    def _publish(self, owner: Owner) -> None:
        publish(self._engine, *((self.rng.choice(KEYS), 1) for _ in range(self.rng.randint(1, 40))))

    def _take(self, owner: Owner) -> None:
        owner.delivery.take(lambda tx: [each.name for each in self.owners])

    def _rob(self, owner: Owner) -> None:
        """Take from whoever lives: its lease has ended, and it does not know."""
        self.losses += 1
        owner.delivery.take(lambda tx: [owner.name])

    def _hand_out(self, owner: Owner) -> None:
        if owner.delivery.partitions.needs_check:
            self._check(owner)
        if not len(owner.delivery.partitions):
            self._take(owner)
        fill(owner.delivery, self._engine)
        trials = owner.delivery.suspects.trials
        trials.grant(quiet=not owner.running)
        limit, run = self.rng.randint(1, 30), self.rng.choice([1, 5, bounds.RUN])
        for task in owner.delivery.start(limit, run, writes=self.rng.random() < 0.8):
            owner.queued.append(list(task.run()))
        if trials.turn() is not None:  # else who waits for a turn would never have one, and nothing would go on
            trials.withdraw()

    def _begin(self, owner: Owner) -> None:
        self.rng.shuffle(owner.queued)
        for _ in range(self.rng.randint(0, len(owner.queued))):
            self._call(owner, owner.queued.pop())

    def _call(self, owner: Owner, run: list[HandlerTask]) -> None:
        task, offset = run[0], run[0].place.offset
        epoch = task.record.fence or 0
        former = self._begun.get(offset)
        if former is not None and former <= epoch:
            assert task.record.redelivered, f"{offset} in epoch {epoch}, and before in {former}"
        self.overmarked += former is None and task.record.redelivered
        self._begun[offset] = max(epoch, former or 0)
        owner.running.append((task, run[1:]))

    def _end(self, owner: Owner) -> None:
        self.rng.shuffle(owner.running)
        for _ in range(self.rng.randint(0, len(owner.running))):
            task, following = owner.running.pop()
            if self.rng.random() < 0.9:
                owner.delivery.finish(task, Passed())
                if following:
                    self._call(owner, following)
                continue
            due_ms = self._engine.clock.now_ms() + self.rng.choice([0, 1000])
            owner.delivery.finish(task, Parked(due_ms, task.failures + 1, "no"))
            owner.delivery.untake(reversed(following))

    def _settle(self, owner: Owner) -> None:
        owner.delivery.settle()
        owner.delivery.suspects.trials.settled()

    def _lose_answer(self, owner: Owner) -> None:
        """Settle, and hear nothing: it may be written or not."""
        store = owner.delivery._store
        is_written = self.rng.random() < 0.5

        def lost(settled: Any) -> Written:
            if is_written:
                GroupStore.write(store, settled)
            raise StoreUnreachable("the store", "it is away")

        store.write = lost  # type: ignore[method-assign]
        try:
            owner.delivery.settle()
        except StoreUnreachable:
            self.unheard += 1
        finally:
            del store.write

    def _check(self, owner: Owner) -> None:
        """Compare with the rows, and take back what has not begun of what is gone."""
        owner.delivery.check()
        for run in [run for run in owner.queued if owner.delivery.is_over(run[0])]:
            owner.queued.remove(run)
            owner.delivery.untake(reversed(run))
        owner.delivery.partitions.needs_check = False

    def _die(self, owner: Owner) -> None:
        self.losses += 1
        self.owners.remove(owner)
        if self.rng.random() < 0.7:
            self._gone.append(owner.name)
        self.owners.append(self._new())

    def _stop(self, owner: Owner) -> None:
        """End in an orderly way; what still runs is waited for no longer."""
        owner.delivery.let_go()
        for run in owner.queued:
            owner.delivery.untake(reversed(run))
        for task, following in owner.running:
            owner.delivery.untake(reversed(following))
            if self.rng.random() < 0.5:
                owner.delivery.interrupt(task)
            self.losses += 1
        owner.delivery.settle()
        owner.delivery.release()
        self.owners.remove(owner)
        self.owners.append(self._new())

    def _wait(self, owner: Owner) -> None:
        self._engine.clock.advance(timedelta(seconds=self.rng.choice([0.5, 2.0, 100.0])))


def test_what_began_before_comes_marked_and_little_else(
    make: Make,  # noqa: F811
    engine: StoreEngine,
    budget: Budget,
) -> None:
    world = World(make, engine)
    for turn in budget("worker.marks"):
        world.rng = random.Random(turn.seed)
        for _ in range(STEPS):
            world.step()
    assert world.unheard > 0
    assert world.overmarked <= bounds.AHEAD * max(1, world.losses)
