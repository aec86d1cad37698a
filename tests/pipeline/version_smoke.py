"""What must work on every Spark that is supported: a program, run with the pyspark of another version first.

`python -m tests.pipeline.version_smoke FOLDER [JARS]`. With the folder of the jars of delta-spark, its reader
reads the tables, too, and its writer takes a topic. Ends with 0 if all is right.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyspark
from deltalake import DeltaTable

from penstock.cli import main as penstock
from penstock.pipeline import spark_session
from tests.pipeline.stores import TOPIC, LogStore
from tests.suites.records import a_record

OTHER = "others"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
Place = tuple[str, int, int]


def command(*words: str) -> None:
    """Run a command as a user does; it must end well."""
    code: Any = None
    try:
        penstock(list(words))
    except SystemExit as left:
        code = left.code
    assert not code, (words, code)


def places_in(*tables: Path) -> list[Place]:
    rows = [row for table in tables for row in DeltaTable(str(table)).to_pyarrow_table().to_pylist()]
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def places_of(store: LogStore) -> list[Place]:
    return sorted((TOPIC, *place) for place in store.records())


def lakes(store: LogStore, folder: Path) -> None:
    """Append, upsert and types, each in two runs, by the command; then all is counted."""
    asked = {"raw": [], "latest": ["--mode", "upsert"], "typed": ["--types", "tests.pipeline.typed_shop:outbox"]}
    where = ["--url", store.url, "--topic", TOPIC]
    for _ in range(2):
        store.fill(150)
        for name, words in asked.items():
            to = ["--to", str(folder / name), "--once", "--batch-records", "100"]
            command("pipeline", "lake", *where, *to, *words)
    for name in asked:
        command("reconcile", *where, "--lake", str(folder / name))


def several(spark: Any, store: LogStore, folder: Path) -> None:
    """Two topics as one stream, stopped and started again under both triggers."""
    log, to = store.outbox.log, folder / "both"
    log.create_topic(OTHER, partitions=2)
    triggers: list[dict[str, Any]] = [{"processingTime": "0 seconds"}, {"availableNow": True}]
    for round, trigger in enumerate(triggers * 2):
        store.fill(70)
        log.append(OTHER, [a_record(f"k{n}", json.dumps(n).encode()) for n in range(40)])
        source = spark.readStream.format("penstock").options(url=store.url, subscribe=f"{TOPIC}, {OTHER}")
        if "availableNow" not in trigger:  # on Spark 4.0 and 4.1 that is one batch, and so is to have all
            source = source.option("maxOffsetsPerTrigger", "60")
        writer = source.load().writeStream.format("penstock-delta")
        writer = writer.option("path", str(to)).option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.queryName(f"both {round}").trigger(**trigger).start()
        if "availableNow" in trigger:
            query.awaitTermination()
        else:
            query.processAllAvailable()
            query.stop()
        assert query.exception() is None
    others = [(OTHER, p, n) for p in range(2) for n in range(log.bounds(OTHER, p).end)]
    assert places_in(to) == sorted([*places_of(store), *others])


def by_delta_spark(spark: Any, store: LogStore, folder: Path) -> None:
    """delta-spark reads what we wrote, appended and upserted, and takes a topic by its own sink."""
    made = [each for lake in ("raw", "latest", "typed") for each in (folder / lake).iterdir()]
    tables = [each for each in [*made, folder / "both"] if (each / "_delta_log").is_dir()]
    for table in tables:
        theirs = spark.read.format("delta").load(str(table)).select("topic", "partition", "offset").collect()
        assert sorted(tuple(row) for row in theirs) == places_in(table), table
    frame = spark.readStream.format("penstock").options(url=store.url, topic=TOPIC).load()
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(folder / "theirs_checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "theirs")).awaitTermination()
    assert places_in(folder / "theirs") == places_of(store)
    print(f"delta-spark has read {len(tables)} tables")


def main(folder: Path, delta_spark: Path | None) -> None:
    conf = {}
    if delta_spark is not None:
        conf = {"spark.jars": ",".join(str(each) for each in sorted(delta_spark.glob("*.jar"))), **DELTA}
    spark = spark_session("smoke", master="local[2]", conf=conf)
    store = LogStore(f"sqlite:///{folder}/shop.db")
    lakes(store, folder)
    several(spark, store, folder)
    if delta_spark is not None:
        by_delta_spark(spark, store, folder)
    spark.stop()
    store.close()
    print(f"all right on Spark {pyspark.__version__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
