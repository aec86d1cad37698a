"""A lake: the tables that one pipeline fills, and the mark, up to which all of them hold its topics.

The mark is a small Delta table without rows (`_penstock/mark`), whose transactions hold the end of each
source partition. A batch is committed to the tables that it has rows for; then the mark moves. So for a batch
[start, end): the mark is at `start` and a table at or before it → commit; the table is at `end` → it has the
batch already; anything else is an error. A crash leaves the mark behind some tables, never ahead of one.
A pipeline into one table needs no mark: that table's own end moves with every batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from penstock import points
from penstock.errors import MarkMissing, PipelineFailed

from ..history import Past
from ..offsets import Ends, Range
from .commit import AppendFiles, TablePart, check_part, check_seen, commit, discard
from .contract import Table, pasts_of
from .delta.table import LakeTable
from .identity import ByOffsets, Source, check_name, source_of
from .kinds import table_at
from .paths import CONTROL, is_table, tables_in
from .state import remember
from .storage import Location

BEFORE_MARK = points.declare(
    "pipeline.before_mark", "All tables of a lake hold the batch; the lake's mark has not moved."
)
AFTER_MARK = points.declare(
    "pipeline.after_mark", "The lake's mark has moved; Spark's checkpoint does not know the batch yet."
)
_MARK = "mark"
_TRIES = 20
_SCHEMA = pa.schema([("nothing", pa.string())])  # a Delta table has at least one column
# Only the last entry counts; without this there would be one for each batch of a month.
_CONFIGURATION = {"delta.logRetentionDuration": "interval 1 hours"}


class Lake:
    """The tables at a path at one moment; also for a pipeline into one table."""

    def __init__(self, root: Location) -> None:
        self.root = root
        self._mark = root / CONTROL / _MARK

    @cached_property
    def tables(self) -> list[Table]:
        """The tables, by name."""
        return [table_at(each) for each in tables_in(self.root)]

    def check_mark(self) -> None:
        """Refuse a lake whose mark is missing. Raises MarkMissing."""
        if self.has_lost_mark():
            raise MarkMissing(str(self.root))

    def has_lost_mark(self) -> bool:
        """Return whether tables are, or the one here is, of a lake whose mark is missing."""
        return not self.has_mark() and any(table.is_of_lake() for table in self.tables)

    def has_mark(self) -> bool:
        """Return whether the lake has a mark."""
        return is_table(self._mark) and not is_table(self.root)

    def sources(self) -> list[Source]:
        """Return the topics that feed the lake."""
        if self.has_mark():
            return LakeTable(self._mark).sources()
        return list({source: None for table in self.tables for source in table.sources()})

    def fed_by(self, source: Source) -> list[Table]:
        """Return the tables that a topic has fed."""
        return [table for table in self.tables if table.is_fed_by(source)]

    def ends(self, source: Source) -> Ends:
        """Return up to where all tables hold a topic."""
        if self.has_mark():
            return LakeTable(self._mark).ends(source)
        ends = [table.ends(source) for table in self.fed_by(source)]
        return {p: min(each.get(p, 0) for each in ends) for p in (ends[0] if ends else ())}

    def pasts(self, topic: str) -> list[Past]:
        """Return what the mark, and tables ahead of it by an interrupted batch, know of the logs of a topic."""
        if not self.has_mark():
            return [past for table in self.tables for past in pasts_of(table, topic)]
        marked = pasts_of(LakeTable(self._mark), topic)
        ahead = (_ahead(past, table) for past in marked for table in self.tables)
        return marked + [past for past in ahead if past is not None]

    def commit(self, parts: Sequence[TablePart], identity: ByOffsets, committing: AppendFiles) -> None:
        """Commit a batch to the tables that it has rows for, then move the mark, unless it is there already.

        Raises AnotherLog, RangesDiffer, TableDiffers, FilesUnseen, MarkMissing.
        """
        if identity.is_nothing():
            return
        mark = self._marked(identity)
        if identity.is_in(mark):
            discard(each for part in parts for each in part.files)
            return
        for part in parts:
            check_seen(part)  # for all tables, before the first gets the batch
            check_part(part, committing)
        for part in parts:
            commit(part, replace(identity, of_lake=True), committing)
        # Before the mark: a batch that is there already is skipped as a whole.
        remember(self.root, (part.path.name for part in parts))
        points.reach(BEFORE_MARK)
        self._move(mark, identity)
        points.reach(AFTER_MARK)

    def cut_back(self, source: Source, cuts: Ends, marks: dict[int, int]) -> None:
        """Move the mark back to other positions; do nothing for a lake without one."""
        if self.has_mark():
            LakeTable(self._mark).declare(source, cuts, marks)

    def _marked(self, identity: ByOffsets) -> LakeTable:
        """Return the mark, made if missing. It knows a topic before the lake's first commit to a table.

        Raises AnotherLog for a topic if another one of the same name has fed the lake.
        """
        self.check_mark()
        mark = LakeTable.opened(self._mark, _SCHEMA, _CONFIGURATION)
        new = [each for each in identity.ranges if each.pieces() and not mark.is_fed_by(source_of(each))]
        for source in map(source_of, new):  # before the mark records any of them
            for table in (mark, *(each for each in self.tables if not each.is_fed_by(source))):
                check_name(f"lake {self.root}", str(self.root), table, source, identity.sources())
        for batch in new:
            source = source_of(batch)
            mark.declare(source, *_begun(batch, source, self.fed_by(source)))
            mark = LakeTable(self._mark)
        return mark

    def _move(self, mark: LakeTable, identity: ByOffsets) -> None:
        for _ in range(_TRIES):
            if identity.is_in(mark):
                return
            with suppress(CommitFailedError):
                mark.replace((), (), identity)
                return
            mark = LakeTable(self._mark)
        raise PipelineFailed(f"the mark of lake {self.root} was changed by others {_TRIES} times")


def _begun(batch: Range, source: Source, tables: Sequence[Table]) -> tuple[Ends, dict[int, int]]:
    """Return the mark's start for a topic new to it: where tables filled alone end, or the batch begins."""
    ends = [table.ends(source) for table in tables] or [batch.starts]
    least = {p: min(each.get(p, 0) for each in ends) for p in batch.ends}
    pasts = [past for table in tables for past in pasts_of(table, batch.topic)]
    mine = [past for past in pasts if (past.log_id, past.topic_id) == (batch.log_id, batch.topic_id)]
    return least, {p: mark for past in mine for p, mark in past.marks.items() if past.ends[p] == least.get(p)}


def _ahead(marked: Past, table: Table) -> Past | None:
    for past in pasts_of(table, marked.topic):
        if (past.log_id, past.topic_id) == (marked.log_id, marked.topic_id):
            beyond = {p: end for p, end in past.ends.items() if end > marked.ends.get(p, 0)}
            marks = {p: mark for p, mark in past.marks.items() if p in beyond}
            return replace(past, ends=dict(marked.ends) | beyond, marks=marks) if beyond else None
    return None
