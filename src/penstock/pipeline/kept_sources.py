"""What feeds a Delta table, kept in its properties, too: which topics, and up to where when that was written.

Where a table ends is said by its application transaction ids, and what feeds it by what each commit says
beside its rows. Others may take both away: a log is cleaned up, a checkpoint is written without these ids. A
property lasts. It is written when it changes, and once a day: each time a table's properties change, whatever
others do to it at that moment must be done again. So the ends in it lag behind, and where the ids are gone,
the rows say how far the table really came.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.clock import SYSTEM
from penstock.errors import EndsLost, MissingExtra

from .contract import OF_LAKE, SOURCES, Table
from .identity import Source, Transactions, application
from .places import PLACE

try:
    import pyarrow as pa
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc

logger = logging.getLogger("penstock.pipeline")
_ENDS = "penstock.ends"
_DAY_MS = 24 * 3_600_000


class _KeptEnds(msgspec.Struct, frozen=True):
    at_ms: int = 0
    ends: dict[str, int] = {}


def kept_ends(configuration: Mapping[str, str]) -> dict[str, int]:
    """Return where a table ended when that was last kept, by application."""
    return _ends(configuration).ends


def _ends(configuration: Mapping[str, str]) -> _KeptEnds:
    return msgspec.json.decode(configuration.get(_ENDS, "{}"), type=_KeptEnds)


def due_properties(table: Table, transactions: Transactions, notes: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a table should get with a commit that says this; mostly none."""
    configuration, new = table.configuration(), _sources(notes[SOURCES])
    if not new and SOURCES not in configuration:
        return {}
    sources = list({(each.log_id, each.topic_id): each for each in [*table.sources(), *new]}.values())
    said = {SOURCES: msgspec.json.encode(sources).decode()}
    said |= {OF_LAKE: notes[OF_LAKE]} if OF_LAKE in notes else {}
    moved, ends = dict(transactions), dict[str, int]()
    for name in (
        application(each.log_id, each.topic_id, p) for each in sources for p in range(each.partitions)
    ):
        end = moved[name] if name in moved else table.version_of(name)
        ends |= {} if end is None else {name: end}
    kept, now_ms = _ends(configuration), SYSTEM.now_ms()
    is_known = all(configuration.get(name) == each for name, each in said.items())
    is_fresh = now_ms - kept.at_ms < _DAY_MS and all(
        end >= kept.ends.get(name, 0) for name, end in ends.items()
    )
    if is_known and is_fresh:
        return {}
    return said | {_ENDS: msgspec.json.encode(_KeptEnds(now_ms, ends)).decode()}


def found_again(table: Table, said: Callable[[str], int | None]) -> dict[str, int]:
    """Return where a table ends, by application, as far as others have taken away that it says so.

    Rows with a place tell it: what came after them had no rows, and has none again. Raises EndsLost.
    """
    kept = kept_ends(table.configuration())
    lost = [name for name in kept if said(name) is None]
    if not lost:
        return {}
    rows = _ends_of_rows(table, table.sources())
    found = {name: max(kept[name], rows.get(name, 0)) for name in lost}
    logger.warning(
        "table %s: another engine has dropped its application transactions; its rows say where it ends: %s",
        table.path,
        ", ".join(f"{name} {end}" for name, end in sorted(found.items())),
    )
    return found


def _ends_of_rows(table: Table, sources: Sequence[Source]) -> dict[str, int]:
    several = len(sources) > 1
    names = [*PLACE, *(["topic"] if several else [])]
    by_topic = {each.topic: each for each in sources}
    if not table.has_columns(names) or len(by_topic) < len(sources):
        if table.is_of_lake():
            return {}  # the mark of the lake says it
        raise EndsLost(table.path)
    found = dict[str, int]()
    for batch in table.batches(names):
        for row in _last(pa.Table.from_batches([batch]), names):
            source = by_topic.get(row.get("topic", sources[0].topic))
            if source is not None and None not in row.values():
                name = application(source.log_id, source.topic_id, row["partition"])
                found[name] = max(found.get(name, 0), row["offset_max"] + 1)
    return found


def _last(rows: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    keys = [name for name in names if name != "offset"]
    grouped: list[dict[str, Any]] = rows.group_by(keys).aggregate([("offset", "max")]).to_pylist()
    return grouped


def _sources(said: str) -> list[Source]:
    return msgspec.json.decode(said, type=list[Source])
