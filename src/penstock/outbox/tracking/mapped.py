"""The table, the key, the columns and the changes of a mapped object of SQLAlchemy."""

from collections.abc import Set as AbstractSet
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Column, Table, inspect
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper, attributes
from sqlalchemy.orm.base import PASSIVE_NO_INITIALIZE

from penstock.errors import InvalidTracking

from .declaration import text_of

_columns: WeakKeyDictionary[Mapper[Any], tuple[str, ...]] = WeakKeyDictionary()


def table_of(model: Any) -> str:
    """Return the name of the table that a class is mapped to. Raises InvalidTracking."""
    try:
        mapper = inspect(model)
    except NoInspectionAvailable:
        mapper = None
    if not isinstance(mapper, Mapper) or not isinstance(model, type):
        raise InvalidTracking(model, "it is not a class that SQLAlchemy has mapped to a table")
    if not isinstance(mapper.local_table, Table):
        raise InvalidTracking(model, "it is mapped to a query, not to a table; track the underlying models")
    return str(mapper.local_table.name)


def columns_of(target: Any) -> tuple[str, ...]:
    """Return the attributes that are columns of tables, not expressions over them."""
    mapper: Mapper[Any] = attributes.instance_state(target).mapper
    found = _columns.get(mapper)
    if found is None:
        found = tuple(each.key for each in mapper.column_attrs if isinstance(each.columns[0], Column))
        _columns[mapper] = found
    return found


def changed_columns(target: Any, hidden: AbstractSet[str]) -> set[str]:
    """Return the columns that differ from the loaded values, as far as known without a query."""
    return {
        key
        for key in columns_of(target)
        if key not in hidden and attributes.get_history(target, key, PASSIVE_NO_INITIALIZE).has_changes()
    }


def identity_of(target: Any) -> str:
    """Return the primary key as text."""
    mapper: Mapper[Any] = attributes.instance_state(target).mapper
    return ",".join(map(text_of, mapper.primary_key_from_instance(target)))


def image_of(target: Any, hidden: AbstractSet[str]) -> dict[str, Any]:
    """Return the columns, reading unloaded ones on the session's own connection."""
    return {key: getattr(target, key) for key in columns_of(target) if key not in hidden}
