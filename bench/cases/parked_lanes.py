"""What lanes that wait for their retry cost the other keys: CPU per event with ten thousand of them.

The lanes have parked in the running worker before the round: their first record has failed and is tried again
hours later. The events of the round belong to other keys.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.stores import postgres
from bench.workers import PARKED, Team, deliver, team, waiting

LANES = 10_000


@contextmanager
def with_parked(run: Run) -> Iterator[Team]:
    """Open a team of one and let the lanes park; for `run.once`."""
    with team(postgres, "park")(run) as made:
        made.handle(LANES, keys=LANES, prefix=PARKED)
        yield made


CASE = Case(
    name="parked_lanes",
    about="delivering to other keys beside ten thousand parked lanes",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("none parked", deliver, setup=waiting(team(postgres, "park"))),
        Variant("10 000 parked", deliver, setup=waiting(with_parked)),
    ],
    targets=[
        Target("cpu", Ratio("10 000 parked", "none parked", "cpu_us"), at_most=1.15),
    ],
)
