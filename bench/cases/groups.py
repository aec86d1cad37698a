"""What many groups on one topic cost the database, beside one: the same events, each handled by every group.

One worker process, handlers that do nothing. Each group has cursors of its own to write; what it reads, the
others of the process read too.
"""

import time
from collections.abc import Callable
from contextlib import closing

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.stores import postgres
from bench.workers import Waiting, team, waiting
from bench.workers.jobs import MANY_GROUPS

_LONGEST_SECONDS = 600.0
_LOOK_SECONDS = 0.1  # each look reads all cursors, and that is the database's work, too
_LEFT = (
    "SELECT %s * (SELECT coalesce(sum(next_offset), 0) FROM penstock_head)"
    ' - (SELECT coalesce(sum("offset"), 0) FROM penstock_cursor)'
)


def through(groups: int) -> Callable[[Run, Waiting], Extra]:
    """Return the body: commit, and wait until every group has handled and settled all."""

    def body(run: Run, at: Waiting) -> Extra:
        begun_ns = time.monotonic_ns()
        at.conn.commit()
        at.team.ring()
        last_ns = at.team.wait_until_handled(at.handled_before + groups * run.records)
        _wait_until_settled(at, groups)
        return {"handled_per_second": groups * run.records / (last_ns - begun_ns) * 1e9}

    return body


def _wait_until_settled(at: Waiting, groups: int) -> None:
    end = time.monotonic() + _LONGEST_SECONDS
    with closing(at.team.store.connect(autocommit=True)) as conn:
        while conn.execute(_LEFT, (groups,)).fetchone()[0]:
            if time.monotonic() > end:
                raise NotMeasured("the groups did not settle all")
            time.sleep(_LOOK_SECONDS)


CASE = Case(
    name="groups",
    about="many groups on one topic beside one, in one worker",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("one group", through(1), setup=waiting(team(postgres, "count"))),
        Variant(
            f"{MANY_GROUPS} groups", through(MANY_GROUPS), setup=waiting(team(postgres, "count_in_groups"))
        ),
    ],
    targets=[
        Target("database", Ratio(f"{MANY_GROUPS} groups", "one group", "postgres_cpu_us"), at_most=4),
    ],
)
