"""Keeps rows of erased records out of a table when their batch was read before the erasure.

`pipeline erase` first records the erased positions that the tables do not hold yet (`state.py`), then commits
to each table. The commit of a batch reads the table, then the note; if it read the note too early, the format
refuses it, since another commit came, and it reads both again (`commit.py`). So either a batch
is in the table when its rows are erased, or it leaves them out itself.

A note applies to the one batch that begins where the tables ended then: later ones are read after the log has lost the
records. So a note never hits other records, as after a restored backup, nor those of another incarnation.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..offsets import PLACE, Ends, Piece, Places, Range, numbers_in
from .contract import DataFile
from .data_files import Goes, cleaned
from .identity import BatchIdentity, ByOffsets, Source
from .state import ErasedPlaces, erased_places
from .storage import Location


def places_ahead(source: Source, erased: Places, ends: Ends) -> ErasedPlaces:
    """Return the erased positions after the ends of the tables; without ends, the first batch may begin anywhere."""
    ahead = [Piece(p, max(start, ends.get(p, 0)), end) for p, start, end in erased.runs() if end > ends.get(p, 0)]
    begins = {piece.partition: ends.get(piece.partition, 0) for piece in ahead} if ends else {}
    return ErasedPlaces(source.log_id, source.topic_id, source.incarnation, begins, tuple(ahead))


def left_out(table: Location, files: Sequence[DataFile], identity: BatchIdentity) -> tuple[DataFile, ...]:
    """Return the files of a batch, rewritten without erased rows; the files that had some are removed."""
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
    """Return a function that finds the rows at some positions; rows without a topic are of the only one."""

    def goes(rows: pa.RecordBatch) -> pa.Array:
        found, where = np.zeros(rows.num_rows, np.bool_), numbers_in(rows)
        for topic, places in gone.items():
            there = places.has(*where)
            if "topic" in rows.schema.names:
                there &= pc.equal(rows.column("topic"), topic).fill_null(False).to_numpy(zero_copy_only=False)
            found |= there
        return pa.array(found)

    return goes
