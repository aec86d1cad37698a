"""Do the numbers agree? The log with itself, the groups and tables with the log, the log with the user's own.

Each figure is counted where the thing is: `logged` are rows of the log, held against the offsets that were
given and against distinct ids; `delivered` is what a group has passed, less what waits and what is dead;
`table` are distinct places in the rows of tables, handed in as values; `committed` is the user's own table,
only if asked. The log's ends are read first, and nothing after them counts. What retention has deleted lies
before the start and is no fault; `erased` are records that kept their offset and lost their content.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.errors import UnknownTopic
from penstock.log.contract import Bounds, Topic
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.log import SqlLog

_SHOWN = 10


class Gap(NamedTuple):
    """Offsets of a partition that should be there and are not: from `start` to before `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TableFigures:
    """What tables hold of a topic, as runs of places without gaps; `rows` above their number are doubled."""

    name: str
    rows: int
    held: Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, and what is wrong with it: nothing, if it agrees with the log. `notes` are no faults."""

    name: str
    count: int
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """All figures of a topic. They agree when none has a fault."""

    topic: str
    figures: list[Figure]

    @property
    def agrees(self) -> bool:
        """Whether nothing is missing, doubled or too much anywhere."""
        return not any(figure.faults for figure in self.figures)

    def line(self) -> str:
        """Return the one line that says it: `reconciled: committed=N logged=N delivered=N table=N`."""
        word = "reconciled" if self.agrees else "NOT reconciled"
        return f"{word}: {' '.join(f'{figure.name}={figure.count}' for figure in self.figures)}"


def reconcile(
    database: Database,
    topic: str,
    *,
    groups: Sequence[str] | None = None,
    tables: Sequence[TableFigures] = (),
    against: str | None = None,
    by: str = "id",
) -> Reconciliation:
    """Compare what there is to compare. `groups` None: all that read the topic.

    `against` is a SELECT of the user's, run on the same database, whose first column is the record's id, or
    its key if `by` says so. Raises UnknownTopic.
    """
    found = SqlLog(database).topic(topic)
    bounds = database.look(lambda tx: _bounds(tx, found))
    erased = _erased(database, found, bounds)
    figures = [] if against is None else [_committed(database, found, bounds, erased, against, by)]
    figures.append(_logged(database, found, bounds))
    figures += _delivered(database, found, bounds, groups)
    figures += [_table(each, bounds, erased) for each in tables]
    if erased:
        runs = [Gap(*run) for run in _runs(erased)]
        figures.append(Figure("erased", len(erased), notes=_said("is erased", runs)))
    return Reconciliation(topic, figures)


def gaps(held: Iterable[tuple[int, int, int]], bounds: dict[int, Bounds]) -> list[Gap]:
    """Return what lies within bounds and is not held."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for partition, start, end in sorted(held):
        runs.setdefault(partition, []).append((start, end))
    found = []
    for partition, (place, limit) in sorted(bounds.items()):
        for start, end in runs.get(partition, []):
            if place < min(start, limit):
                found.append(Gap(partition, place, min(start, limit)))
            place = max(place, end)
        if place < limit:
            found.append(Gap(partition, place, limit))
    return found


def _rows(database: Database, name: str, **params: int) -> list[Row]:
    return database.look(lambda tx: tx.rows("operate", name, **params))


def _bounds(tx: Transaction, topic: Topic) -> dict[int, Bounds]:
    rows = tx.rows("operate", "heads_of_topic", topic_id=topic.id)
    if not rows:
        raise UnknownTopic(topic.name)
    return {partition: Bounds(start, end) for partition, start, end in rows}


def _erased(database: Database, topic: Topic, bounds: dict[int, Bounds]) -> dict[tuple[int, int], str]:
    """Return the places and ids of the erased records."""
    found: dict[tuple[int, int], str] = {}
    for partition, (start, end) in bounds.items():
        if start < end:
            where = {"topic_id": topic.id, "partition": partition, "start": start, "end": end}
            rows = _rows(database, "erased_offsets", **where)
            found |= {(partition, offset): id for offset, id in rows}
    return found


def _runs(places: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return places as runs without gaps."""
    runs: list[tuple[int, int, int]] = []
    for partition, offset in sorted(places):
        if runs and runs[-1][0] == partition and runs[-1][2] == offset:
            runs[-1] = (partition, runs[-1][1], offset + 1)
        else:
            runs.append((partition, offset, offset + 1))
    return runs


def _logged(database: Database, topic: Topic, bounds: dict[int, Bounds]) -> Figure:
    """Count the rows; look for the gaps only in a partition whose number is wrong."""
    total = distinct = 0
    missing: list[Gap] = []
    for partition in sorted(bounds):
        start, end = bounds[partition]
        if start == end:
            continue
        where = {"topic_id": topic.id, "partition": partition, "start": start, "end": end}
        rows, ids, first, last = _rows(database, "rows_counted", **where)[0]
        if rows != end - start:  # retention may have deleted some since the bounds were read
            start = database.look(lambda tx: _bounds(tx, topic))[partition].start
            bounds[partition] = Bounds(min(start, end), end)
            where["start"] = start
            rows, ids, first, last = _rows(database, "rows_counted", **where)[0]
        total, distinct = total + rows, distinct + ids
        if rows < end - start:
            holes = _rows(database, "gaps", **where)
            inner = [Gap(partition, at + 1, after) for at, after in holes]
            edges = (start, end, end) if first is None else (start, first, last + 1)
            found = [Gap(partition, *edges[:2]), *inner, Gap(partition, edges[2], end)]
            missing += [gap for gap in found if gap.start < gap.end]
    faults = _said("is not in the log", missing)
    if distinct != total:
        faults.append(f"{total - distinct} records have the id of another")
    return Figure("logged", total, faults)


def _delivered(
    database: Database, topic: Topic, bounds: dict[int, Bounds], groups: Sequence[str] | None
) -> list[Figure]:
    wanted = sum(end - start for start, end in bounds.values())
    reading = _rows(database, "groups_on_topic", topic_id=topic.id)
    figures = []
    for group_id, name in reading:
        if groups is not None and name not in groups:
            continue
        count = held = dead = kept = 0  # kept: of both, what lies before the start of the log
        where = {"group_id": group_id, "topic_id": topic.id}
        for row in _rows(database, "cursors_of_group", **where):
            partition, offset, passed, waits, died, before = row
            start, end = bounds.get(partition, Bounds(0, 0))
            count += max(0, min(offset + _ones(passed), end) - start)
            held, dead, kept = held + waits, dead + died, kept + before
        done = count - (held + dead - kept)
        faults = [f"{held} wait in lanes"] * bool(held) + [f"{dead} are dead letters"] * bool(dead)
        if wanted - count:
            faults.append(f"{wanted - count} are not delivered yet")
        figures.append(Figure(f"delivered[{name}]", done, faults))
    missing = [name for name in groups or () if name not in {name for _, name in reading}]
    return figures + [Figure(f"delivered[{name}]", 0, ["no such group reads this topic"]) for name in missing]


def _ones(bitmap: str) -> int:
    """Return how many offsets from the cursor on are passed, too."""
    return int(bitmap or "0", 16).bit_count()


def _table(table: TableFigures, bounds: dict[int, Bounds], erased: Iterable[tuple[int, int]]) -> Figure:
    within = [(p, start, end) for p, start, end in table.held if p in bounds]
    distinct = sum(end - start for _, start, end in table.held)
    faults = _said("is not in the tables", gaps([*within, *_runs(erased)], bounds))
    if table.rows != distinct:
        faults.append(f"{table.rows - distinct} rows are doubled")
    beyond = [Gap(p, max(start, bounds[p].end), end) for p, start, end in within if end > bounds[p].end]
    return Figure(table.name, distinct, faults + _said("is in the tables and not in the log", beyond))


def _committed(
    database: Database,
    topic: Topic,
    bounds: dict[int, Bounds],
    erased: dict[tuple[int, int], str],
    against: str,
    by: str,
) -> Figure:
    rows = database.look(lambda tx: database.dialect.execute(tx.conn, against, {}).rows)
    theirs = Counter(str(row[0]) for row in rows)
    ours: Counter[str] = Counter()
    for partition, (start, end) in bounds.items():
        where = {"topic_id": topic.id, "partition": partition, "start": start, "end": end}
        for id, key in _rows(database, "ids_logged", **where):
            ours[id if by == "id" else (key or b"").decode("utf-8", "replace")] += 1
    known = ours + Counter(erased.values()) if by == "id" else ours  # what was erased may be there or not
    faults = _named("has no record in the log", sorted((theirs - known).elements()))
    faults += _named("is in the log and not there", sorted((ours - theirs).elements()))
    deleted = sum(start for start, _ in bounds.values())
    if deleted and theirs - known:
        faults.append(f"retention has deleted {deleted} records: select only what the log still keeps")
    return Figure("committed", theirs.total(), faults)


def _said(what: str, found: list[Gap]) -> list[str]:
    lines = [f"partition {gap.partition}, {gap.start} to before {gap.end}, {what}" for gap in found[:_SHOWN]]
    return lines + [f"and {len(found) - _SHOWN} ranges more"] * (len(found) > _SHOWN)


def _named(what: str, found: list[str]) -> list[str]:
    more = [f"and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)
    return [f"{name} {what}" for name in found[:_SHOWN]] + more
