"""Rows of a query back into a topic, each once, beside `log.append` of the same rows in one process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple
from uuid import uuid4

import pyarrow.parquet as pq

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.lakes import PARTITIONS, Rows, rows
from bench.stores import postgres, sqlite
from bench.stores.contract import EngineOpener
from penstock import Outbox, Record

_CHUNK = 5_000


class Into(NamedTuple):
    """The rows, as files and in memory, and a new topic for them."""

    rows: Rows
    outbox: Outbox
    topic: str
    records: list[Record]


def into_topic(engine: EngineOpener, *, in_memory: bool) -> Callable[[Run], AbstractContextManager[Into]]:
    """Return the setup that gives the rows and an empty topic in the store that they came from."""

    @contextmanager
    def setup(run: Run) -> Iterator[Into]:
        with rows(engine)(run) as made:
            outbox, topic = Outbox(made.url), f"copies-{uuid4().hex}"
            outbox.log.create_topic(topic, partitions=PARTITIONS)
            yield Into(made, outbox, topic, _records(made) if in_memory else [])
            assert sum(outbox.log.ends(outbox.log.topic(topic)).values()) == run.records
            outbox.log.delete_topic(topic)
            outbox.close()

    return setup


def _records(made: Rows) -> list[Record]:
    table = pq.read_table(str(made.parquet), columns=["key", "value", "type"])
    return [
        Record(f"c-{n}", each["key"].decode(), each["value"], each["type"], (), 1_700_000_000_000 + n)
        for n, each in enumerate(table.to_pylist())
    ]


def append(run: Run, at: Into) -> None:
    """One process, with no query."""
    for start in range(0, len(at.records), _CHUNK):
        at.outbox.log.append(at.topic, at.records[start : start + _CHUNK])


def write_back(run: Run, at: Into) -> None:
    """Two tasks that read Parquet, and the release."""
    frame = at.rows.spark.read.parquet(str(at.rows.parquet)).select("key", "value", "type", "timestamp")
    writer = frame.write.format("penstock").mode("append").options(url=at.rows.url, topic=at.topic)
    writer.option("txnAppId", at.topic).option("txnVersion", "1").save()


_ENGINES: dict[str, tuple[str, EngineOpener]] = {"sqlite": ("SQLite", sqlite), "postgres": ("PostgreSQL", postgres)}

CASE = Case(
    name="lake_write_back",
    about="1 KB rows of a query into a topic, each once, beside log.append of the same rows, local[2]",
    records=Size(quick=100_000, full=300_000),
    rounds=Size(quick=3, full=3),
    variants=[
        variant
        for title, engine in _ENGINES.values()
        for variant in (
            Variant(f"append, {title}", append, setup=into_topic(engine, in_memory=True)),
            Variant(f"write-back, {title}", write_back, setup=into_topic(engine, in_memory=False)),
        )
    ],
    targets=[
        Target(name, Ratio(f"append, {title}", f"write-back, {title}", "wall_us"), at_least=0.3)
        for name, (title, _) in _ENGINES.items()
    ],
)
