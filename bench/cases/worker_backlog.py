"""Working off much beside little, both from staged to settled: the cost of an event must stay flat."""

from bench import Case, Extra, Ratio, Resident, Run, Size, Target, Value, Variant
from bench.stores import postgres
from bench.workers import Waiting, deliver, team, waiting


def with_memory(run: Run, at: Waiting) -> Extra:
    """Deliver, with an eye on the worker's memory."""
    with Resident(at.team.workers[0].pid) as memory:
        cost = deliver(run, at)
        return {**(cost or {}), "peak_mb": memory.peak_mb()}


CASE = Case(
    name="worker_backlog",
    about="working off a large backlog beside a small one, staged to settled",
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("little waits", with_memory, setup=waiting(team(postgres, "count")), records=10_000),
        Variant(
            "much waits",
            with_memory,
            setup=waiting(team(postgres, "count")),
            records=Size(quick=200_000, full=1_000_000),
        ),
    ],
    targets=[
        Target("flat", Ratio("much waits", "little waits", "cpu_us"), at_most=1.15),
        Target("memory", Value("much waits", "peak_mb"), at_most=300),
    ],
)
