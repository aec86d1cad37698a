"""A lake into which little comes: the CPU of a batch of 50 rows, and of a stream to which nothing comes."""

from bench import Case, Run, Size, Target, Value, Variant
from bench.streams import Stream, stream_of

_ROWS = 50


def batches(run: Run, stream: Stream) -> dict[str, float]:
    """Take batches of 50 rows of two types, one after the other; `lake_cpu_us` is that of a batch.

    It is that of the whole command; `spark_cpu_us` is the part of Java and of the workers below it. Our own
    CPU is that of publishing and of looking often whether the tables hold it.
    """
    before = stream.spark_seconds()
    for _ in range(run.records):
        stream.take(_ROWS)
    return {"records": run.records, "spark_cpu_us": (stream.spark_seconds() - before) / run.records * 1e6}


def idle(run: Run, stream: Stream) -> dict[str, float]:
    """Let it rest after its first batches, which is remembered, and after many more.

    `idle_compiler_percent` is the part of the later one in which Java compiles what the batches have made
    hot; it is over some minutes after them.
    """
    seconds = run.size(quick=10, full=60)
    stream.early_percent = stream.early_percent or stream.idle_percent(seconds)
    wanted = run.size(quick=60, full=1_000)
    while stream.batches < wanted:
        stream.take(5)
    compiled = stream.compiler_seconds()
    later = stream.idle_percent(seconds)
    return {
        "idle_compiler_percent": 100 * (stream.compiler_seconds() - compiled) / seconds,
        "idle_early_percent": stream.early_percent,
        "idle_later_percent": later,
        "idle_growth": later / stream.early_percent,
    }


_COMPILER = "all looks take 1.0 %; the rest is Java's compiler, at work for minutes on what batches made hot"

CASE = Case(
    name="lake_trickle",
    about="a lake of two types: a 50-row batch; idle, early and after 1,000 batches (quick: 60), local[2]",
    records=Size(quick=10, full=50),
    rounds=1,
    variants=[Variant("idle", idle, setup=stream_of(2)), Variant("50-row batches", batches, setup=stream_of(2))],
    targets=[
        Target("batch", Value("50-row batches", "lake_cpu_us"), at_most=500_000),
        Target("idle", Value("idle", "idle_later_percent"), at_most=3, cause=_COMPILER),
        Target("flat", Value("idle", "idle_growth"), at_most=1.2),
    ],
    warm_up=False,
)
