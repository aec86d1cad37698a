"""From commit to handler on SQLite with publisher and worker in one process, beside a bare wake-up and query.

The two of `latency`, alone: one event at a time, some hundredths of a second between, on the driver itself.
"""

from bench import Case, Paired, Size, Target, Variant
from bench.cases.latency import one_at_a_time, wake_up, worker_of_sqlite
from bench.workers.publishers import driver

_OURS, _BARE = "Penstock in one process", "bare wake-up and query"

_SLOWER = "a commit with fsync 0.3 ms, its statements 0.25 ms, turn and wake-up 0.5 ms; the bare one has none"

CASE = Case(
    name="rates_in_process",
    about="commit to handler on SQLite in one process, beside a bare wake-up and query",
    records=Size(quick=40, full=80),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant(_OURS, one_at_a_time, setup=worker_of_sqlite(driver)),
        Variant(_BARE, one_at_a_time, setup=wake_up),
    ],
    targets=[Target("p50", Paired(_OURS, (_BARE,), "latency_p50_us"), at_most=10, cause=_SLOWER)],
)
