"""A topic as typed rows for a lake: one table for each registered type, and `rejected` for rows with faults.

All types are decoded in one pass. Their rows share columns, as many of each kind as the type with the most fields of
that kind needs: Spark measures every column for every row on the way to Python. Records without a typed form go to a
raw table of their stored name, as without types: types that are not registered, codecs other than JSON, names with a
function that upgrades old values, which is Python, and a type with the name `rejected`, which has another table.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from penstock.errors import InvalidOption, NoColumns
from penstock.model.codec import Json
from penstock.model.event_types import EventType, EventTypes

from ...columns import COLUMNS
from ..broken_rows import HeldRows, with_broken
from ..kinds import table_at
from ..paths import folder_of, is_table
from ..routing import BROKEN, BUCKET, DELETED, REASON, TABLE, TOMBSTONE, Layout, Partitioning
from ..storage import Location
from .decoding import REJECTED, TypedColumns, TypedEvent, parsed, typed_columns
from .expressions import with_steps
from .shapes import is_time

_ENVELOPE = tuple(name for name in COLUMNS if name != "value")
_BESIDE = (DELETED, BUCKET)  # of tables of upserts


@dataclass(frozen=True)
class TypedLake:
    """The types that have columns, each with its columns."""

    types: tuple[tuple[EventType, TypedColumns], ...]

    @classmethod
    def of(cls, registered: EventTypes) -> "TypedLake":
        """Return the types that have a typed form. Raises NoColumns, InvalidOption."""
        found = {kind.name: kind for name in registered.names() if (kind := registered.find(name))}
        taken = [*_ENVELOPE, *_BESIDE]
        named = sorted((name, kind) for name, kind in found.items() if name != REJECTED)
        typed = [kind for _, kind in named if isinstance(kind.codec, Json)]
        if not typed:
            raise InvalidOption("types", "none", "an outbox with types of JSON: @outbox.event(…)")
        return cls(tuple((kind, typed_columns(kind.cls, taken)) for kind in typed))

    def rows(self, events: DataFrame, held: HeldRows, no_key: str | None = None) -> tuple[DataFrame, Layout]:
        """Return the rows of a topic, each with its table, and the layout of the types' fields.

        `no_key`: the reason to reject a record without a key; None: accept it. A rejected record keeps its value.
        """
        read = parsed(events)
        typed = [read.typed(columns, f"event{n}", _is_of(kind)) for n, (kind, columns) in enumerate(self.types)]
        name = raw_name()
        table = F.when(name == REJECTED, F.lit(f"~{REJECTED}"))  # a type of that name has a raw table
        for (kind, _), each in zip(self.types, typed, strict=True):
            table = table.when(_is_of(kind) & each.fault.isNull(), kind.name)
        faults = [each.fault for each in typed]
        if no_key is not None:
            faults.append(F.when(F.col("key").isNull(), no_key))
        reason = F.coalesce(*faults)
        table = F.when(reason.isNotNull(), REJECTED).otherwise(table.otherwise(name))
        frame = with_steps(read.frame, [each.steps for each in typed])
        deleted = {DELETED: F.col("value").isNull()}
        fields = {
            folder_of(kind.name): deleted | {name: F.when(each.fits, value) for name, value in each.fields.items()}
            for (kind, _), each in zip(self.types, typed, strict=True)
        }
        frame = with_broken(frame, held, table, fields, deleted)
        broken = [F.col(BROKEN)] if BROKEN in frame.columns else []
        decoded = F.coalesce(_is_of(*(kind for kind, _ in self.types)), F.lit(False))  # or without a type
        kept = F.when(~decoded | F.coalesce(reason, *broken).isNotNull(), F.col("value"))
        shared, columns = _shared(frame, typed)
        rows = frame.select(
            *_ENVELOPE,
            kept.alias("value"),
            table.alias(TABLE),
            reason.alias(REASON),
            F.col("value").isNull().alias(TOMBSTONE),
            *broken,
            *columns,
        )
        return rows, Layout(dict(zip([folder_of(kind.name) for kind, _ in self.types], shared, strict=True)))

    def times(self) -> list[str]:
        """Return the columns that are times in all types that have them."""
        found = dict[str, bool]()
        for _, columns in self.types:
            for each in columns.shape.members:
                name = columns.names[each.name]
                found[name] = found.get(name, True) and is_time(each.shape)
        return [name for name, times in found.items() if times]

    def check_parts(self, partitioning: Partitioning) -> None:
        """Refuse a field with the name of the partition column. Raises NoColumns."""
        for kind, columns in self.types:
            made = partitioning.made([*_ENVELOPE, *columns.names.values()])
            for field, column in columns.names.items():
                if made is not None and column.lower() == made.lower():
                    cut = f"{partitioning.unit}({partitioning.column}) makes in the table of {kind.name}"
                    remedy = "give the field another name, or cut tables by another unit or column (--partition-by)"
                    raise NoColumns(kind.cls, f"its field {field} has the name of the column that {cut}; {remedy}")

    def unfilled(self, to: Location) -> Iterator[str]:
        """Yield a sentence on each table with columns that its class lacks: they will be NULL.

        This happens when a field was removed, and also when older code runs after newer.
        """
        for kind, columns in self.types:
            path = to / folder_of(kind.name)
            if not is_table(path):
                continue
            table = table_at(path)
            ours = {*_ENVELOPE, *_BESIDE, *columns.names.values(), *table.partition_columns()}
            left = [name for name in table.arrow_schema().names if name not in (*ours, "value")]
            if left:
                said = f"table {kind.name} has {', '.join(left)}, which {kind.cls.__qualname__} does not"
                yield f"{said}: NULL in new rows. If newer code than this has filled the table, run that instead"


def _shared(frame: DataFrame, types: Sequence[TypedEvent]) -> tuple[list[dict[str, str]], list[Column]]:
    """Return the column of each field, for each type, and the columns, which fields of one kind share."""
    fields = [(each, name, value) for each in types for name, value in each.fields.items()]
    found = frame.select(*[value.alias(f"v{number}") for number, (_, _, value) in enumerate(fields)]).schema
    kinds = iter(field.dataType.json() for field in found)
    made, named = dict[tuple[str, int], Column](), list[dict[str, str]]()
    for each in types:
        used, names = Counter[str](), dict[str, str]()
        for (name, value), kind in zip(each.fields.items(), kinds, strict=False):
            place = (kind, used[kind])
            used[kind] += 1
            made[place] = made[place].when(each.fits, value) if place in made else F.when(each.fits, value)
            names[name] = _column(list(made).index(place))
        named.append(names)
    return named, [column.alias(_column(number)) for number, column in enumerate(made.values())]


def _column(number: int) -> str:
    return f"__field_{number}"


def _is_of(*kinds: EventType) -> Column:
    decoded = ({*kind.names} - {*kind.upgrades, REJECTED} for kind in kinds)
    return F.col("type").isin(*(name for names in decoded for name in sorted(names)))


def raw_name() -> Column:
    """Return the name of a record's raw table: that of its type, or of its topic if it has none."""
    return F.when(F.coalesce(F.col("type"), F.lit("")) == "", F.col("topic")).otherwise(F.col("type"))
