"""A pipeline as a named reader of the log: retention keeps the records that it has not read yet.

Its position in the log moves after a batch is in the tables, never before. It does not expire: a pipeline that no
longer runs holds retention back until an operator deletes it (`penstock groups delete`), and `penstock doctor` names
it. If the position cannot be written, as with a read-only role, the pipeline runs without it.

Rows stay in Spark, and the driver sees none of them. So while spans are recorded, it reads the first records of a batch
from the log, where their headers are, to add the batch to their traces.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property

from penstock import tracing
from penstock.errors import Error, Undecodable, UnknownTopic
from penstock.log.contract import OffsetRange
from penstock.model.context import context_of
from penstock.wire.kafka.headers import decode_headers

from .address import is_kafka
from .lake.state import check_tables, forget_reader, known_reader, known_tables, reader_name
from .offsets import Ends, Piece, before_starts
from .progress import Progress
from .query import Job, source_options
from .settings import PipelineSettings
from .source.opening import HeldView
from .source.options import EARLIEST, LATEST, ReadingPlace, read_offsets, read_options
from .source.stream import continued
from .source.view import removed, report_removed

logger = logging.getLogger("penstock.pipeline")
_FROM = "--from"  # the command's name for `startingOffsets`
_RECORDS, _BYTES = 500, 1 << 20  # the most read of a batch for its span


class PipelineReader:
    """The reader of one job. The driver writes its position."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._view = HeldView(job.url, job.names, job.topic)
        self._keeps_folder: bool | None = None  # whether it existed before the name, if we made the name
        self._holds = PipelineSettings.load().hold_retention
        self._warned = False
        self._reported: Ends = {}  # up to where losses to retention have been reported
        self._new: bool | None = None  # whether it held nothing and had read nothing at the start

    @cached_property
    def name(self) -> str:
        """The name, made on first use: a refused start leaves no folder behind."""
        if known_reader(self._job.to) is None:
            self._keeps_folder = self._job.to.exists()
        return reader_name(self._job.to)

    def check(self) -> None:
        """Refuse an invalid starting position before anything of a new pipeline is created. Raises InvalidOption."""
        job = self._job
        if known_reader(job.to) is None:
            with self._view.used() as view:
                view.resolve(_starting(job), view.heads(), _FROM)

    def begin(self) -> None:
        """Make retention keep the records that the pipeline will read, before it reads.

        They begin where its tables end; if these do not say it, at the held position, or at the starting one.
        Raises AnotherLog, HistoryTakenBack, TableMissing, RecordsRemoved.
        """
        job = self._job
        check_tables(job.to, but=known_tables(job.to).again)
        with self._view.used() as view:
            heads = view.heads()
            found = continued(job.to, view, heads)
            named = known_reader(job.to)
            held = {} if found or named is None else view.held(heads.topic, named)
            if self._new is None:
                self._new = not found and not held
            ends = found.starts if found else held or view.resolve(_starting(job), heads, _FROM)
        self._tell_loss(removed(ends, heads.ends(), heads.starts()))
        _ = self.name
        self.moved(ends)

    def tell(self, batch: Progress) -> None:
        """Record in traces that a batch is in the tables, if spans are recorded; report records it lacks.

        The reading tasks report losses in Spark's log file only; here the report reaches the user who allowed them.
        """
        job = self._job
        if tracing.is_on() and batch.pieces and not is_kafka(job.url):
            self._add_span(batch)
        wanted = sum(piece.end - piece.start for piece in batch.pieces)
        if job.fail_on_loss or batch.rows >= wanted:
            return
        with suppress(Error), self._view.used() as view:
            self._tell_loss(before_starts(batch.pieces, view.heads().starts()))

    def _add_span(self, batch: Progress) -> None:
        given: dict[str, str | int] = {
            "topic": self._job.topic,
            "reader": self.name,
            "batch": batch.batch,
            "records": batch.rows,
        }
        try:
            parents = list(self._contexts(batch))
        except Error as exc:  # the batch is in the tables all the same
            logger.warning("the span of batch %d of %s is left out: %s", batch.batch, self.name, exc)
            return
        tracing.tell_batch("penstock.load", parents, since_ms=batch.began_ms, **given)

    def _contexts(self, batch: Progress) -> Iterator[Mapping[str, str]]:
        ranges, left = list[OffsetRange](), _RECORDS
        for partition, start, end in batch.pieces:
            ranges.append(OffsetRange(partition, start, min(end, start + left)))
            left -= ranges[-1].high - start
            if not left:
                break
        with self._view.used() as view:
            found = view.entries(view.topic(), ranges, _BYTES)
        for each in found:
            with suppress(Undecodable):  # not published by us
                yield context_of(decode_headers(each.headers or b""))

    def _tell_loss(self, lost: list[Piece]) -> None:
        """Report records that retention has removed, each once. Raises RecordsRemoved, unless allowed."""
        new = [piece._replace(start=max(piece.start, self._reported.get(piece.partition, 0))) for piece in lost]
        report_removed(self._job.topic, [each for each in new if each.start < each.end], fail=self._job.fail_on_loss)
        self._reported |= {piece.partition: piece.end for piece in lost}

    def stays(self) -> None:
        """Record that the query has started: its hold now stays until an operator deletes it."""
        self._new = False

    def withdraw(self) -> None:
        """Release the hold and remove the folder, if the pipeline was new and failed to start."""
        if not self._new:
            return
        with suppress(Error), self._view.used() as view:
            view.hold(view.topic(), self.name, {})
        if self._keeps_folder is not None:
            with suppress(Error, OSError):
                forget_reader(self._job.to, keep_folder=self._keeps_folder)

    def waiting(self, batch: Progress) -> int | None:
        """Return how many records wait behind a batch, where Spark or the log knows it; else None."""
        if batch.lag is not None or not batch.ends:
            return batch.lag
        with suppress(Error), self._view.used() as view:
            ends = view.heads().ends()
            return sum(max(0, end - batch.ends.get(partition, 0)) for partition, end in ends.items())
        return None

    def moved(self, ends: Ends) -> None:
        """Hold the records after the ends that the tables have; hold nothing if the settings say so."""
        if not ends:
            return
        try:
            with self._view.used() as view:
                view.hold(view.topic(), self.name, ends if self._holds else {})
        except UnknownTopic:
            raise
        except Exception as exc:
            passes = isinstance(exc, Error) and exc.retryable  # the next batch writes it
            if not passes and not self._warned:
                self._warned = True
                logger.warning("retention does not wait for pipeline %s: %s", self.name, exc)

    def close(self) -> None:
        """Close the store."""
        self._view.close()


def _starting(job: Job) -> ReadingPlace:
    word = job.starting.strip()
    if word not in (EARLIEST, LATEST):
        read_offsets(_FROM, word, [job.topic])
    return read_options(source_options(job)).starting
