"""From a shape to Spark expressions: the value of a column, and its fault.

A document is parsed once, to a VARIANT, which keeps the kinds of JSON: a text stays a text and a number a
number, where `from_json` makes a text of anything and ignores missing fields. Faults name the place and the
kind of JSON found there, never the value.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeGuard

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from .shapes import (
    UNBOUNDED,
    DeclaredLimits,
    Entries,
    Exact,
    FieldShape,
    FieldsShape,
    Items,
    JsonText,
    ScalarKind,
    ScalarShape,
    Shape,
)

_OFFSET = r"([Zz]|[+-]\d{2}:?\d{2})"
_DAY = r"(?!0000)\d{4}-\d{2}-\d{2}"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_UUID = r"([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
_UUID_PARTS = ("(.{8})(.{4})(.{4})(.{4})(.{12})", "$1-$2-$3-$4-$5")
_DURATION = r"[+-]?P(?=[\dT])(\d+(\.\d+)?D)?(T(?=\d)(\d+(\.\d+)?H)?(\d+(\.\d+)?M)?(\d+(\.\d+)?S)?)?"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?"
_ZERO = r"[+-]?[0.]+([eE].*)?"
_WHOLE = r"-?(0|[1-9]\d*)"
_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
_JSON_KINDS = {"object": "OBJECT<", "array": "ARRAY<", "string": "STRING", "boolean": "BOOLEAN", "integer": "BIGINT"}
_WORDS = (  # as one expression: Spark is asked over a socket for each part of another
    "map('VOID', 'null', 'STRING', 'a text', 'BOOLEAN', 'true or false', 'OBJECT', 'an object', 'ARRAY', 'an array')"
)
_OTHER_TEXT = _WORDS.replace("a text", "another text")
_NUMBERS = ("BIGINT", "DECIMAL", "DOUBLE")
_STEPS = 5


@dataclass(frozen=True, slots=True)
class Decoded:
    """The value at a place, whether it fits (NULL: no), and its fault, evaluated only where it does not fit."""

    value: Column
    fits: Column
    fault: Column


class Projections:
    """Common subexpressions, computed once: Spark shares none across branches.

    Each step is one struct column, from which later steps take fields; it is NULL in rows outside `asked`, so
    that rows of another type cost next to nothing. Inside a lambda there are no steps.
    """

    def __init__(self, name: str = "", asked: Column | None = None) -> None:
        self._name = name
        self._asked = asked
        self._fields: list[dict[str, Column]] = [{} for _ in range(_STEPS)]

    def keep(self, step: int, made: Column) -> Column:
        """Return an expression as the field of a step."""
        if not self._name:
            return made
        fields = self._fields[step]
        number = list(fields).index(str(made)) if str(made) in fields else len(fields)
        fields.setdefault(str(made), made)
        return F.col(f"{self._column(step)}.f{number}")

    def step(self, step: int) -> list[Column]:
        """Return the column of a step, if it has one."""
        fields = [each.alias(f"f{number}") for number, each in enumerate(self._fields[step].values())]
        if not fields or self._asked is None:
            return []
        before = [each for each in range(step) if self._fields[each]]
        asked = F.col(self._column(before[-1])).isNotNull() if before else self._asked
        return [F.when(asked, F.struct(*fields)).alias(self._column(step))]

    def _column(self, step: int) -> str:
        return f"__{self._name}_{step}"


def with_steps(frame: DataFrame, each: Iterable[Projections]) -> DataFrame:
    """Return a DataFrame with the columns of all steps; each step is one projection for all types."""
    types = list(each)
    for step in range(_STEPS):
        columns = [column for one in types for column in one.step(step)]
        frame = frame.select("*", *columns) if columns else frame
    return frame


_INLINE = Projections()  # in a lambda


@dataclass(frozen=True, slots=True)
class Found:
    """The value at a place of a document, as a VARIANT, with its common expressions."""

    raw: Column
    place: str
    steps: Projections = _INLINE

    @property
    def kind(self) -> Column:
        """Return its kind of JSON, as Spark names it."""
        return self.steps.keep(1, F.schema_of_variant(self.raw))

    def read(self, kind: str) -> Column:
        """Return it as a Spark type; NULL if it does not convert. A number does convert to STRING."""
        return self.steps.keep(1, F.try_variant_get(self.raw, "$", kind))

    def made(self, value: Column) -> Column:
        """Return an expression made from it as a shared one, to be used more than once."""
        return self.steps.keep(2, value)

    def is_null(self) -> Column:
        """Return whether it is null or missing."""
        return self.raw.isNull() | F.is_variant_null(self.raw)

    def wrong(self, wanted: str, like: str = "") -> Column:
        """Return a fault: the kind of JSON found, not its value. `like`: a kind that can be wrong by its form only."""
        kind = F.regexp_extract(F.coalesce(self.kind, F.lit("VOID")), r"^[A-Z]+", 0)
        word = F.try_element_at(F.expr(_OTHER_TEXT if like == "STRING" else _WORDS), kind)
        number = F.lit("another number" if like == "number" else "a number")
        return F.concat(F.lit(f"{self.place}: must be {wanted}, and is "), F.coalesce(word, number))


def document_whole(shape: FieldsShape, document: Column, path: str, steps: Projections) -> tuple[Column, Column]:
    """Return whether a document fits as a whole, apart from its fields, and its fault."""
    faults = _surplus(shape, document, path, "", steps)
    return _is_whole(shape, faults), first_of(faults)


def first_of(faults: list[Column]) -> Column:
    """Return the first fault that is not NULL."""
    return F.coalesce(*faults) if faults else F.lit(None).cast("string")


def all_of(conditions: list[Column]) -> Column:
    """Return whether all conditions hold."""
    return reduce(lambda some, each: some & each, conditions, F.lit(True))


def _at(shape: Shape, found: Found, document: Column, path: str) -> Decoded:
    if isinstance(shape, FieldsShape):
        given = _fields(shape, found, document, path)
    else:
        given = _SHAPES[type(shape)](shape, found)
    if not shape.nullable:
        return given
    is_null = found.is_null()
    return Decoded(given.value, is_null | given.fits, F.when(~is_null, given.fault))


def members_of(
    shape: FieldsShape, document: Column, path: str, place: str, steps: Projections
) -> list[tuple[FieldShape, Decoded]]:
    """Return the expressions of all fields of an object; see also `document_whole`."""
    return [(each, _member(each, document, path, place, steps)) for each in shape.members]


def _member(each: FieldShape, document: Column, path: str, place: str, steps: Projections) -> Decoded:
    inner, named = _path(path, each.name), _within(place, each.name)
    raw = steps.keep(0, F.try_variant_get(document, inner, "variant"))
    if not each.required and each.default is not None:
        raw = F.coalesce(raw, F.parse_json(F.lit(each.default)))
        return _at(each.shape, Found(raw, named, steps), raw, "$")
    given = _at(each.shape, Found(raw, named, steps), document, inner)
    if each.required:
        missing = F.when(raw.isNull(), F.lit(f"{named}: missing"))
        return Decoded(given.value, raw.isNotNull() & given.fits, F.coalesce(missing, given.fault))
    return Decoded(given.value, raw.isNull() | given.fits, F.when(raw.isNotNull(), given.fault))


def _surplus(shape: FieldsShape, document: Column, path: str, place: str, steps: Projections) -> list[Column]:
    """Return the faults of an object as a whole: another kind of JSON, another tag, unknown keys."""
    given = [steps.keep(0, F.try_variant_get(document, _path(path, each.name), "variant")) for each in shape.members]
    whole = Found(F.try_variant_get(document, path, "variant"), place or "the value")
    present = reduce(lambda some, each: some | each.isNotNull(), given, F.lit(False))
    is_object = present | F.coalesce(F.schema_of_variant(whole.raw).startswith("OBJECT<"), F.lit(False))
    faults = [F.when(~is_object, whole.wrong("an object"))]
    if shape.tag is not None:
        name, tag = shape.tag
        there = F.try_variant_get(document, _path(path, name), "string")
        faults.append(F.when(there != str(tag), F.lit(f"{_within(place, name)}: another tag than {tag!r}")))
    if shape.closed:
        known = {each.name for each in shape.members} | ({shape.tag[0]} if shape.tag else set())
        keys = F.map_keys(F.try_variant_get(document, path, "map<string,variant>"))
        others = F.size(F.array_except(keys, F.array(*[F.lit(each) for each in sorted(known)])))
        faults.append(F.when(others > 0, F.lit(f"{whole.place}: a key that no field has")))
    return faults


def _fields(shape: FieldsShape, found: Found, document: Column, path: str) -> Decoded:
    each = members_of(shape, document, path, found.place, found.steps)
    value = F.struct(*[given.value.alias(member.name) for member, given in each])
    faults = [*_surplus(shape, document, path, found.place, found.steps), *(given.fault for _, given in each)]
    fits = all_of([*(given.fits for _, given in each), _is_whole(shape, faults)])
    return Decoded(F.when(~found.is_null(), value), fits, first_of(faults))


def _is_whole(shape: FieldsShape, faults: list[Column]) -> Column:
    """Return whether an object fits as a whole; a value that has a required field is an object."""
    asked = 0 if any(each.required for each in shape.members) and not (shape.closed or shape.tag) else 3
    return all_of([each.isNull() for each in faults[:asked]])


def _json_text(shape: JsonText, found: Found) -> Decoded:
    kinds = [_is_kind(found.kind, each) for each in shape.kinds or ("any",)]
    fits = reduce(lambda some, each: some | each, kinds)
    text = F.when(~found.is_null(), F.to_json(found.raw))
    return Decoded(text, fits, F.when(~fits, found.wrong(" or ".join(shape.kinds))))


def _items(shape: Items, found: Found) -> Decoded:
    items, inner = found.read("array<variant>"), f"{found.place}[]"
    value = F.transform(items, lambda each: _at(shape.item, Found(each, inner), each, "$").value)
    faults = _first_fault(items, lambda each: _at(shape.item, Found(each, inner), each, "$").fault)
    is_array = found.kind.startswith("ARRAY<")
    wrong = F.when(~is_array, found.wrong("an array"))
    outside = _outside(shape.bounds, F.size(items), found.place, length=True)
    fits = is_array & F.forall(items, lambda each: _fits(shape.item, each))
    if _is_simple(shape.item):  # Spark checks that all items are of one kind, and reads them at once
        simple = _SIMPLE[shape.item.kind]
        given = found.read(f"array<{simple}>")
        alike = found.kind.isin(f"ARRAY<{simple}>", "ARRAY<VOID>")
        fits = found.made(alike & ~F.exists(given, lambda each: each.isNull()))
        value = given  # evaluated only where they fit
    if shape.bounds != UNBOUNDED:
        fits = fits & outside.isNull()
    value = F.array_distinct(value) if shape.distinct else value
    return Decoded(value, fits, first_of([wrong, faults, outside]))


def _fits(shape: Shape, each: Column) -> Column:
    return F.coalesce(_at(shape, Found(each, ""), each, "$").fits, F.lit(False))


def _is_simple(item: Shape) -> TypeGuard[ScalarShape]:
    """Return whether an item may be any text, any integer or any boolean."""
    if not isinstance(item, ScalarShape) or item.kind not in _SIMPLE:
        return False
    return not item.nullable and item.allowed is None and item.bounds == UNBOUNDED


def _entries(shape: Entries, found: Found) -> Decoded:
    place, entries = found.place, found.read("map<string,variant>")
    value = F.transform_values(entries, lambda _, each: _at(shape.item, Found(each, place), each, "$").value)
    inner = f"{place}[]"
    faults = _first_fault(F.map_values(entries), lambda each: _at(shape.item, Found(each, inner), each, "$").fault)
    wrong = F.when(entries.isNull(), found.wrong("an object"))
    keys = F.lit(None).cast("string")
    if shape.key is ScalarKind.INT:
        odd = F.exists(F.map_keys(entries), lambda key: ~_matches(key, _WHOLE) | key.try_cast("bigint").isNull())
        keys = F.when(odd, F.lit(f"{place}: a key that is no integer of 64 bits"))
        value = F.when(~odd, F.transform_keys(value, lambda key, _: key.try_cast("bigint")))
    outside = _outside(shape.bounds, F.size(entries), place, length=True)
    fits = entries.isNotNull() & F.forall(F.map_values(entries), lambda each: _fits(shape.item, each))
    fits = all_of([fits, keys.isNull(), outside.isNull()])
    return Decoded(value, fits, first_of([wrong, keys, faults, outside]))


def _first_fault(items: Column, fault: Callable[[Column], Column]) -> Column:
    faults = F.filter(F.transform(items, fault), lambda each: each.isNotNull())
    return F.when(F.size(faults) > 0, F.get(faults, F.lit(0)))


def _exact(shape: Exact, found: Found) -> Decoded:
    """A decimal: from a text, or from a number that the VARIANT has exactly."""
    kind, text, place = found.kind, found.read("string"), found.place
    number = (kind == "BIGINT") | kind.startswith("DECIMAL")
    value = found.made(text.try_cast(f"decimal({shape.digits},{shape.places})"))
    plain = _matches(text, rf"[+-]?\d+(\.\d{{0,{shape.places}}})?")  # nearly all: no digit can be lost
    fraction = F.length(F.regexp_extract(text, r"\.(\d*?)0*($|[eE])", 1))
    power = F.coalesce(F.regexp_extract(text, r"[eE]([+-]?\d+)$", 1).try_cast("int"), F.lit(0))
    wanted = f"a decimal of {shape.digits} digits, {shape.places} of them after the point"
    wrong = ~(number | (kind == "STRING")) | ~(plain | _matches(text, _NUMBER))
    lost = value.isNull() | (~plain & (fraction - power > shape.places) & ~_matches(text, _ZERO))
    faults = [
        F.when(wrong, found.wrong("a decimal, as a text or a plain number", "STRING")),
        F.when(lost, F.lit(f"{place}: does not fit {wanted}")),
        _outside(shape.bounds, value, place),
    ]
    fits = ~wrong & ~lost
    if shape.bounds != UNBOUNDED:
        fits = fits & faults[-1].isNull()
    return Decoded(value, fits, first_of(faults))


def _scalar(shape: ScalarShape, found: Found) -> Decoded:
    read, wanted = _KINDS[shape.kind]
    value, fits = read(found)
    like = "number" if shape.kind in (ScalarKind.INT, ScalarKind.FLOAT) else "STRING"
    faults = [F.when(~F.coalesce(fits, F.lit(False)), found.wrong(wanted, like))]
    if shape.allowed is not None:
        faults.append(F.when(~value.isin(*shape.allowed), F.lit(f"{found.place}: none of its values")))
    size = shape.kind in (ScalarKind.STR, ScalarKind.BASE64, ScalarKind.TEXT_BYTES)
    if shape.bounds != UNBOUNDED:
        faults.append(_outside(shape.bounds, F.length(value) if size else value, found.place, length=size))
    return Decoded(value, all_of([fits, *(each.isNull() for each in faults[1:])]), first_of(faults))


_SHAPES: dict[type, Callable[[Any, Found], Decoded]] = {
    ScalarShape: _scalar,
    Exact: _exact,
    Items: _items,
    Entries: _entries,
    JsonText: _json_text,
}
_SIMPLE = {ScalarKind.STR: "STRING", ScalarKind.INT: "BIGINT", ScalarKind.BOOL: "BOOLEAN"}


def _outside(bounds: DeclaredLimits, value: Column, place: str, *, length: bool = False) -> Column:
    """Return the fault of a number, or a length, beyond the limits that the class declares."""
    least, most = (bounds.min_length, bounds.max_length) if length else (bounds.ge, bounds.le)
    word = "its length is" if length else "is"
    limits: list[tuple[Any, Callable[[Any], Column], str]] = [
        (least, lambda limit: value < limit, "below"),
        (most, lambda limit: value > limit, "above"),
        (None if length else bounds.gt, lambda limit: value <= limit, "not above"),
        (None if length else bounds.lt, lambda limit: value >= limit, "not below"),
    ]
    faults = [
        F.when(beyond(F.lit(limit)), F.lit(f"{place}: {word} {said} {limit}"))
        for limit, beyond, said in limits
        if limit is not None
    ]
    return first_of(faults)


def _text(found: Found) -> tuple[Column, Column]:
    return found.read("string"), found.kind == "STRING"


def _float(found: Found) -> tuple[Column, Column]:
    value = found.read("double")
    return value, _is_kind(found.kind, "number") & (F.abs(value) < float("inf"))


def _patterned(pattern: str, made: Callable[[Column], Column]) -> Callable[[Found], tuple[Column, Column]]:
    """Return a kind of text with a pattern; a text that cannot be converted does not fit either."""

    def kind(found: Found) -> tuple[Column, Column]:
        text, is_text = _text(found)
        value = found.made(F.when(is_text & _matches(text, pattern), made(text)))
        return value, value.isNotNull()

    return kind


def _instant(text: Column) -> Column:
    """Return a moment; NULL before year 1 or after year 9999 in UTC."""
    moment = F.upper(text).try_cast("timestamp")
    inner = ~text.startswith("0001-01-01") & ~text.startswith("9999-12-31")
    within = moment.between(F.lit(_FIRST).cast("timestamp"), F.lit(_LAST).cast("timestamp"))
    return F.when(inner | within, moment)


def _base64(found: Found) -> tuple[Column, Column]:
    text, is_text = _text(found)
    # Not one pattern of groups: Java's engine recurses into them, and a long text overflows its stack.
    fits = is_text & (F.length(text) % 4 == 0) & text.rlike(r"\A[A-Za-z0-9+/]*={0,2}\z")
    value = found.made(F.when(fits, F.unbase64(text)))
    return value, value.isNotNull()


# How a value is read and whether it fits, and the words for one that does.
_KINDS: dict[ScalarKind, tuple[Callable[[Found], tuple[Column, Column]], str]] = {
    ScalarKind.BOOL: (lambda found: (found.read("boolean"), found.kind == "BOOLEAN"), "true or false"),
    ScalarKind.INT: (lambda found: (found.read("bigint"), found.kind == "BIGINT"), "an integer of 64 bits"),
    ScalarKind.FLOAT: (_float, "a finite number"),
    ScalarKind.STR: (_text, "a text"),
    ScalarKind.BASE64: (_base64, "bytes in base64"),
    ScalarKind.TEXT_BYTES: (lambda found: (found.read("string").cast("binary"), found.kind == "STRING"), "a text"),
    ScalarKind.DATE: (_patterned(_DAY, lambda text: text.try_cast("date")), "a date as 2026-01-31"),
    ScalarKind.INSTANT: (
        _patterned(f"{_DAY}[Tt ]{_CLOCK}{_OFFSET}", _instant),
        "a date and time with an offset of at most 18 hours, to the microsecond (without offset: Meta(tz=False))",
    ),
    ScalarKind.LOCAL: (
        _patterned(f"{_DAY}[Tt ]{_CLOCK}", lambda text: F.upper(text).try_cast("timestamp_ntz")),
        "a date and time without an offset, no finer than microseconds",
    ),
    ScalarKind.TIME: (
        _patterned(f"{_CLOCK}{_OFFSET}?", lambda text: text),
        "a time of day, no finer than microseconds",
    ),
    ScalarKind.DURATION: (_patterned(_DURATION, lambda text: text), "a duration as P1DT2.5S"),
    ScalarKind.UUID: (
        _patterned(_UUID, lambda text: F.regexp_replace(F.lower(F.replace(text, F.lit("-"))), *_UUID_PARTS)),
        "a UUID",
    ),
}


def _matches(text: Column, pattern: str) -> Column:
    return text.rlike(rf"\A(?:{pattern})\z")


def _is_kind(kind: Column, wanted: str) -> Column:
    if wanted == "any":
        return F.lit(True)
    if wanted == "number":
        return reduce(lambda some, each: some | each, [kind.startswith(each) for each in _NUMBERS])
    return kind.startswith(_JSON_KINDS[wanted])


def _path(path: str, name: str) -> str:
    quote = '"' if '"' not in name else "'"
    return f"{path}[{quote}{name}{quote}]"


def _within(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
