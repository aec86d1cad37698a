"""Metrics of our topics from a query's progress: Spark gives offsets as text, and no metrics of its own."""

from ast import literal_eval
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .offset_forms import by_topic, is_ours
from .offsets import Ends, Piece, Range


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
