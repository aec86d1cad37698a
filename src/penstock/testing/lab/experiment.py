"""The work inside the laboratory's processes: prepare a world, and run the handlers in it to the end.

Runs only in forked processes, and changes them permanently: points armed, drivers patched, randomness fixed.
"""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from inspect import iscoroutinefunction
from pprint import pformat
from typing import Any

from penstock.app import Outbox
from penstock.clock import from_ms
from penstock.model import ids
from penstock.model.record import Record
from penstock.operate.dead import dead_letters

from ..clock import FakeClock
from ..outbox import drain_until_idle, relocated
from .commits import loaded, watch
from .process import Tell
from .visits import AFTER_COMMIT, BEFORE_COMMIT, Visits
from .worlds import World, Worlds

InWorld = Callable[[World], Any]
_WIDTH = 100
_MOST_LETTERS = 1000


@dataclass(frozen=True, slots=True)
class Experiment:
    """The handlers of an outbox, the events published for them, and the state compared at the end."""

    outbox: Outbox
    publish: InWorld
    state: InWorld
    make: InWorld | None = None
    enter: InWorld | None = None

    def prepare(self, worlds: Worlds, tell: Tell) -> None:
        """Create the world that all rounds start from."""
        with self._in(worlds, FakeClock(), 0) as world:
            if self.make is not None:
                self.make(world)
            self.publish(world)

    def work(self, worlds: Worlds, tell: Tell, *, number: int, at_ms: int, kill_at: int | None) -> None:
        """Drain the world, from a time on, until nothing is pending; then report its final state."""
        clock = FakeClock(from_ms(at_ms))
        visits = Visits(lambda visit: tell("visit", asdict(visit)), kill_at)
        watch(partial(visits.around, BEFORE_COMMIT, AFTER_COMMIT))  # before any connection is made
        tell("clock", at_ms)
        with self._in(worlds, clock, number + 1, visits) as world:
            surround(self.outbox, visits)
            drain_until_idle(self.outbox, clock, moved=lambda clock: tell("clock", clock.now_ms()))
            visits.close()
            tell("end", self._end(world))
        tell("drivers", loaded())

    @contextmanager
    def _in(self, worlds: Worlds, clock: FakeClock, luck: int, visits: Visits | None = None) -> Iterator[World]:
        random.seed(luck)
        ids.draw_from(random.Random(luck).randbytes)
        logging.getLogger("penstock").setLevel(logging.CRITICAL)  # take-overs are expected here
        with relocated(self.outbox, worlds.url, clock=clock) as outbox:
            world = World(worlds.url, worlds.folder, outbox, clock, visits)
            if self.enter is not None:
                self.enter(world)
            yield world

    def _end(self, world: World) -> dict[str, Any]:
        letters = dead_letters(self.outbox, limit=_MOST_LETTERS).items
        dead = sorted(f"dead letter of group {each.group}: {each.type} of key {each.key!r}" for each in letters)
        why = sorted({f"dead because: {each.reason}" for each in letters})
        return {"text": "\n".join([pformat(self.state(world), width=_WIDTH), *dead, *why]), "dead": len(dead)}


def surround(outbox: Outbox, visits: Visits) -> None:
    """Observe each call of a handler, and of its fallback: its start and its end."""
    for subscription in outbox._handlers.subscriptions():
        for handler in subscription.handlers:
            handling, binding = partial(visits.handling, handler.id), handler.binding
            binding.call = _seen(binding.call, handling, binding.is_async)
            if handler.last_resort is not None:
                seen = _seen(handler.last_resort, handling, iscoroutinefunction(handler.fallback))
                object.__setattr__(handler, "last_resort", seen)


def _seen(
    call: Callable[..., Any], handling: Callable[[Record], AbstractContextManager[None]], is_async: bool
) -> Callable[..., Any]:
    async def awaited(record: Record, *more: Any) -> Any:
        with handling(record):
            return await call(record, *more)

    def called(record: Record, *more: Any) -> Any:
        with handling(record):
            return call(record, *more)

    return awaited if is_async else called
