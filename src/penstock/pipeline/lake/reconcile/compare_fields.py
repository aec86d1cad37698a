"""Compares the fields of typed rows to the values in the log, some rows at a time, with their records."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from penstock.log.contract import Log, Position, Topic
from penstock.model.limits import ERASED

from ...offsets import Piece
from ...places import PLACE
from ..contract import Table
from .compare import Compared
from .field_values import agrees
from .record_columns import field_names

_ROWS = 128  # rows whose values are in memory at a time


def changed_fields(compared: Compared, at_most: int) -> list[Piece]:
    """Return positions of typed rows whose fields differ from the log, up to a number.

    Raises TableDamaged.
    """
    found = list[Piece]()
    for table in compared.tables:
        for rows in _rows(table, compared):
            found += _differing(compared.log, compared.topic, rows)
            if len(found) >= at_most:
                return found[:at_most]
    return found


def _differing(log: Log, topic: Topic, rows: Mapping[Position, Mapping[str, Any]]) -> Iterator[Piece]:
    for entry in log.at(topic, rows.keys()):
        fields = rows[Position(entry.partition, entry.offset)]
        if entry.type != ERASED and entry.value is not None and not agrees(entry.value, fields):
            yield Piece(entry.partition, entry.offset, entry.offset + 1)


def _rows(table: Table, compared: Compared) -> Iterator[dict[Position, dict[str, Any]]]:
    """Yield the fields of the topic's rows by their positions, some rows at a time."""
    names = field_names(table)
    for batch in table.batches(["topic", *PLACE, *names], _ROWS) if names else ():
        mine = batch.filter(pc.equal(batch.column("topic"), compared.topic.name))
        rows = zip(*(mine.column(name).to_pylist() for name in (*PLACE, *names)), strict=True)
        found = {
            Position(partition, offset): dict(zip(names, fields, strict=True))
            for partition, offset, *fields in rows
            if _is_within(compared, partition, offset)
        }
        if found:
            yield found


def _is_within(compared: Compared, partition: int | None, offset: int | None) -> bool:
    if partition is None or offset is None or partition not in compared.within:
        return False
    start, end = compared.within[partition]
    return start <= offset < end
