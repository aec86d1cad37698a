"""Reconciles the log with itself, with groups and lake tables, and with the user's own table.

Each figure is counted at its source. `logged`: records of the log, compared with the offsets given and with
distinct ids. `delivered`: records that a group has passed, without the waiting, dead and erased ones and
without those that none of its handlers wants, which are `passed_over`. `table`: distinct positions in the
rows of tables, passed in as values. `committed`: rows of the user's own table, only on request. The log's
ends are read first, and later records do not count. Records that retention deleted lie before the start and
are no fault; `erased` records kept their offset and lost their content.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal
from zlib import crc32

from penstock.database.contract import Row
from penstock.database.database import Database
from penstock.errors import Damaged, InvalidInput, StoreUnreachable, UnknownTopic
from penstock.log.contract import Bounds, Log, OffsetRange, Topic
from penstock.log.entry import Entry
from penstock.log.store import Store
from penstock.model.limits import ERASED

from .operation import operation
from .records import accounts, joined, walk

_SHOWN = 10
_IDS = 200_000  # ids of a partition remembered at a time, at most


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The records of a topic that tables hold, as runs of offsets; more `rows` than offsets are duplicates.

    `changed`: positions whose rows differ from the log. `faults`: other problems, in words. `superseded`:
    positions that may be absent, because the table holds a later record of the key. `notes` are not faults.
    """

    name: str
    rows: int
    held: Sequence[tuple[int, int, int]]
    changed: Sequence[tuple[int, int, int]] = ()
    faults: Sequence[str] = ()
    superseded: Sequence[tuple[int, int, int]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and its faults: none, if it agrees with the log. `notes` are not faults."""

    name: str
    count: int
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """All figures of a topic. They agree if none has a fault."""

    topic: str
    figures: list[Figure]

    @property
    def agrees(self) -> bool:
        """Whether no figure has missing, duplicate or surplus records."""
        return not any(figure.faults for figure in self.figures)

    def line(self) -> str:
        """Return the result as one line: `reconciled: committed=N logged=N delivered=N table=N`."""
        word = "reconciled" if self.agrees else "NOT reconciled"
        return f"{word}: {' '.join(f'{figure.name}={figure.count}' for figure in self.figures)}"


@operation
def reconcile(
    store: Store,
    topic: str,
    *,
    groups: Sequence[str] | None = None,
    tables: Sequence[TableFigures] = (),
    against: str | None = None,
    by: Literal["id", "key"] = "id",
    type: str | None = None,
) -> Reconciliation:
    """Reconcile a topic. `groups` None: all that read the topic.

    `against`: the user's SELECT, run on the same store, whose first column is the record's id, or its key
    with `by="key"`. `type`: compare it with the records of that type only, and count these separately. Raises
    UnknownTopic, LogMismatch, Damaged.
    """
    store.log.check_parts()
    found = store.log.topic(topic)
    bounds = store.log.all_bounds(found)
    if not bounds:
        raise UnknownTopic(topic)
    counted = _counted(store.log, found, bounds, names=against is not None, type=type)
    figures = []
    if against is not None:
        figures.append(_committed(store, counted, bounds, against, by))
    figures += _staged(store, found)
    faults = _ranges("is not in the log", counted.missing)
    faults += [f"{counted.doubled} records have the id of another record"] * bool(counted.doubled)
    figures.append(Figure("logged", counted.records, faults))
    if type is not None:
        figures.append(Figure(f"logged[{type}]", counted.of_type))
    excused = counted.erased.keys() | counted.void
    figures += _delivered(store, found, bounds, groups, excused)
    for each in tables:
        figures += _table(each, bounds, excused, counted.erased)
    for name, places, what in (("erased", counted.erased, "is erased"), ("void", counted.void, "holds no record")):
        if places:
            figures.append(Figure(name, len(places), notes=_ranges(what, _runs(places))))
    return Reconciliation(topic, figures)


def gaps(held: Iterable[tuple[int, int, int]], bounds: dict[int, Bounds]) -> list[OffsetRange]:
    """Return the offsets within bounds that are not held."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for partition, start, end in sorted(held):
        runs.setdefault(partition, []).append((start, end))
    found = []
    for partition, (place, limit) in sorted(bounds.items()):
        for start, end in runs.get(partition, []):
            if place < min(start, limit):
                found.append(OffsetRange(partition, place, min(start, limit)))
            place = max(place, end)
        if place < limit:
            found.append(OffsetRange(partition, place, limit))
    return found


@dataclass(slots=True)
class _Counted:
    """The counts of the log within bounds: records, duplicate ids, gaps, erased records and voids.

    `type`: count its records separately and collect names only of these; None: collect the names of all.
    """

    type: str | None = None
    records: int = 0
    of_type: int = 0
    doubled: int = 0
    missing: list[OffsetRange] = field(default_factory=list)
    erased: dict[tuple[int, int], str] = field(default_factory=dict)
    void: set[tuple[int, int]] = field(default_factory=set)  # given, but without a record for readers
    names: Counter[tuple[str, bytes | None]] = field(default_factory=Counter)  # id and key


def _counted(log: Log, topic: Topic, bounds: dict[int, Bounds], *, names: bool, type: str | None) -> _Counted:
    """Walk the log without values; raises the bounds where retention deletes meanwhile."""
    found = _Counted(type)
    for number in sorted(bounds):
        held = _count(log, topic, number, bounds[number], found, names=names)
        start, end = bounds[number]
        if sum(high - low for _, low, high in held) != end - start:
            start = min(log.all_bounds(topic).get(number, Bounds(end, end)).start, end)
            bounds[number] = Bounds(start, end)
        absent = gaps(held, {number: bounds[number]})
        if absent:
            voids = log.voids(topic, absent)
            found.void |= {(number, offset) for _, low, high in voids for offset in range(low, high)}
            absent = gaps([*held, *voids], {number: bounds[number]})
        found.missing += absent
        found.records += sum(high - max(low, start) for _, low, high in held if high > start)
    return found


def _count(
    log: Log, topic: Topic, number: int, bounds: Bounds, found: _Counted, *, names: bool
) -> list[tuple[int, int, int]]:
    """Count the records of a partition, with names only on request; return its offsets as runs.

    A partition with more ids than `_IDS` is walked once per share of them.
    """
    held = list[tuple[int, int, int]]()
    shares = _Shares(-(-(bounds.end - bounds.start) // _IDS))
    for entry in _entries(log, topic, number, bounds):
        found.doubled += shares.is_doubled(entry.id)
        if held and held[-1][2] == entry.offset:
            held[-1] = (number, held[-1][1], entry.offset + 1)
        else:
            held.append((number, entry.offset, entry.offset + 1))
        if entry.type == ERASED:
            found.erased[number, entry.offset] = entry.id
        elif found.type is None or (entry.type or "") == found.type:
            found.of_type += 1
            if names:
                found.names[entry.id, entry.key] += 1
    while shares.next():
        found.doubled += sum(shares.is_doubled(each.id) for each in _entries(log, topic, number, bounds))
    return held


class _Shares:
    """The ids met before, remembered for one share at a time; an id's hash determines its share."""

    def __init__(self, many: int) -> None:
        self._many, self._share, self._met = many, 0, set[str]()

    def is_doubled(self, id: str) -> bool:
        """Return whether an id of this share was met before."""
        if self._many > 1 and crc32(id.encode()) % self._many != self._share:
            return False
        if id in self._met:
            return True
        self._met.add(id)
        return False

    def next(self) -> bool:
        """Advance to the next share; return whether there is one."""
        self._share, self._met = self._share + 1, set()
        return self._share < self._many


def _entries(log: Log, topic: Topic, number: int, bounds: Bounds) -> Iterator[Entry]:
    """Yield the readable records; skips missing segments. Raises Damaged at other damage."""
    low, high = bounds
    while low < high:
        try:
            for entries in walk(log, topic, number, Bounds(low, high)):
                yield from entries
            return
        except Damaged as exc:
            if exc.until is None:
                raise
            low = exc.until


def _runs(places: Iterable[tuple[int, int]]) -> list[OffsetRange]:
    return joined(OffsetRange(partition, offset, offset + 1) for partition, offset in places)


def _delivered(
    store: Store,
    topic: Topic,
    bounds: dict[int, Bounds],
    groups: Sequence[str] | None,
    erased: Collection[tuple[int, int]],
) -> list[Figure]:
    figures, found = list[Figure](), accounts(store, topic, bounds, groups, erased)
    for each in found:
        faults = [f"{each.waiting} wait in lanes"] * bool(each.waiting)
        faults += [f"{each.dead} are dead letters"] * bool(each.dead)
        faults += [f"{each.unread} are not delivered yet"] * bool(each.unread)
        figures.append(Figure(f"delivered[{each.name}]", each.delivered, faults))
        if each.passed_over:
            most = each.passed_over.most_common(_SHOWN)
            notes = [f"{count} of type {type or '(none)'} had no handler" for type, count in most]
            figures.append(Figure(f"passed_over[{each.name}]", each.passed_over.total(), notes=notes))
    missing = [name for name in groups or () if name not in {each.name for each in found}]
    return figures + [Figure(f"delivered[{name}]", 0, ["no such group reads this topic"]) for name in missing]


def _table(
    table: TableFigures,
    bounds: dict[int, Bounds],
    absent: Iterable[tuple[int, int]],
    erased: Collection[tuple[int, int]],
) -> list[Figure]:
    """Compare tables with the log; `absent`: places that they need not hold, erased ones among them."""
    within = [(p, start, end) for p, start, end in table.held if p in bounds]
    distinct = sum(end - start for _, start, end in table.held)
    excused = [*within, *((p, start, end) for p, start, end in table.superseded if p in bounds)]
    faults = [*table.faults, *_ranges("is not in the tables", gaps([*excused, *_runs(absent)], bounds))]
    if table.rows != distinct:
        faults.append(f"{table.rows - distinct} rows are duplicates")
    ends = {partition: each.end for partition, each in bounds.items()}
    beyond = [(p, max(start, ends.get(p, start)), end) for p, start, end in table.held if end > ends.get(p, 0)]
    faults += _ranges("is in the tables but not in the log", beyond)
    faults += _ranges("differs from the log", table.changed)
    gone: dict[int, list[int]] = {}
    for partition, offset in sorted(erased):
        gone.setdefault(partition, []).append(offset)
    held = [(gone[p], start, end) for p, start, end in table.held if p in gone]
    left = sum(bisect_left(offsets, end) - bisect_left(offsets, start) for offsets, start, end in held)
    note = f"{left} erased records are still in the tables; `penstock pipeline erase` removes them"
    figures = [Figure(table.name, distinct, faults, [*table.notes, *[note] * bool(left)])]
    if table.superseded and not table.notes:
        figures.append(Figure("superseded", sum(end - start for _, start, end in table.superseded)))
    return figures


def _committed(store: Store, counted: _Counted, bounds: dict[int, Bounds], against: str, by: str) -> Figure:
    theirs = Counter(str(row[0]) for row in _selected(store.database, against))
    ours: Counter[str] = Counter()
    for (id, key), count in counted.names.items():
        ours[id if by == "id" else (key or b"").decode("utf-8", "replace")] += count
    if by == "key":  # a key may have any number of events, and a table any number of rows for it
        ours, theirs = Counter(set(ours)), Counter(set(theirs))
    erased = Counter(counted.erased.values())
    known = ours + erased if by == "id" else ours  # erased events may be there or not
    faults = _named("has no record in the log", sorted((theirs - known).elements()))
    faults += _named("is in the log but not selected", sorted((ours - theirs).elements()))
    deleted = sum(start for start, _ in bounds.values())
    if deleted and theirs - known:
        faults.append(f"retention has deleted {deleted} records: select only records that the log still keeps")
    return Figure("committed", theirs.total(), faults)


def _staged(store: Store, topic: Topic) -> list[Figure]:
    params = {"topic": topic.name, "topic_id": topic.id}
    ((count, *_),) = store.database.look(lambda tx: tx.rows("operate", "topic_counted", **params))
    if not count:
        return []
    return [Figure("staged", count, [f"{count} events are committed but not in the log yet; a worker moves them"])]


def _selected(database: Database, against: str) -> list[Row]:
    """Run a user's statement read-only. Raises InvalidInput, StoreUnreachable."""
    with database.looking() as tx:
        try:
            return database.dialect.read_only(tx.conn, against)
        except StoreUnreachable:
            raise
        except Exception as exc:
            meant = database.dialect.translate(exc)
            if isinstance(meant, StoreUnreachable):
                raise meant from exc
            raise InvalidInput(
                f"--against is {against!r}, which cannot be run: {str(exc).strip()}; give one SELECT of the "
                "records' ids, or of their keys with --by key: it is run read-only"
            ) from exc


def _ranges(what: str, found: Sequence[tuple[int, int, int]]) -> list[str]:
    lines = [f"partition {partition}, {low} to before {high}, {what}" for partition, low, high in found[:_SHOWN]]
    return lines + [f"and {len(found) - _SHOWN} more ranges"] * (len(found) > _SHOWN)


def _named(what: str, found: list[str]) -> list[str]:
    more = [f"and {len(found) - _SHOWN} more"] * (len(found) > _SHOWN)
    return [f"{name} {what}" for name in found[:_SHOWN]] + more
