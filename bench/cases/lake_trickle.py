"""A lake into which little comes: the CPU of a batch of 50 rows, and of a stream to which nothing comes."""

from bench import Case, Ratio, Run, Size, Target, Value, Variant
from bench.streams import Stream, stream_of

_ROWS = 50


def batches(run: Run, stream: Stream) -> dict[str, float]:
    """Take batches of 50 rows of two types, one after the other; the CPU counted is that of a batch."""
    for _ in range(run.records):
        stream.take(_ROWS)
    return {"records": run.records}


def idle(run: Run, stream: Stream) -> dict[str, float]:
    """Let it rest."""
    return {"idle_core_percent": stream.idle_percent(run.size(quick=10, full=60))}


def idle_later(run: Run, stream: Stream) -> dict[str, float]:
    """Let it rest after many batches more."""
    wanted = run.size(quick=60, full=1_000)
    while stream.batches < wanted:
        stream.take(5)
    return idle(run, stream)


CASE = Case(
    name="lake_trickle",
    about="a lake of two types: a 50-row batch; idle, early and after 1,000 batches (quick: 60), local[2]",
    records=Size(quick=10, full=50),
    rounds=1,
    variants=[
        Variant("idle early", idle, setup=stream_of(2)),
        Variant("50-row batches", batches, setup=stream_of(2)),
        Variant("idle later", idle_later, setup=stream_of(2)),
    ],
    targets=[
        Target("batch", Value("50-row batches", "cpu_us"), at_most=500_000),
        Target("idle", Value("idle later", "idle_core_percent"), at_most=3),
        Target("flat", Ratio("idle later", "idle early", "idle_core_percent"), at_most=1.2),
    ],
    warm_up=False,
)
