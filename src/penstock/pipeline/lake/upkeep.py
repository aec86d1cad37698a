"""Upkeep of tables beside the stream: joins small files, and removes unneeded files and deleted rows.

Never in the path of a batch. A compaction is a commit of its own: it moves rows between files, adds and removes none,
and carries no application transaction, so the identities of batches stay. When it conflicts with a batch, one of the
two is repeated: a batch reads the table again, and a compaction that lost the race is abandoned and retried later.

Files are joined in steps (small ones into medium ones, those into large ones), so that a row is rewritten a
few times in its life and not with each compaction.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import SYSTEM

from ..settings import PipelineSettings
from .contract import until_committed
from .data_files import without
from .kinds import table_at
from .paths import tables_in
from .routing import BUCKET, DELETED
from .storage import Location, asking, asks_storage, storage_of
from .tables import existing_tables

_HOUR_MS = 3_600_000


def forget_deleted(path: Location, *, older_than_hours: int = 168, dry_run: bool = False) -> int:
    """Remove the rows of keys that were deleted before an age; return how many. A dry run only counts them.

    No older record can come again: a batch must begin where the table ends, and these rows are before that. The age is
    a margin for readers that follow the table. A table without deletions and times stays. Raises CommitFailedError.
    """
    table = table_at(path)
    if not table.has_columns((DELETED, BUCKET, "timestamp")):
        return 0
    before = pa.scalar((SYSTEM.now_ms() - older_than_hours * _HOUR_MS) * 1000, pa.timestamp("us", "UTC"))

    def goes(rows: pa.RecordBatch) -> pa.Array:
        return pc.and_(rows.column(DELETED), pc.less(rows.column("timestamp"), before))

    done = without(table, [DELETED, "timestamp"], goes, dry_run=dry_run)
    if done.removed and not dry_run:
        with done.committing(table):
            table.replace(done.added, done.removed)
    return done.rows


logger = logging.getLogger("penstock.pipeline")
_STEPS = (1 << 20, 16 << 20)  # bytes, below the final size
_TRIES = 5
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """Files of a table that were joined, or would be; `forgotten`: rows of deleted keys removed before."""

    table: str
    files: int
    into: int
    forgotten: int = 0


@asks_storage
def optimize(
    path: Location, *, file_bytes: int, forget_hours: int | None = None, dry_run: bool = False
) -> list[JoinedFiles]:
    """Join the files of each table that are smaller than a size. Raises CommitFailedError.

    With `forget_hours`, first removes from tables of upserts the rows of keys deleted before that age.
    """
    done = []
    for each in existing_tables(path):
        forgotten = 0
        if forget_hours is not None:
            forget = partial(forget_deleted, each, older_than_hours=forget_hours, dry_run=dry_run)
            forgotten = until_committed(forget, _TRIES)
        joined = JoinedFiles(each.name, 0, 0)
        small = [file.size for file in table_at(each).files() if file.size < file_bytes]
        if len(small) > 1:
            into = -(-sum(small) // file_bytes)
            joined = JoinedFiles(each.name, len(small), into) if dry_run else join(each, file_bytes)
        done.append(replace(joined, forgotten=forgotten))
    return [each for each in done if each.files or each.forgotten]


def join(path: Location, file_bytes: int) -> JoinedFiles:
    """Join the files of a table that are smaller than a size. Raises CommitFailedError."""
    return JoinedFiles(path.name, *until_committed(lambda: table_at(path).compact(file_bytes), _TRIES))


def due(sizes: list[int], *, at_least: int, file_bytes: int) -> int | None:
    """Return the size up to which files should be joined: the first step with enough files, if any."""
    for step in (*(step for step in _STEPS if step < file_bytes), file_bytes):
        if sum(size < step for size in sizes) >= at_least:
            return step
    return None


class LakeUpkeep:
    """The thread that maintains the tables of one pipeline while it runs. It never stops the pipeline."""

    def __init__(self, path: Location, settings: PipelineSettings | None = None) -> None:
        self._path = path
        self._settings = settings or PipelineSettings.load()
        self._asked = Event()
        self._thread: Thread | None = None
        self._vacuumed = SYSTEM.monotonic()

    def start(self) -> None:
        """Start the thread, if the settings ask for upkeep."""
        if self._thread is None and (self._settings.compact_files or self._settings.vacuum_hours):
            self._thread = Thread(target=self._run, name="penstock-upkeep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread; wait for a compaction in progress."""
        self._asked.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def look(self) -> list[JoinedFiles]:
        """Join the files that are due; log failures and leave them for the next time, without raising."""
        done: list[JoinedFiles] = []
        for each in self._tables() if self._settings.compact_files else []:
            with _said(f"table {each.name}", each), asking(each):
                sizes = [file.size for file in table_at(each).files()]
                size = due(sizes, at_least=self._settings.compact_files, file_bytes=self._settings.file_bytes)
                if size is not None:
                    done.append(join(each, size))
        return done

    def _tables(self) -> list[Location]:
        found: list[Location] = []
        with _said(f"lake {self._path}", self._path), asking(self._path):
            found = tables_in(self._path)
        return found

    def _run(self) -> None:
        while not self._asked.wait(self._settings.upkeep_seconds):
            with _said(f"lake {self._path}", self._path):
                self.look()
                self._vacuum(self._settings.vacuum_hours)

    def _vacuum(self, hours: int) -> None:
        if hours and SYSTEM.monotonic() - self._vacuumed > _HOUR_SECONDS:
            self._vacuumed = SYSTEM.monotonic()
            for each in self._tables():
                with _said(f"table {each.name}", each, "vacuum"), asking(each):
                    table_at(each).vacuum(hours, dry_run=False)


@contextmanager
def _said(what: str, path: Location, remedy: str = "optimize") -> Iterator[None]:
    """Log any error and go on: the next look tries again, and the pipeline does not wait."""
    try:
        yield
    except Exception as exc:
        why, command = storage_of(path).public_text(exc), f"penstock pipeline {remedy} {path}"
        logger.warning("upkeep of %s is put off: %s; the next look tries again, or do it now: %s", what, why, command)
