"""Rows of erased records that a batch would bring into a table, because it was read before the erasing.

`pipeline erase` first notes the erased places that the tables do not hold yet (`lake_state.py`), then commits
to each table. A commit of a batch looks at the table, then for the note; if it has looked too early, the
format refuses it, since the table was committed to, and it looks again (`committing.py`). So a batch is in
the table when its rows are erased, or it leaves them out itself.

A note is for the one batch that begins where the tables ended then: batches follow one another, and a later
one was read when the log had lost the records. So a note never meets other records, as after a restored
backup; nor does it meet those of another incarnation.
"""

from collections.abc import Iterator, Mapping, Sequence

from penstock.errors import MissingExtra

from .contract import DataFile
from .identity import BatchIdentity, ByOffsets, Source
from .lake_state import ErasedPlaces, erased_places
from .offsets import Ends, Piece, Range
from .places import PLACE, Places
from .rewriting import Goes, cleaned
from .storage import Location

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


def places_ahead(source: Source, erased: Places, ends: Ends) -> ErasedPlaces:
    """Return which of some erased places of a topic come after the ends of its tables.

    No ends: no table has anything of the topic, and its first batch may begin anywhere.
    """
    ahead = [
        Piece(p, max(start, ends.get(p, 0)), end) for p, start, end in erased.runs() if end > ends.get(p, 0)
    ]
    begins = {piece.partition: ends.get(piece.partition, 0) for piece in ahead} if ends else {}
    return ErasedPlaces(source.log_id, source.topic_id, source.incarnation, begins, tuple(ahead))


def left_out(table: Location, files: Sequence[DataFile], identity: BatchIdentity) -> tuple[DataFile, ...]:
    """Return the files of a batch without rows that are noted as erased; those that had some are gone."""
    noted = erased_places(table)
    if not noted or not isinstance(identity, ByOffsets):
        return tuple(files)
    gone = {batch.topic: _of_batch(batch, noted) for batch in identity.ranges}
    gone = {topic: places for topic, places in gone.items() if places.rows}
    if not gone:
        return tuple(files)
    several = len(identity.ranges) > 1
    return tuple(kept for each in files for kept in cleaned(each, PLACE, goes_at(gone), several=several))


def _of_batch(batch: Range, noted: Sequence[ErasedPlaces]) -> Places:
    """Return which of the noted places a batch has."""
    found = Places()
    mine = [each for each in noted if (each.log_id, each.topic_id) == (batch.log_id, batch.topic_id)]
    for each in mine:
        if batch.incarnation not in (None, each.incarnation):
            continue
        for partition, start, end in each.places:
            begin = batch.starts.get(partition)
            if begin is None or begin != each.begins.get(partition, begin):
                continue
            offsets = np.arange(max(start, begin), min(end, batch.ends[partition]), dtype=np.int64)
            found.add(np.full(len(offsets), partition, np.int64), offsets)
    return found


def goes_at(gone: Mapping[str, Places]) -> Goes:
    """Return what tells the rows at some places of topics; rows without a topic are of the only one."""

    def goes(rows: pa.RecordBatch) -> pa.Array:
        masks = list(_masks(rows, gone))
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.or_(mask, other)
        return mask

    return goes


def _masks(rows: pa.RecordBatch, gone: Mapping[str, Places]) -> Iterator[pa.Array]:
    where = [pc.fill_null(rows.column(name), -1).cast(pa.int64()) for name in PLACE]
    partitions, offsets = (each.to_numpy(zero_copy_only=False) for each in where)
    for topic, places in gone.items():
        there = pa.array(places.has(partitions, offsets))
        named = "topic" in rows.schema.names
        yield pc.and_(there, pc.fill_null(pc.equal(rows.column("topic"), topic), False)) if named else there
