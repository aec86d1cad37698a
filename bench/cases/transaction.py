"""`transaction=True` beside a plain handler: a handler that writes one row for each record.

The plain one writes it in a transaction of its own; the other in the one that moves the cursor, which it
shares with other records. `count` is the plain rate without the write, for comparison.
"""

from bench import Case, Ratio, Size, Target, Variant
from bench.stores import postgres, sqlite
from bench.workers import deliver, team, waiting

PER_SECOND = "handled_per_second"

CASE = Case(
    name="transaction",
    about="handlers that write a row: in their own transaction, and in their cursor's",
    records=Size(quick=5_000, full=50_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant(f"{job}, {engine.__name__}", deliver, setup=waiting(team(engine, job)))
        for engine in (postgres, sqlite)
        for job in ("count", "write", "write_with_cursor")
    ],
    targets=[
        Target(f"rate_{engine}", Ratio(f"write_with_cursor, {engine}", f"write, {engine}", PER_SECOND), at_least=0.3)
        for engine in ("postgres", "sqlite")
    ],
)
