"""A parking storm: every key fails once and is tried again soon after. It must end, in bounded memory.

There are more keys than lanes that one process keeps, so reading has to pause and go on. Each record counts
once, when it is handled in the end.
"""

from bench import Case, Extra, Resident, Run, Size, Target, Value, Variant
from bench.stores import Load, postgres
from bench.workers import Waiting, deliver, team, waiting


def rage(run: Run, at: Waiting) -> Extra:
    """Deliver, with an eye on the worker's memory; it grew since the worker had joined, before all rounds."""
    with Resident(at.team.workers[0].pid) as memory:
        cost = deliver(run, at)
        peak_mb = memory.peak_mb()
        return {**(cost or {}), "growth_mb": peak_mb - at.team.rested_mb[0], "peak_mb": peak_mb}


CASE = Case(
    name="parking_storm",
    about="every key fails once and is tried again",
    records=Size(quick=20_000, full=200_000),
    rounds=Size(quick=2, full=3),
    variants=[Variant("storm", rage, setup=waiting(team(postgres, "storm"), Load(keys=1_000_000)))],
    targets=[
        Target("memory", Value("storm", "peak_mb"), at_most=300),
    ],
)
