"""TypedEvent columns on a DataFrame: `decode(df, OrderPlaced)`.

The whole text must be one JSON document. Spark's parser stops at the end of the first one and ignores the
rest; so the text is parsed as the first item of an array whose last item has a random key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from penstock.errors import NoColumns

from .classes import shape_of
from .expressions import Projections, all_of, document_whole, first_of, members_of, with_steps
from .shapes import Entries, FieldsShape, Items, Shape

REJECTED = "rejected"
_DOCUMENT, _TOP = "__document", "$[0]"
_UNNAMABLE = set(" ,;{}()\n\t=\"'`[]")  # forbidden in Delta's column names, or in paths


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """The columns of a class: its shape, and the name of each field's column."""

    shape: FieldsShape
    names: Mapping[str, str]


def decode(frame: DataFrame, cls: type) -> DataFrame:
    """Return a DataFrame of a topic with the fields of an event class as columns, and a column `rejected`.

    `rejected` names the fault of a row that does not fit, and is NULL in all others; in a rejected row the
    other new columns are NULL, as they are in a tombstone, whose `value` is NULL. A field with the name of an
    existing column gets the prefix `event_`. Raises NoColumns.
    """
    columns = typed_columns(cls, frame.columns)
    read = parsed(frame)
    typed = read.typed(columns, "event")
    fields = [F.when(typed.fits, value).alias(name) for name, value in typed.fields.items()]
    kept = [F.col(f"`{name}`") for name in frame.columns]
    return with_steps(read.frame, [typed.steps]).select(*kept, *fields, typed.fault.alias(REJECTED))


def typed_columns(cls: type, taken: list[str]) -> TypedColumns:
    """Return the columns of a class, beside existing ones. Raises NoColumns."""
    shape = shape_of(cls)
    used = {name.lower() for name in (*taken, REJECTED)}
    names: dict[str, str] = {}
    for each in shape.members:
        name = f"event_{each.name}" if each.name.lower() in used else each.name
        same = [other for other, column in names.items() if column.lower() == name.lower()]
        if same or name.lower() in used:
            raise NoColumns(cls, _one_column(each.name, same, name))
        names[each.name] = name
    _check_names(cls, shape)
    return TypedColumns(shape, names)


def _one_column(field: str, others: list[str], column: str) -> str:
    both = f"its fields {others[0]} and {field} would both" if others else f"its field {field} would"
    there, which = ("", "one of them") if others else (", which is there already", "it")
    rule = "for case does not count, and a field named like a column of the record gets the prefix event_"
    return f"{both} have the column {column}{there}, {rule}; give {which} another name"


@dataclass(frozen=True, slots=True)
class TypedEvent:
    """The expressions of a class, which use the steps. Its columns are valid only where `fits` is true.

    Elsewhere `fault` gives the reason. In a tombstone, and in a row outside `only`, both are NULL.
    """

    steps: Projections
    fields: Mapping[str, Column]
    fits: Column
    fault: Column


@dataclass(frozen=True, slots=True)
class Parsed:
    """A DataFrame of a topic, with the parsed values in a column of their own."""

    frame: DataFrame
    mark: str

    def typed(self, columns: TypedColumns, name: str, only: Column | None = None) -> TypedEvent:
        """Return the expressions of a class. `name`: unique among the classes of a query."""
        value = F.col("value")
        steps = Projections(name, value.isNotNull() if only is None else value.isNotNull() & only)
        document = F.col(_DOCUMENT)
        fields = members_of(columns.shape, document, _TOP, "", steps)
        sound, unsound = document_whole(columns.shape, document, _TOP, steps)
        text = value.cast("string")
        valid = F.format_string("%s", text) == text  # like is_valid_utf8, which is three times slower
        whole = valid & F.try_variant_get(document, f"$[1].{self.mark}", "variant").isNotNull()
        fits = steps.keep(3, F.coalesce(all_of([whole, sound, *(given.fits for _, given in fields)]), F.lit(False)))
        torn = F.when(~F.coalesce(whole, F.lit(False)), F.lit("not JSON, or an object in it has a key twice"))
        faults = [torn, unsound, *(given.fault for _, given in fields), F.lit("does not fit")]
        fault = steps.keep(4, F.when(~fits, first_of(faults)))
        return TypedEvent(steps, {columns.names[member.name]: given.value for member, given in fields}, fits, fault)


def parsed(frame: DataFrame) -> Parsed:
    """Parse the values of a topic, each once."""
    mark = f"m{uuid4().hex}"
    text = F.concat(F.lit("["), F.col("value").cast("string"), F.lit(f',{{"{mark}":0}}]'))
    return Parsed(frame.withColumn(_DOCUMENT, F.try_parse_json(text)), mark)


def _check_names(cls: type, shape: Shape) -> None:
    if isinstance(shape, Items | Entries):
        _check_names(cls, shape.item)
    for each in shape.members if isinstance(shape, FieldsShape) else ():
        if not each.name or set(each.name) & _UNNAMABLE:
            raise NoColumns(cls, f"its field {each.name!r} cannot name a column; rename it")
        _check_names(cls, each.shape)
