"""A pipeline as a reader of the log: it has a name, and retention keeps what it has not read yet.

Its place in the log moves after a batch is in the tables, never before. It does not expire: a pipeline that
is not run any more holds retention back until somebody deletes it (`penstock groups delete`), and
`penstock doctor` names it. If its place cannot be written, as with a role that may only read, the pipeline
goes on without.
"""

import logging
from contextlib import closing, suppress
from functools import cached_property

from penstock.errors import Error, UnknownTopic
from penstock.log.store import open_store

from .batch_spans import tell_progress
from .kafka_address import is_kafka
from .lake_state import (
    check_tables,
    forget_reader,
    is_unnamed,
    known_reader,
    known_tables,
    reader_name,
)
from .offsets import Ends, Piece, before_starts
from .options import EARLIEST, LATEST, ReadingPlace, read_offsets, read_options
from .query import Job, Progress, source_options
from .settings import PipelineSettings
from .source import continued
from .view import open_view, removed, report_removed

logger = logging.getLogger("penstock.pipeline")
_FROM = "--from"  # what the command calls `startingOffsets`


class PipelineReader:
    """The reader of one job. Its place is written by the driver."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._keeps_folder: bool | None = None  # whether it was there before the name, if that was made here
        self._holds = PipelineSettings.load().hold_retention
        self._warned = False
        self._told: Ends = {}  # up to where it was said what retention has removed
        self._new: bool | None = None  # whether nothing was held, and nothing read, when it began

    @cached_property
    def name(self) -> str:
        """The name, made when it is first asked for: a start that is refused leaves no folder behind."""
        if is_unnamed(self._job.to):
            self._keeps_folder = self._job.to.exists()
        return reader_name(self._job.to)

    def check(self) -> None:
        """Refuse a place to begin that is none, before anything is made of a new pipeline.

        Raises InvalidOption.
        """
        job = self._job
        if is_unnamed(job.to):
            with closing(open_view(job.url, job.names, job.topic)) as view:
                view.resolve(_starting(job), view.heads(), _FROM)

    def begin(self) -> None:
        """Hold what the pipeline will read, before it reads.

        From where its tables end; if they do not say it, as it was held before, or where it is to start.
        Raises AnotherLog, HistoryTakenBack, TableMissing, RecordsRemoved.
        """
        job = self._job
        check_tables(job.to, but=known_tables(job.to).again)
        with closing(open_view(job.url, job.names, job.topic)) as view:
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
        """Let traces say that a batch is in the tables, while spans are recorded; say what it lacks.

        The reading tasks say so in Spark's log file only; here it reaches the user, who has allowed it.
        """
        job = self._job
        tell_progress(job, self.name, batch)
        wanted = sum(piece.end - piece.start for piece in batch.pieces)
        if job.fail_on_loss or batch.rows >= wanted:
            return
        with suppress(Error), closing(open_view(job.url, job.names, job.topic)) as view:
            self._tell_loss(before_starts(batch.pieces, view.heads().starts()))

    def _tell_loss(self, lost: list[Piece]) -> None:
        """Say what retention has removed, once. Raises RecordsRemoved, unless that is allowed."""
        new = [piece._replace(start=max(piece.start, self._told.get(piece.partition, 0))) for piece in lost]
        report_removed(
            self._job.topic, [each for each in new if each.start < each.end], fail=self._job.fail_on_loss
        )
        self._told |= {piece.partition: piece.end for piece in lost}

    def stays(self) -> None:
        """Say that the query has started: what it holds is held until somebody deletes it."""
        self._new = False

    def withdraw(self) -> None:
        """Hold nothing any more and leave no folder, if the pipeline was no more than a start that failed."""
        if not self._new:
            return
        if not is_kafka(self._job.url):
            with suppress(Error), closing(open_store(self._job.url, self._job.names)) as store:
                store.log.hold(self.name, store.log.topic(self._job.topic), {})
        if self._keeps_folder is not None:
            with suppress(Error, OSError):
                forget_reader(self._job.to, keep_folder=self._keeps_folder)

    def waiting(self, batch: Progress) -> int | None:
        """Return how many records wait behind a batch; None if nobody can tell now.

        Spark does not say it of a batch that was planned before it started; the log does.
        """
        if batch.lag is not None or not batch.ends:
            return batch.lag
        job = self._job
        with suppress(Error), closing(open_view(job.url, job.names, job.topic)) as view:
            ends = view.heads().ends()
            return sum(max(0, end - batch.ends.get(partition, 0)) for partition, end in ends.items())
        return None

    def moved(self, ends: Ends) -> None:
        """Hold what is after some ends, which are in the tables; nothing if the settings say so."""
        job = self._job
        if not ends or is_kafka(job.url):  # how long a Kafka cluster keeps records is its own affair
            return
        store = open_store(job.url, job.names)
        try:
            store.log.hold(self.name, store.log.topic(job.topic), ends if self._holds else {})
        except UnknownTopic:
            raise
        except Exception as exc:
            passes = isinstance(exc, Error) and exc.retryable  # the next batch brings it up to date
            if not passes and not self._warned:
                self._warned = True
                logger.warning("retention does not wait for pipeline %s: %s", self.name, exc)
        finally:
            store.close()


def _starting(job: Job) -> ReadingPlace:
    """Return where a new pipeline begins. Raises InvalidOption."""
    word = job.starting.strip()
    if word not in (EARLIEST, LATEST):
        read_offsets(_FROM, word, [job.topic])
    return read_options(source_options(job)).starting
