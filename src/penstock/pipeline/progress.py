"""The progress of a running query: its micro-batches, and the metrics made from them.

Spark gives offsets as text, and no metrics of its own.
"""

from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from penstock import metrics
from penstock.clock import to_ms

from .offsets import Ends, Piece, Range, by_topic, is_ours


@dataclass(frozen=True, slots=True)
class Progress:
    """One micro-batch. `ends`: up to where the tables then hold the topic; `lag`: records behind it, if reported."""

    batch: int
    rows: int
    rows_per_second: float
    seconds: float
    lag: int | None
    ends: Ends = field(default_factory=dict)
    pieces: tuple[Piece, ...] = ()
    began_ms: int = 0


@dataclass(frozen=True, slots=True)
class SourceMetrics:
    """A topic after a micro-batch: how many records it read, and how many wait behind them.

    `lag` is None where Spark does not report it: on 4.0 and 4.1, and for a batch that ran again. `pieces`:
    the records that it read.
    """

    topic: str
    records: int
    lag: int | None
    ends: Ends
    pieces: tuple[Piece, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        waiting = "" if self.lag is None else f", {self.lag:,} waiting"
        return f"topic {self.topic}: {self.records:,} records{waiting}"


def source_metrics(progress: Any) -> list[SourceMetrics]:
    """Return the metrics of each of our topics from a query's progress, as in `query.lastProgress`."""
    sources = progress["sources"] if isinstance(progress, Mapping) else progress.sources
    return [each for source in sources for each in _metrics(source)]


def _metrics(source: Any) -> Iterator[SourceMetrics]:
    start, end = _form(source["startOffset"]), _form(source["endOffset"])
    if not is_ours(end):
        return
    latest = _ends(_form(source["latestOffset"]))
    moved = start != end
    for topic, form in by_topic(end).items():
        batch = Range.from_json(form)
        there = latest.get(topic)
        lag = None if there is None else max(0, sum(there) - sum(batch.ends.values()))
        pieces = tuple(batch.pieces()) if moved else ()
        yield SourceMetrics(topic, batch.count() if moved else 0, lag, batch.ends, pieces)


def _ends(latest: Any) -> dict[str, list[int]]:
    """Return the ends of topics in the source's report; nothing for a repeated batch, which reports null."""
    if not isinstance(latest, Mapping):
        return {}
    forms = latest.get("topics", [latest])
    return {each["topic"]: each["ends"] for each in forms if "ends" in each and "topic" in each}


def _form(said: str | None) -> Any:
    """Return an offset from its text: JSON, or on Spark 4.0 and 4.1 the `repr` of a Python object."""
    if not said:
        return None
    try:
        return msgspec.json.decode(said)
    except msgspec.DecodeError:
        return literal_eval(said)


def progress_of(raw: Any) -> Progress:
    """Return a micro-batch from a query's progress."""
    topics = source_metrics(raw)
    return Progress(
        raw["batchId"],
        raw["numInputRows"],
        raw["processedRowsPerSecond"] or 0.0,
        raw["durationMs"].get("triggerExecution", 0) / 1000,
        None if any(each.lag is None for each in topics) else sum(each.lag or 0 for each in topics),
        topics[0].ends if len(topics) == 1 else {},
        topics[0].pieces if len(topics) == 1 else (),
        to_ms(datetime.fromisoformat(raw["timestamp"])),
    )


class PipelineSeries:
    """The series of one pipeline, known by the name under which it reads."""

    def __init__(self, store: str, name: str) -> None:
        self._store, self._name = store, name

    def count(self, batch: Progress) -> None:
        """Count a batch that has ended."""
        metrics.PIPELINE_RECORDS.add(batch.rows, pipeline=self._name)
        metrics.PIPELINE_BATCH_SECONDS.observe(batch.seconds, pipeline=self._name)
        if batch.lag is not None:
            metrics.PIPELINE_LAG.set(batch.lag, store=self._store, pipeline=self._name)

    def count_interruption(self) -> None:
        """Count an interruption that made the pipeline restart."""
        metrics.PIPELINE_INTERRUPTIONS.add(pipeline=self._name)
