"""A topic into a Delta table in a bucket, beside the same on the disk, both as streams that run to the end.

The bucket is in moto's server on this machine: it takes what is sent, and stands for no store's speed. The
target counts Spark, its Java and its Python workers; `cpu_us` of the bucket counts the server, too, which is
shown alone as `server_cpu_us`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from unittest.mock import patch

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.errors import NotMeasured
from bench.lakes import TOPIC, Rows, rows
from bench.stores import sqlite
from tests.services.object_store import ObjectStore, ObjectStoreUnavailable


@dataclass(frozen=True)
class BucketRows:
    """The rows, and a bucket for the table."""

    rows: Rows
    bucket: str


@contextmanager
def server(run: Run) -> Iterator[ObjectStore]:
    """Give the store, and lead this process and those it starts to it."""
    try:
        with ObjectStore() as store, patch.dict(os.environ, store.environment()):
            yield store
    except ObjectStoreUnavailable as exc:
        raise NotMeasured(f"no S3 server: {exc}") from exc


@contextmanager
def on_disk(run: Run) -> Iterator[Rows]:
    """Give the rows; the store is up already, as for the other variant."""
    run.once(server)
    with rows(sqlite)(run) as made:
        yield made


@contextmanager
def in_bucket(run: Run) -> Iterator[BucketRows]:
    """Give the rows, and a new bucket."""
    store = run.once(server)
    with rows(sqlite)(run) as made:
        run.watch("server", store.pid)
        yield BucketRows(made, f"s3://{store.bucket()}")


def write(at: Rows, table: str, checkpoint: str) -> None:
    """Write the topic to its end."""
    frame = at.spark.readStream.format("penstock").options(url=at.url, topic=TOPIC).load()
    writer = frame.writeStream.format("penstock-delta").option("path", table)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def to_disk(run: Run, at: Rows) -> None:
    """The log to a table on the disk."""
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        write(at, f"{to}/table", f"{to}/checkpoint")


def to_bucket(run: Run, at: BucketRows) -> None:
    """The log to a table in a bucket."""
    with TemporaryDirectory(prefix="penstock-bench-") as to:
        write(at.rows, f"{at.bucket}/table", f"{to}/checkpoint")


CASE = Case(
    name="lake_s3",
    about="a topic of 1 KB rows into a Delta table in a bucket of a local server, and on the disk, local[2]",
    records=Size(quick=300_000, full=1_000_000),
    rounds=Size(quick=3, full=3),
    variants=[Variant("disk", to_disk, setup=on_disk), Variant("bucket", to_bucket, setup=in_bucket)],
    targets=[
        Target("s3", Ratio("bucket", "disk", "spark_cpu_us"), at_most=2),
        Target("s3_wall", Ratio("bucket", "disk", "wall_us"), at_most=2),
    ],
)
