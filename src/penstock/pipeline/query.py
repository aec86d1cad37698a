"""Pipelines as running queries: a topic into a lake, or through a user's function into a table.

A pipeline keeps its checkpoint in the folder it writes to (`_penstock/checkpoint`), so that a folder is
whole: moved, backed up or removed as one. A new checkpoint begins where the tables end.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import InvalidPipeline, MissingExtra, PipelineFailed
from penstock.log.sql.naming import Names

from .lake_state import check_tables
from .paths import CONTROL
from .settings import PipelineSettings

try:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

FrameFunction = Callable[[DataFrame], DataFrame]
_OURS = re.compile(r"penstock\.errors\.\w+: (?P<said>.+)")
_PYTHON = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Job:
    """From which topic, and into which folder."""

    url: str
    topic: str
    to: Path
    names: Names = Names()
    starting: str = "earliest"
    once: bool = False
    fail_on_loss: bool = True
    batch_records: int | None = None

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint, inside the one that is written to."""
        return self.to / CONTROL / "checkpoint"


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch: what it took, how fast, and how many records wait behind it."""

    batch: int
    rows: int
    rows_per_second: float
    seconds: float
    lag: int


def source_options(job: Job) -> dict[str, str]:
    """Return the options of the source that say which topic is read, and how."""
    return {
        "url": job.url,
        "prefix": job.names.prefix,
        "schema": job.names.schema or "",
        "topic": job.topic,
        "startingOffsets": job.starting,
        "failOnDataLoss": str(job.fail_on_loss).lower(),
    }


def events(spark: SparkSession, job: Job) -> DataFrame:
    """Return the topic of a job as a streaming DataFrame."""
    settings = PipelineSettings.load(batch_records=job.batch_records)
    options = source_options(job) | {
        "maxRecordsPerBatch": str(settings.batch_records),
        "continueFrom": str(job.to),
    }
    return spark.readStream.format("penstock").options(**options).load()


def start_lake(spark: SparkSession, job: Job) -> "Running":
    """Start the query that puts a topic into one table for each event type."""
    return _start(events(spark, job), job, {"tableBy": "type"})


def start_function(spark: SparkSession, job: Job, name: str, function: FrameFunction) -> "Running":
    """Start a user's pipeline: the topic goes in, what comes out is appended to one table.

    Raises InvalidPipeline.
    """
    made = function(events(spark, job))
    if not isinstance(made, DataFrame):
        raise InvalidPipeline(name, f"it returned {type(made).__name__}, not a DataFrame")
    if not made.isStreaming:
        raise InvalidPipeline(name, "it returned a DataFrame that does not come from the one it was given")
    return _start(made, job, {})


def _start(frame: DataFrame, job: Job, options: dict[str, str]) -> "Running":
    check_tables(job.to)
    writer = frame.writeStream.format("penstock-delta").outputMode("append").options(**options)
    writer = writer.option("path", str(job.to)).option("checkpointLocation", str(job.checkpoint))
    if job.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{PipelineSettings.load().trigger_seconds} seconds")
    try:
        return Running(writer.start())
    except PySparkException as exc:
        raise PipelineFailed(reason(str(exc))) from exc


class Running:
    """A query under way. Used by one thread."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._told = -1

    @property
    def active(self) -> bool:
        """Whether it still runs."""
        return self._query.isActive

    @property
    def busy(self) -> bool:
        """Whether a batch is under way."""
        return bool(self._query.status["isTriggerActive"])

    def progress(self) -> list[Progress]:
        """Return the batches that have ended since the last call, the oldest first."""
        found = [each for each in map(_progress, self._query.recentProgress) if each.batch > self._told]
        if found:
            self._told = found[-1].batch
        return [each for each in found if each.rows]

    def stop(self) -> None:
        """Stop it now. A batch under way is left; it is done again, once, when the pipeline starts again."""
        self._query.stop()

    def wait(self, seconds: int | None = None) -> bool:
        """Wait until it has ended, or so long; return whether it has. Raises PipelineFailed."""
        try:
            ended = self._query.awaitTermination(seconds)
        except PySparkException as exc:
            raise PipelineFailed(reason(str(exc))) from exc
        return ended is not False

    def check(self) -> None:
        """Raise PipelineFailed if it ended with an error."""
        error = self._query.exception()
        if error is not None:
            raise PipelineFailed(reason(str(error)))


def reason(said: str) -> str:
    """Return the one line of Spark's report that says what went wrong: ours, or the innermost of Python."""
    ours = _OURS.findall(said)
    if ours:
        return str(ours[-1]).strip()
    python = [line for line in _PYTHON.findall(said) if not line.startswith("py4j.")]
    return (python[-1] if python else said.strip().partition("\n")[0]).strip()


def _progress(raw: Any) -> Progress:
    sources = raw["sources"] if isinstance(raw, dict) else raw.sources
    return Progress(
        raw["batchId"],
        raw["numInputRows"],
        raw["processedRowsPerSecond"] or 0.0,
        raw["durationMs"].get("triggerExecution", 0) / 1000,
        sum(_lag(each) for each in sources),
    )


def _lag(source: Any) -> int:
    """Return how many records the log holds behind the end of a batch."""
    reached, there = _ends(source["endOffset"]), _ends(source["latestOffset"])
    if reached is None or there is None:
        return 0
    return max(0, int(sum(there) - sum(reached)))


def _ends(said: str | None) -> list[int] | None:
    """Return the ends in an offset that Spark reports; None for a replayed batch, which has the text null."""
    form = msgspec.json.decode(said) if said else None
    return form.get("ends") if isinstance(form, dict) else None
