"""From a class to its shape: dataclasses and msgspec Structs as msgspec sees them, and pydantic models.

The names of fields are those in the JSON (`rename`, aliases). Used once, when a query is planned.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import inspect as seen

from penstock.errors import NoColumns
from penstock.model.codec import is_dataclass, is_pydantic, is_struct

from .shapes import (
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

_PLAIN: Mapping[type, ScalarKind] = {
    seen.BoolType: ScalarKind.BOOL,
    seen.IntType: ScalarKind.INT,
    seen.FloatType: ScalarKind.FLOAT,
    seen.StrType: ScalarKind.STR,
    seen.BytesType: ScalarKind.BASE64,
    seen.ByteArrayType: ScalarKind.BASE64,
    seen.MemoryViewType: ScalarKind.BASE64,
    seen.DateType: ScalarKind.DATE,
    seen.TimeType: ScalarKind.TIME,
    seen.TimeDeltaType: ScalarKind.DURATION,
    seen.UUIDType: ScalarKind.UUID,
}
_ARRAYS = (seen.ListType, seen.VarTupleType, seen.SetType, seen.FrozenSetType, seen.CollectionType)
_KINDS: Mapping[type, tuple[str, ...]] = {
    seen.BoolType: ("boolean",),
    seen.IntType: ("integer",),
    seen.FloatType: ("number",),
    seen.DecimalType: ("number", "string"),
    **dict.fromkeys((seen.EnumType, seen.LiteralType), ("string", "number", "boolean")),
    **dict.fromkeys((seen.AnyType, seen.RawType, seen.ExtType), ()),
    **dict.fromkeys((*_ARRAYS, seen.TupleType, seen.NamedTupleType), ("array",)),
}
_PYDANTIC = {"NaiveDatetime": ScalarKind.LOCAL, "AwareDatetime": ScalarKind.INSTANT}
_LIMITS = ("gt", "ge", "lt", "le", "min_length", "max_length")
_MOST_DIGITS = 38


def shape_of(cls: type) -> FieldsShape:
    """Return the shape of an event class. Raises NoColumns."""
    if not (is_pydantic(cls) or is_struct(cls) or is_dataclass(cls)):
        raise NoColumns(cls, "it is no dataclass, msgspec Struct or pydantic v2 model")
    try:
        shape = _Classes(cls).of_model(cls) if is_pydantic(cls) else _Classes(cls).of(seen.type_info(cls))
    except (TypeError, NameError) as exc:  # a field's type is unknown
        raise NoColumns(cls, str(exc)) from exc
    if not isinstance(shape, FieldsShape) or not shape.members:
        raise NoColumns(cls, "its JSON is no object with fields")
    return shape


class _Classes:
    """A walk over one class and the classes in it. Raises NoColumns."""

    def __init__(self, root: type) -> None:
        self._root = root
        self._within: list[type] = []
        self._pydantic = is_pydantic(root)

    def of(self, found: seen.Type) -> Shape:
        kind = _PLAIN.get(type(found))
        if kind is ScalarKind.BASE64 and self._pydantic:
            kind = ScalarKind.TEXT_BYTES
        if kind is not None:
            return ScalarShape(kind=kind, bounds=_bounds(found))
        if isinstance(found, seen.Metadata):
            shape, digits = self.of(found.type), (found.extra or {}).get("digits")
            # A decimal of `Meta(extra={"digits": (12, 2)})`.
            return _exact(self._root, shape, *digits) if digits and isinstance(shape, Exact) else shape
        if isinstance(found, seen.DateTimeType):
            return ScalarShape(kind=ScalarKind.LOCAL if found.tz is False else ScalarKind.INSTANT)
        if isinstance(found, seen.DecimalType):
            return Exact(bounds=_bounds(found))
        if isinstance(found, seen.EnumType | seen.LiteralType):
            return _chosen(found)
        if isinstance(found, _ARRAYS):
            distinct = isinstance(found, seen.SetType | seen.FrozenSetType)
            return Items(item=self.of(found.item_type), distinct=distinct, bounds=_bounds(found))
        if isinstance(found, seen.DictType):
            return self._entries(found)
        if isinstance(found, seen.StructType | seen.DataclassType | seen.TypedDictType):
            return self._fields(found)
        if isinstance(found, seen.UnionType):
            return self._one_of(found)
        if isinstance(found, seen.CustomType):
            return self._custom(found.cls)
        return JsonText(kinds=_json_kinds(found), nullable=isinstance(found, seen.AnyType | seen.RawType))

    def of_model(self, cls: Any) -> FieldsShape:
        self._enter(cls)
        cls.model_rebuild()  # resolves forward references
        members = []
        for name, field in cls.model_fields.items():
            alias = field.validation_alias or field.alias or name
            if not isinstance(alias, str):
                raise NoColumns(self._root, f"the alias of its field {name} is not a name")
            shape = _limited(self._root, self.of(seen.type_info(field.annotation)), field.metadata)
            required = field.is_required()
            given = None if required else _given(field.default, field.default_factory, _dumped)
            members.append(FieldShape(name=alias, shape=shape, required=required, default=given))
        self._within.pop()
        return FieldsShape(members=tuple(members), closed=cls.model_config.get("extra") == "forbid")

    def _fields(self, found: Any) -> Shape:
        if getattr(found, "array_like", False):
            return JsonText(kinds=("array",))
        self._enter(found.cls)
        members = tuple(
            FieldShape(
                name=each.encode_name,
                shape=self.of(each.type),
                required=each.required,
                default=_given(each.default, each.default_factory, msgspec.json.encode),
            )
            for each in found.fields
        )
        self._within.pop()
        tag = getattr(found, "tag", None)
        return FieldsShape(
            members=members,
            closed=getattr(found, "forbid_unknown_fields", False),
            tag=None if tag is None else (found.tag_field, tag),
        )

    def _entries(self, found: Any) -> Shape:
        key = self.of(found.key_type)
        if (
            not isinstance(key, ScalarShape)
            or key.kind not in (ScalarKind.STR, ScalarKind.INT)
            or key.allowed is not None
        ):
            return JsonText(kinds=("object",))
        return Entries(key=key.kind, item=self.of(found.value_type), bounds=_bounds(found))

    def _one_of(self, found: seen.UnionType) -> Shape:
        types = [each for each in found.types if not isinstance(each, seen.NoneType)]
        nullable = len(types) < len(found.types)
        if len(types) == 1:
            return replace(self.of(types[0]), nullable=nullable)
        several = [_json_kinds(each) for each in types]
        kinds = dict.fromkeys(kind for each in several for kind in each) if all(several) else ()
        return JsonText(kinds=tuple(kinds), nullable=nullable)

    def _custom(self, cls: Any) -> Shape:
        if self._pydantic and is_pydantic(cls):
            return self.of_model(cls)
        if getattr(cls, "__name__", "") in _PYDANTIC:
            return ScalarShape(kind=_PYDANTIC[cls.__name__])
        raise NoColumns(self._root, f"it has a field of {cls!r}, which has no column")

    def _enter(self, cls: type) -> None:
        if cls in self._within:
            raise NoColumns(self._root, f"{cls.__qualname__} contains itself, and a column cannot")
        self._within.append(cls)


def _given(default: Any, factory: Any, encode: Callable[[Any], bytes]) -> str | None:
    """Return the JSON of a default; None if there is none, or if it is not always the same."""
    if callable(factory):
        try:
            default, again = factory(), factory()
        except TypeError:  # a pydantic factory that reads other fields
            return None
        if default != again:
            return None
    if default is None or default is msgspec.NODEFAULT:
        return None
    try:
        return encode(default).decode()
    except (TypeError, ValueError, UnicodeDecodeError):
        return None


def _dumped(value: Any) -> bytes:
    from pydantic_core import to_json

    return to_json(value, by_alias=True)


def _bounds(found: Any) -> DeclaredLimits:
    return DeclaredLimits(**{name: getattr(found, name, None) for name in _LIMITS})


def _chosen(found: seen.EnumType | seen.LiteralType) -> Shape:
    """Return the shape of an Enum or Literal: of texts, or of integers; else the JSON text."""
    if isinstance(found, seen.EnumType):
        values = [each.value for each in found.cls]
    else:
        values = [each for each in found.values if each is not None]
    nullable = isinstance(found, seen.LiteralType) and None in found.values
    for kind, python in ((ScalarKind.STR, str), (ScalarKind.INT, int)):
        if values and all(type(each) is python for each in values):
            return ScalarShape(kind=kind, allowed=tuple(values), nullable=nullable)
    return JsonText(kinds=("string", "number", "boolean"), nullable=nullable)


def _exact(cls: type, shape: Exact, digits: int, places: int) -> Exact:
    if not 0 <= places <= digits <= _MOST_DIGITS:
        raise NoColumns(cls, f"a decimal of {digits} digits, {places} of them after the point, has no column")
    return replace(shape, digits=digits, places=places)


def _limited(cls: type, shape: Shape, metadata: list[Any]) -> Shape:
    """Return a shape with the limits in a pydantic field's metadata."""
    for each in metadata:
        digits, places = getattr(each, "max_digits", None), getattr(each, "decimal_places", None)
        if isinstance(shape, Exact) and digits is not None and places is not None:
            shape = _exact(cls, shape, digits, places)
        found = {name: getattr(each, name) for name in _LIMITS if getattr(each, name, None) is not None}
        if found and isinstance(shape, ScalarShape | Exact | Items | Entries):
            shape = replace(shape, bounds=replace(shape.bounds, **found))
    return shape


def _json_kinds(found: Any) -> tuple[str, ...]:
    """Return the kinds of JSON that a type may have; empty: all."""
    if isinstance(found, seen.Metadata):
        return _json_kinds(found.type)
    if isinstance(found, seen.CustomType):
        return ("object",) if is_pydantic(found.cls) else ()
    if isinstance(found, seen.DictType | seen.StructType | seen.DataclassType | seen.TypedDictType):
        return ("array",) if getattr(found, "array_like", False) else ("object",)
    return _KINDS.get(type(found), ("string",))
