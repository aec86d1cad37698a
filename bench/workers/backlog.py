"""A backlog that workers do not see yet: staged in a transaction that commits when the measurement begins."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from bench.case import Extra
from bench.run import Run
from bench.stores import EVEN, Load
from bench.workers.teams import Team, events

TeamSetup = Callable[[Run], AbstractContextManager[Team]]


@dataclass
class Waiting:
    """A team at rest, and the open transaction with what it is to do."""

    team: Team
    conn: Any
    handled_before: int


def waiting(opener: TeamSetup, load: Load = EVEN) -> Callable[[Run], AbstractContextManager[Waiting]]:
    """Return the setup: a team, opened once per case, and the round's events about to be committed."""

    @contextmanager
    def made(run: Run) -> Iterator[Waiting]:
        team = run.once(opener)
        with closing(team.store.connect()) as conn:
            for chunk in events(load, run.records):
                team.store.outbox.publish_many(conn, chunk)
            team.watch(run)
            yield Waiting(team, conn, team.handled())

    return made


def deliver(run: Run, at: Waiting) -> Extra:
    """Commit, and wait until all is handled and settled."""
    begun_ns = time.monotonic_ns()
    at.conn.commit()
    at.team.ring()
    last_ns = at.team.wait_until_handled(at.handled_before + run.records)
    at.team.wait_until_settled()
    return {"handled_per_second": run.records / (last_ns - begun_ns) * 1e9}
