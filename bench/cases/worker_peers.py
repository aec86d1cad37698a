"""From staged to handled and settled, by one worker process, beside other queues on the same PostgreSQL.

Handlers do nothing. Penstock keeps the order of each key and fences every write; the others do neither. A
Penstock worker has joined before the round and its events come with one commit; the others are connected, and
their jobs wait in their tables. `cpu_us` is that of the worker's process and of the whole database server;
publishing and enqueueing are not in it. procrastinate does fewer: what is compared is the cost of one.
"""

from bench import Case, Ratio, Size, Target, Variant
from bench.rivals import PGQUEUER, PROCRASTINATE, rival
from bench.rivals.talks import work
from bench.stores import ONE_KEY, postgres
from bench.workers import deliver, team, waiting

_COST = "some 20 us of Python and 15 us of the server an event; the bound is near 16 us"

CASE = Case(
    name="worker_peers",
    about="staged to handled by one worker process, beside PgQueuer and procrastinate",
    records=Size(quick=20_000, full=100_000),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("Penstock", deliver, setup=waiting(team(postgres, "count"))),
        Variant("Penstock, one hot key", deliver, setup=waiting(team(postgres, "count"), ONE_KEY)),
        Variant("PgQueuer", work, setup=rival(PGQUEUER), peer=PGQUEUER),
        Variant(
            "procrastinate", work, setup=rival(PROCRASTINATE), peer=PROCRASTINATE, records=Size(quick=500, full=10_000)
        ),
    ],
    targets=[
        Target("pgqueuer", Ratio("Penstock", "PgQueuer", "cpu_us"), at_most=0.25, cause=_COST),
        Target("procrastinate", Ratio("Penstock", "procrastinate", "cpu_us"), at_most=0.05),
    ],
)
