"""Reading tables of upserts without their deleted rows, and removing old deleted rows."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import SYSTEM
from penstock.errors import InvalidOption

from ..kinds import table_at
from ..rewriting import without
from ..storage import Location
from . import BUCKET, DELETED

_HOUR_MS = 3_600_000
_COLUMNS = {DELETED, BUCKET, "timestamp"}


def live_rows(path: Location) -> pa.Table:
    """Return the latest row of each key that is not deleted."""
    table = table_at(path)
    schema = table.arrow_schema()
    rows = pa.Table.from_batches(table.batches(schema.names), schema)
    return rows.filter(pc.invert(rows.column(DELETED))).drop([DELETED, BUCKET])


def has_deleted(path: Location) -> bool:
    """Return whether a table has upserts with the times of deletions."""
    return table_at(path).has_columns(sorted(_COLUMNS))


def forget_deleted(path: Location, *, older_than_hours: int = 168, dry_run: bool = False) -> int:
    """Remove the rows of keys that were deleted before an age; return how many. A dry run only counts them.

    No older record can come again: a batch must begin where the table ends, and these rows are before that.
    The age is a margin for readers that follow the table. If a stream commits at the same time, one of the
    two is refused and retried. Raises InvalidOption, CommitFailedError.
    """
    table = table_at(path)
    if not has_deleted(path):
        raise InvalidOption("path", str(path), "a table of upserts, with the columns deleted and timestamp")
    before_ms = SYSTEM.now_ms() - older_than_hours * _HOUR_MS
    before = pa.scalar(before_ms * 1000, pa.timestamp("us", "UTC"))

    def goes(rows: pa.RecordBatch) -> pa.Array:
        return pc.and_(rows.column(DELETED), pc.less(rows.column("timestamp"), before))

    done = without(table, [DELETED, "timestamp"], goes, dry_run=dry_run)
    try:
        if not dry_run:
            done.put(table)
    except BaseException:
        done.take_back(table)
        raise
    return done.rows
