"""What one key with handlers of a second costs the others: their rate beside the rate without it."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.stores import postgres
from bench.workers import SLOW, SLOW_SECONDS, Waiting, team, waiting

_MANY = Size(quick=8, full=40)  # slow records: the lane must be busy to the end of the round
_quiet = waiting(team(postgres, "slow"))


@contextmanager
def beside_slow(run: Run) -> Iterator[Waiting]:
    """Let the slow lane begin, and wait for its end afterwards."""
    with _quiet(run) as at:
        store = at.team.store
        with closing(store.connect()) as conn:
            slow = {"type": "order.placed", "key": SLOW, "value": {}}
            store.outbox.publish_many(conn, [slow] * run.size(quick=_MANY.quick, full=_MANY.full))
            conn.commit()
        at.team.ring()
        time.sleep(0.2)  # the first of them runs by now; if not, it runs a moment later
        yield at
        at.team.wait_until_settled()


def others(run: Run, at: Waiting) -> Extra:
    """Commit, and wait until the others are handled."""
    begun_ns = time.monotonic_ns()
    at.conn.commit()
    at.team.ring()
    seconds = (at.team.wait_until_handled(at.handled_before + run.records) - begun_ns) / 1e9
    if seconds > run.size(quick=_MANY.quick, full=_MANY.full) * SLOW_SECONDS:
        raise NotMeasured(f"the round took {seconds:.1f} s and outlasted the slow lane")
    return {"handled_per_second": run.records / seconds}


CASE = Case(
    name="slow_lane",
    about="delivering to other keys beside one whose handlers take a second",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("no slow lane", others, setup=_quiet),
        Variant("one slow lane", others, setup=beside_slow),
    ],
    targets=[
        Target("rate", Ratio("one slow lane", "no slow lane", "handled_per_second"), at_least=0.8),
    ],
)
