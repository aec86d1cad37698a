"""From an append to tables that hold it: a lake of 1, 5 and 30 types, a record of each type at a time."""

from statistics import median

from bench import Case, Run, Size, Variant
from bench.streams import Stream, stream_of


def seen(run: Run, stream: Stream) -> dict[str, float]:
    """Publish a record of each type, wait until all tables hold them, and again."""
    times = [stream.take(stream.types) for _ in range(run.records)]
    return {"visible_p50_ms": 1000 * median(times), "visible_most_ms": 1000 * max(times)}


CASE = Case(
    name="lake_visible",
    about="commit to visible: records of 1, 5 and 30 types into as many tables, local[2]; looks every second",
    records=Size(quick=5, full=20),
    rounds=Size(quick=2, full=3),
    variants=[Variant(f"{types} types", seen, setup=stream_of(types)) for types in (1, 5, 30)],
    warm_up=False,
)
