"""The topics that feed a Delta table, and its ends, kept a second time in the table's properties.

Application transaction ids keep where a table ends, and the notes of each commit name its topics. Other engines may
remove both: by cleaning up the log, or by a checkpoint without these ids. A property lasts. It is written when the
topics change, and once a day: each change of a table's properties makes concurrent commits of others fail and retry. So
the ends in it lag behind, and where the ids are gone, the rows tell how far the table really came.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow as pa

from penstock.clock import SYSTEM
from penstock.errors import EndsLost

from ...offsets import PLACE
from ..contract import OF_LAKE, SOURCES, Table
from ..identity import Source, Transactions, application

logger = logging.getLogger("penstock.pipeline")
_ENDS = "penstock.ends"
_DAY_MS = 24 * 3_600_000


class _KeptEnds(msgspec.Struct, frozen=True):
    at_ms: int = 0
    ends: dict[str, int] = {}


def kept_ends(configuration: Mapping[str, str]) -> _KeptEnds:
    """Return where a table ended when its ends were last written, by application."""
    return msgspec.json.decode(configuration.get(_ENDS, "{}"), type=_KeptEnds)


def due_properties(table: Table, transactions: Transactions, notes: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to set with a commit of these transactions and notes; mostly none."""
    configuration, new = table.configuration(), msgspec.json.decode(notes[SOURCES], type=list[Source])
    if not new and SOURCES not in configuration:
        return {}
    sources = list({(each.log_id, each.topic_id): each for each in [*table.sources(), *new]}.values())
    said = {SOURCES: msgspec.json.encode(sources).decode()}
    said |= {OF_LAKE: notes[OF_LAKE]} if OF_LAKE in notes else {}
    moved, ends = dict(transactions), dict[str, int]()
    for name in (application(each.log_id, each.topic_id, p) for each in sources for p in range(each.partitions)):
        end = moved[name] if name in moved else table.version_of(name)
        ends |= {} if end is None else {name: end}
    kept, now_ms = kept_ends(configuration), SYSTEM.now_ms()
    is_known = all(configuration.get(name) == each for name, each in said.items())
    is_fresh = now_ms - kept.at_ms < _DAY_MS and all(end >= kept.ends.get(name, 0) for name, end in ends.items())
    if is_known and is_fresh:
        return {}
    return said | {_ENDS: msgspec.json.encode(_KeptEnds(now_ms, ends)).decode()}


def found_again(table: Table, said: Callable[[str], int | None]) -> dict[str, int]:
    """Return where a table ends, by application, for ids that other engines have removed.

    Rows with a position tell it: the records after them gave no rows, and give none again. Raises EndsLost.
    """
    kept = kept_ends(table.configuration()).ends
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
    names = [*PLACE, "topic"] if len(sources) > 1 else [*PLACE]
    by_topic = {each.topic: each for each in sources}
    if not table.has_columns(names) or len(by_topic) < len(sources):
        if table.is_of_lake():
            return {}  # the lake's mark keeps it
        raise EndsLost(table.path)
    found = dict[str, int]()
    for batch in table.batches(names):
        keys = [name for name in names if name != "offset"]
        for row in pa.Table.from_batches([batch]).group_by(keys).aggregate([("offset", "max")]).to_pylist():
            source = by_topic.get(row.get("topic", sources[0].topic))
            if source is not None and None not in row.values():
                name = application(source.log_id, source.topic_id, row["partition"])
                found[name] = max(found.get(name, 0), row["offset_max"] + 1)
    return found
