"""Two worker processes beside one, on the same backlog, with handlers that take a millisecond each.

Both are at their defaults. The workers have joined and shared the partitions before the round. A rate by the
clock: on a machine with two cores the database and the workers want the same ones, so look at the load.
"""

from bench import Case, Ratio, Size, Target, Variant
from bench.stores import postgres
from bench.workers import deliver, team, waiting

CASE = Case(
    name="worker_scaling",
    about="two worker processes beside one, handlers of a millisecond",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("one process", deliver, setup=waiting(team(postgres, "pause"))),
        Variant("two processes", deliver, setup=waiting(team(postgres, "pause", 2))),
    ],
    targets=[
        Target("rate", Ratio("two processes", "one process", "handled_per_second"), at_least=1.6),
    ],
)
