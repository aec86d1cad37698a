"""A topic into a typed table beside the same topic as it is: what decoding by Spark's own functions costs.

And what each type costs that is registered beside it.
"""

from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import TOPIC, Rows, rows
from bench.stores import sqlite
from penstock.model.event_types import EventTypes
from penstock.pipeline.lake.modes import Mode, lake_rows
from penstock.pipeline.lake.storage import location


class OrderPlaced(msgspec.Struct):
    """The rows of the benches."""

    order_id: int
    noise: str
    note: str


TYPES, AMONG_TWENTY = EventTypes(), EventTypes()
TYPES.register(OrderPlaced, "order.placed")
AMONG_TWENTY.register(OrderPlaced, "order.placed")
for _number in range(20):
    _fields = [(f"field_{_each}", str) for _each in range(8)]
    AMONG_TWENTY.register(msgspec.defstruct(f"Other{_number}", _fields), f"other.{_number}")


def lake(at: Rows, mode: Mode) -> None:
    """Write the topic into a new lake, to its end."""
    events: Any = at.spark.readStream.format("penstock").options(url=at.url, topic=TOPIC).load()
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        frame, options = lake_rows(events, mode, location(f"{to}/lake"))
        writer = frame.writeStream.format("penstock-delta").options(**options).option("path", f"{to}/lake")
        writer = writer.option("checkpointLocation", f"{to}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()


def raw(run: Run, at: Rows) -> None:
    """The records as they are."""
    lake(at, Mode())


def typed(run: Run, at: Rows) -> None:
    """Their fields as columns."""
    lake(at, Mode(types=TYPES))


def among(run: Run, at: Rows) -> None:
    """As typed, where twenty other types of eight fields are registered and none of their records come."""
    lake(at, Mode(types=AMONG_TWENTY))


CASE = Case(
    name="lake_typed",
    about="a topic of 1 KB rows into a typed table beside a raw one, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[
        Variant("raw", raw, setup=rows(sqlite)),
        Variant("typed", typed, setup=rows(sqlite)),
        Variant("among", among, setup=rows(sqlite)),
    ],
    targets=[
        Target(
            "typed",
            Ratio("typed", "raw", "cpu_us"),
            at_most=1.5,
            cause="decoding costs 6 to 7 us a row: 2.5 to parse 1 KB of JSON, 2 for the Cast and Literal "
            "that Spark makes anew for each field it reads of a VARIANT, 0.5 to see that it is UTF-8; the "
            "raw lake is itself a sixth cheaper than when the target was set",
        )
    ],
)
