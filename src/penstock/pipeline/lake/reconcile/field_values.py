"""Compares the fields of typed rows to the JSON in the log, some rows at a time, without their class.

The types of the columns show how a field was read. Only certain differences count: a missing field may have a default,
and a NULL column be younger than the row, or its field removed; only the class tells whether a prefix `event_` is ours.
"""

import base64
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow.compute as pc

from penstock.log.contract import Position
from penstock.model.limits import ERASED

from ...offsets import PLACE, Piece
from ..contract import Table
from .compare import Compared, field_names

PREFIX = "event_"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def agrees(value: bytes, fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of a row, as Python values from Arrow, may come from a record's value."""
    there = {name: each for name, each in fields.items() if each is not None and not name.startswith(PREFIX)}
    if not there:
        return True
    try:
        said = json.loads(value, parse_float=Decimal)
    except (ValueError, RecursionError):
        return True  # Spark could read it, Python cannot
    return _is_object(said, there)


def _is(said: Any, found: Any) -> bool:
    try:
        return _fits(said, found)
    except (ValueError, OverflowError, InvalidOperation):
        return True  # a form that Spark reads and Python does not


def _fits(said: Any, found: Any) -> bool:
    match found:
        case bool():
            return said is found
        case int():
            return type(said) is int and said == found
        case float():
            return _is_number(said) and float(said) == found
        case Decimal():
            return (_is_number(said) or isinstance(said, str)) and Decimal(said) == found
        case str():
            return _is_text(said, found)
        case dt.datetime():
            moment = dt.datetime.fromisoformat(said.upper()) if isinstance(said, str) else None
            return moment is not None and ((moment.tzinfo is None) != (found.tzinfo is None) or moment == found)
        case dt.date():
            return isinstance(said, str) and dt.date.fromisoformat(said) == found
        case bytes():  # Base64, or the bytes of the text, as pydantic has them
            return isinstance(said, str) and (said.encode() == found or base64.b64decode(said) == found)
        case list():
            return _is_list(said, found)
        case dict():
            return _is_object(said, found)
    return True  # NULL


def _is_object(said: Any, found: Mapping[str, Any]) -> bool:
    return isinstance(said, dict) and all(_is(said[name], each) for name, each in found.items() if name in said)


def _is_text(said: Any, found: str) -> bool:
    """Compare a text, a UUID in another form, or the JSON text of a field with several types."""
    if said == found:
        return True
    if isinstance(said, str) and _UUID.fullmatch(found):
        return said.replace("-", "").lower() == found.replace("-", "")
    with suppress(ValueError):
        return _is_same(said, json.loads(found))
    return False


def _is_list(said: Any, found: Sequence[Any]) -> bool:
    """Compare an array, whose equal items may be one; or a map, which Arrow gives as pairs."""
    if isinstance(said, dict):
        named = {str(name): each for name, each in found}
        return named.keys() == said.keys() and all(_is(said[name], each) for name, each in named.items())
    if not isinstance(said, list):
        return False
    if len(said) == len(found) and all(map(_is, said, found)):
        return True
    if len(said) <= len(found):
        return False
    return all(any(_is(one, each) for each in found) for one in said) and all(
        any(_is(one, each) for one in said) for each in found
    )


def _is_same(said: Any, found: Any) -> bool:
    """Return whether two JSON values are equal; digits beyond those of a double do not count."""
    if _is_number(said) and _is_number(found):
        return float(said) == float(found)
    if isinstance(said, list) and isinstance(found, list):
        return len(said) == len(found) and all(map(_is_same, said, found))
    if isinstance(said, dict) and isinstance(found, dict):
        return said.keys() == found.keys() and all(_is_same(said[name], found[name]) for name in said)
    return type(said) is type(found) and bool(said == found)


def _is_number(said: Any) -> bool:
    return isinstance(said, int | float | Decimal) and not isinstance(said, bool)


_ROWS = 128  # rows whose values are in memory at a time


def changed_fields(compared: Compared, at_most: int) -> list[Piece]:
    """Return positions of typed rows whose fields differ from the log, up to a number. Raises TableDamaged."""
    found = list[Piece]()
    for table in compared.tables:
        for rows in _rows(table, compared):
            for entry in compared.log.at(compared.topic, rows.keys()):
                fields = rows[Position(entry.partition, entry.offset)]
                if entry.type != ERASED and entry.value is not None and not agrees(entry.value, fields):
                    found.append(Piece(entry.partition, entry.offset, entry.offset + 1))
            if len(found) >= at_most:
                return found[:at_most]
    return found


def _rows(table: Table, compared: Compared) -> Iterator[dict[Position, dict[str, Any]]]:
    names = field_names(table)
    for batch in table.batches(["topic", *PLACE, *names], _ROWS) if names else ():
        mine = batch.filter(pc.equal(batch.column("topic"), compared.topic.name))
        rows = zip(*(mine.column(name).to_pylist() for name in (*PLACE, *names)), strict=True)
        found = {
            Position(partition, offset): dict(zip(names, fields, strict=True))
            for partition, offset, *fields in rows
            if compared.covers(partition, offset)
        }
        if found:
            yield found
