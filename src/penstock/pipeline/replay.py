"""Replays a range of a topic into a folder of its own.

The live pipeline is not involved: a replay has its own checkpoint and tables, does not hold retention back,
and never writes to the folder of a pipeline. The folder records its range, so that an interrupted replay goes
on with the same one, even if its end was given as `latest`.
"""

from contextlib import closing
from dataclasses import replace

from penstock.errors import InvalidOption

from .lake.paths import CONTROL, tables_in
from .lake.state import Replayed, note_replay, replayed
from .lake.storage import Location
from .offsets import Ends, Range
from .progress import Progress
from .query import Job
from .source.options import ReadingPlace, written_offsets
from .source.view import Heads, TopicView, open_view, removed, report_removed

ReplayPlace = ReadingPlace | int  # an offset for every partition, or a position that the source understands


def planned(job: Job, first: ReplayPlace, last: ReplayPlace, words: tuple[str, str]) -> Range:
    """Return the range between two positions now; `words`: the positions as given.

    Raises UnknownTopic, InvalidOption, RecordsRemoved.
    """
    with closing(open_view(job.url, job.names, job.topic)) as view:
        heads = view.heads()
        starts, ends = _offsets(view, heads, first, "--from"), _offsets(view, heads, last, "--until")
        log_id, incarnation = view.identity()
    if _is_turned(first, last, starts, ends):
        raise InvalidOption("--from", words[0], f"a place before --until {words[1]}")
    ends = {partition: max(end, starts[partition]) for partition, end in ends.items()}
    report_removed(job.topic, removed(starts, ends, heads.starts()), fail=job.fail_on_loss)
    return Range(log_id, job.topic, heads.topic.id, starts, ends, incarnation=incarnation)


def _is_turned(first: ReplayPlace, last: ReplayPlace, starts: Ends, ends: Ends) -> bool:
    """Return whether a range ends before it begins.

    If one position is an offset and the other a time, the range may be empty in some partitions.
    """
    if isinstance(first, int) and isinstance(last, int):
        return first > last
    turned = [partition for partition, end in ends.items() if starts[partition] > end]
    if isinstance(first, ReadingPlace) and isinstance(last, ReadingPlace):
        if first.timestamp_ms is not None and last.timestamp_ms is not None:
            return first.timestamp_ms > last.timestamp_ms
        if first.offsets and last.offsets:
            return bool(turned)
    return bool(turned) and all(starts[partition] >= end for partition, end in ends.items())


def _offsets(view: TopicView, heads: Heads, place: ReplayPlace, option: str) -> Ends:
    if isinstance(place, int):
        return {partition: min(place, bounds.end) for partition, bounds in heads.bounds.items()}
    return view.resolve(place, heads, option)


def begun(to: Location, asked: Replayed) -> Range:
    """Return the range of a replay into a folder: the requested one, or the one that it began with.

    Raises InvalidOption if the folder has another purpose.
    """
    batch, known = Range.from_json(asked.batch), replayed(to)
    if known is None:
        if (to / CONTROL).exists() or tables_in(to):
            raise InvalidOption("--to", str(to), "a folder of its own, and this one has a pipeline or tables")
        return batch
    was = Range.from_json(known.batch)
    same = (known.pipeline, known.words, was.log_id, was.topic_id)
    if same != (asked.pipeline, asked.words, batch.log_id, batch.topic_id):
        first, last = known.words
        raise InvalidOption(
            "--to",
            str(to),
            f"another folder: here is a replay of topic {was.topic} by {known.pipeline}, --from {first} "
            f"--until {last}",
        )
    return was


def replaying(job: Job, asked: Replayed, batch: Range) -> Job:
    """Return the job of a replay, and reserve its folder for it.

    Partitions added when the topic grows are not in the range.
    """
    note_replay(job.to, Replayed(asked.pipeline, asked.words, batch.to_json()))
    first, last = (written_offsets(batch.topic, each, others=0) for each in (batch.starts, batch.ends))
    return replace(job, starting=first, ending=last, once=True)


class ReplayedRange:
    """The reader of a replay: it holds nothing back, and ends with its range."""

    def __init__(self, batch: Range) -> None:
        self._batch = batch

    def moved(self, ends: Ends) -> None:
        """Do nothing: retention does not wait for a replay."""

    def tell(self, batch: Progress) -> None:
        """Do nothing: traces record only when the live pipeline has a record in its tables."""

    def waiting(self, batch: Progress) -> int | None:
        """Return how many records of the range are left."""
        ends = self._batch.ends
        return sum(max(0, end - batch.ends.get(partition, 0)) for partition, end in ends.items())
