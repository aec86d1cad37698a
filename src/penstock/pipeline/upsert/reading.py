"""Tables of upserts as they stand: the rows that count, and the end of those that say a key was deleted."""

from pathlib import Path

from penstock.clock import SYSTEM
from penstock.errors import InvalidOption, MissingExtra

from ..committing import discard
from ..table import DataFile, LakeTable
from ..writing import OpenFile
from . import BUCKET, DELETED

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from deltalake import DeltaTable
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

_ROWS = 1 << 13
_HOUR_MS = 3_600_000
_COLUMNS = {DELETED, BUCKET, "timestamp"}


def live_rows(path: Path) -> pa.Table:
    """Return the latest row of each key that was not deleted."""
    rows = DeltaTable(str(path)).to_pyarrow_table()
    return rows.filter(pc.invert(rows.column(DELETED))).drop([DELETED, BUCKET])


def has_deleted(path: Path) -> bool:
    """Return whether a table is one of upserts that says when keys were deleted."""
    return {field.name for field in DeltaTable(str(path)).schema().fields} >= _COLUMNS


def forget_deleted(path: Path, *, older_than_hours: int = 168, dry_run: bool = False) -> int:
    """Remove rows of keys that were deleted so long ago; return how many. A dry run only counts them.

    Nothing older can come again: a batch is taken only if it begins where the table ends, and these rows are
    before that. The age is a margin for readers that follow the table. Beside a stream, one of both is
    refused and made again. Raises InvalidOption, CommitFailedError.
    """
    table = LakeTable(path)
    if not has_deleted(path):
        raise InvalidOption("path", str(path), "a table of upserts, with the columns deleted and timestamp")
    before_ms = SYSTEM.now_ms() - older_than_hours * _HOUR_MS
    before = pa.scalar(before_ms * 1000, pa.timestamp("us", "UTC"))
    added, removed, count = list[tuple[dict[str, str | None], DataFile]](), list[str](), 0
    try:
        for bucket, files in table.files_by(BUCKET).items():
            for name in files:
                gone, made = _without(path, name, before, dry_run)
                if gone:
                    count += gone
                    removed.append(name)
                    added += [({BUCKET: bucket}, each) for each in made]
        if removed and not dry_run:
            schema = pa.schema(DeltaTable(str(path)).schema().to_arrow())
            table.replace(added, removed, schema, None, partition_by=[BUCKET])
    except BaseException:
        discard(file for _, file in added)
        raise
    return count


def _without(path: Path, name: str, before: pa.Scalar, dry_run: bool) -> tuple[int, list[DataFile]]:
    """Return how many rows of a file go, and the file that has the others; none if there are none."""
    with pq.ParquetFile(path / name) as source:
        old = source.read(columns=[DELETED, "timestamp"])
        goes = pc.and_(old.column(DELETED), pc.less(old.column("timestamp"), before))
        count = pc.sum(goes).as_py() or 0
        if dry_run or count in (0, old.num_rows):
            return count, []
        file = OpenFile(path, source.schema_arrow)
        try:
            for batch in source.iter_batches(_ROWS):
                goes = pc.and_(batch.column(DELETED), pc.less(batch.column("timestamp"), before))
                file.add(batch.filter(pc.invert(pc.fill_null(goes, False))))
            return count, [file.finish()]
        except BaseException:
            file.abandon()
            raise
