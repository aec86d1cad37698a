"""Pipelines as running queries: a topic into a lake, or through a user's function into a table.

A pipeline keeps its checkpoint in its target folder (`_penstock/checkpoint`), so that the folder is complete:
moved, backed up or removed as one. A new checkpoint begins where the tables end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.database.naming import Names
from penstock.errors import Error, InvalidPipeline, MissingExtra

from .backfill import TopicRecords, hand_out
from .checkpoint import begun_batch, read_batch
from .declared import BatchId, Pipeline
from .failure import failure, java_gone
from .lake.kinds import DELTA
from .lake.modes import COMPLETE, Mode, function_rows, lake_rows
from .lake.paths import CONTROL, local_path
from .lake.routing import Partitioning
from .lake.state import begin_checkpoint, check_tables, reader_name
from .lake.storage import Location
from .offsets import PLACE
from .progress import Progress, progress_of
from .settings import PipelineSettings
from .source.options import read_options
from .versions import TELLS_START

try:
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import TimestampNTZType, TimestampType
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


_TIMES = (TimestampType, TimestampNTZType)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A pipeline's topic, folder and options. `ending`, `kept_at`: its end and its checkpoint, if others."""

    url: str
    topic: str
    to: Location
    names: Names = Names()
    starting: str = "earliest"
    ending: str = "latest"
    once: bool = False
    fail_on_loss: bool = True
    batch_records: int | None = None
    batch_bytes: int | None = None
    small_batch_seconds: float | None = None
    partition_by: str | None = None
    mode: Mode = Mode()
    format: str = DELTA
    catalog: str | None = None  # of Iceberg tables: the address of their catalog
    namespace: str | None = None
    kept_at: Path | None = None

    @property
    def sink(self) -> str:
        """The format of the sink, as Spark knows it."""
        return f"penstock-{self.format}"

    def sink_options(self) -> dict[str, str]:
        """Return the options of the sink, apart from those on how rows become tables."""
        named = {"partitionBy": self.partition_by, "catalog": self.catalog, "namespace": self.namespace}
        return {name: each for name, each in named.items() if each} | {"path": str(self.to)}

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint: inside the target folder, if that can hold it."""
        return self.kept_at or local_path("checkpointLocation", str(self.to / CONTROL / "checkpoint"))


def source_options(job: Job) -> dict[str, str]:
    """Return the options of the source: which topic to read, and how."""
    return {
        "url": job.url,
        "prefix": job.names.prefix,
        "schema": job.names.schema or "",
        "topic": job.topic,
        "startingOffsets": job.starting,
        "endingOffsets": job.ending,
        "failOnDataLoss": str(job.fail_on_loss).lower(),
    }


def events(spark: SparkSession, job: Job, columns: Sequence[str] = ()) -> DataFrame:
    """Return the topic of a job, or some columns of it, as a streaming DataFrame. Raises PipelineFailed."""
    settings = PipelineSettings.load(
        batch_records=job.batch_records, batch_bytes=job.batch_bytes, small_batch_seconds=job.small_batch_seconds
    )
    bounds = {"maxRecordsPerBatch": settings.batch_records, "maxBytesPerTrigger": settings.batch_bytes}
    if job.once and not TELLS_START:
        bounds = {}  # it reads all there is in one batch
    options = source_options(job) | {
        **{name: str(most) for name, most in bounds.items() if most},
        "minOffsetsPerTrigger": str(settings.small_batch_records),
        "maxTriggerDelay": f"{settings.small_batch_seconds}s",
        "continueFrom": str(job.to),
        "tasks": str(spark.sparkContext.defaultParallelism),  # the cluster's cores, not the driver's
    }
    if columns:
        options["columns"] = ",".join(columns)
    with asking():
        return spark.readStream.format("penstock").options(**options).load()


def begin(spark: SparkSession, job: Job, declared: Pipeline | None = None) -> "Running":
    """Start the query of a job: into the tables of a lake, or as a pipeline is declared. Raises InvalidPipeline."""
    if declared is None:
        with asking():
            rows, options = lake_rows(events(spark, job), job.mode, job.to)
        return _into_tables(rows, job, options)
    if declared.each_record:
        return _start(events(spark, job, PLACE).writeStream.foreachBatch(_handed_out(declared, job)), job)
    if declared.each_batch:
        return _start(events(spark, job).writeStream.foreachBatch(_identified(declared, job)), job)
    source = events(spark, job)
    with asking():
        made = declared.function(source)
    made = _checked(declared.name, made)
    if declared.topic is not None:
        with asking():
            writer = made.writeStream.format("penstock").outputMode("append")
        target = {"url": job.url, "topic": declared.topic, "prefix": job.names.prefix}
        return _start(writer.options(**target).option("schema", job.names.schema or ""), job)
    with asking():
        times = [each.name for each in made.schema if isinstance(each.dataType, _TIMES)]
    Partitioning.parse(job.partition_by).check(times)
    with asking():
        rows, options = function_rows(made, job.mode, job.to)
    return _into_tables(rows, job, options, each_batch=job.mode.upserts)


def _handed_out(declared: Pipeline, job: Job) -> Callable[[DataFrame, int], None]:
    again = begun_batch(str(job.checkpoint))
    kafka = read_options(source_options(job)).kafka  # the driver's: a worker may be elsewhere
    topic = TopicRecords(job.url, job.names, job.topic, kafka, job.fail_on_loss)

    def call(batch: DataFrame, number: int) -> None:
        hand_out(batch, topic, declared, redelivered=number == again)

    return call


def _identified(declared: Pipeline, job: Job) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, number: int) -> None:
        read = read_batch(str(job.checkpoint), number)
        declared.function(batch, BatchId(f"spark/{read.query_id}", number, read.content))

    return write


def _checked(name: str, made: Any) -> DataFrame:
    if not isinstance(made, DataFrame):
        raise InvalidPipeline(name, f"it returned {type(made).__name__}, not a DataFrame")
    if not made.isStreaming:
        raise InvalidPipeline(name, "it returned a DataFrame that does not come from the one it was given")
    return made


def _into_tables(frame: DataFrame, job: Job, options: dict[str, str], *, each_batch: bool = False) -> "Running":
    check_tables(job.to)
    options = options | job.sink_options()
    if not each_batch:
        return _start(frame.writeStream.format(job.sink).outputMode("append").options(**options), job)

    def write(batch: DataFrame, number: int) -> None:
        writer = batch.write.format(job.sink).mode("append").options(**options)
        writer.option("checkpointLocation", str(job.checkpoint)).option("batchNumber", str(number)).save()

    kind = "complete" if job.mode.name == COMPLETE else "update"
    return _start(frame.writeStream.outputMode(kind).foreachBatch(write), job)


def _start(writer: DataStreamWriter, job: Job) -> "Running":
    begin_checkpoint(job.to, job.checkpoint)
    writer = writer.queryName(reader_name(job.to)).option("checkpointLocation", str(job.checkpoint))
    if job.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{PipelineSettings.load().trigger_seconds} seconds")
    with asking():
        return Running(writer.start())


class Running:
    """A running query. Used by one thread."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._last_batch = -1

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        with asking():
            return self._query.isActive

    @property
    def busy(self) -> bool:
        """Whether a batch is in flight."""
        with asking():
            return bool(self._query.status["isTriggerActive"])

    def progress(self) -> list[Progress]:
        """Return the batches with rows that have ended since the last call, oldest first.

        Called several times a second: Spark keeps the last hundred, which are searched only if some were
        missed. While idle, Spark reports the next batch as one without rows.
        """
        with asking():
            last = self._query.lastProgress
            if last is None or last["batchId"] <= self._last_batch:
                return []
            follows = last["batchId"] == self._last_batch + 1
            recent = [last] if follows else self._query.recentProgress
        found = [each for each in map(progress_of, recent) if each.rows and each.batch > self._last_batch]
        if found:
            self._last_batch = found[-1].batch
        elif not follows:
            self._last_batch = last["batchId"] - 1
        return found

    def stop(self) -> None:
        """Stop it now. The next start of the pipeline repeats a batch in flight, and applies it once."""
        with asking():
            self._query.stop()

    def wait(self, seconds: int | None = None) -> bool:
        """Wait until it has ended, at most some seconds; return whether it has. Raises as `asking` does."""
        with asking():
            ended = self._query.awaitTermination(seconds)
        return ended is not False

    def check(self) -> None:
        """Raise PipelineFailed, or PipelineInterrupted, if it ended with an error."""
        with asking():
            error = self._query.exception()
        if error is not None:
            raise failure(_in_full(error))


@contextmanager
def asking() -> Iterator[None]:
    """Translate Spark's errors, and the loss of its Java process, into our own."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as exc:
        raise java_gone() from exc
    except (PySparkException, Py4JError) as exc:
        raise _answered(exc) from exc


def _answered(error: Exception) -> Error:
    try:
        return failure(_in_full(error))  # needs Java for the text
    except (Py4JError, OSError):
        return java_gone()


def _in_full(error: Exception) -> str:
    """Return the texts of an error and of its causes: the first may only say that a job failed."""
    said, cause = [str(error)], getattr(error, "_cause", None)
    while cause is not None:
        said.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return "\n".join(said)
