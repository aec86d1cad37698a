"""Tracking of SQLAlchemy's models: the writes of a flush are staged at its end, in its transaction.

Mapper events report each row before and after its statement; the changes are collected on the session and staged in
`after_flush`, by one statement per connection. So an event never comes before the statement that locks its row, and a
failing event fails the flush. Bulk statements, and the database's cascades and triggers, are not tracked.

Several outboxes may track one model. Events go to the database of the row's own connection, so the outboxes whose store
is that database stage them, once for each set of tables. If no address matches (an alias, a pooler, an engine with a
`creator`), those for that kind of database do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from os.path import realpath
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Column, Connection, Table, event, inspect, make_url
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper, Session, attributes, object_session
from sqlalchemy.orm.base import PASSIVE_NO_INITIALIZE
from sqlalchemy.orm.exc import ObjectDeletedError

from penstock.database.naming import Names
from penstock.errors import InvalidTracking

from .block import Block
from .declaration import Declaration, blaming_column, parts_of, text_of, with_metadata

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


_KINDS = {"postgres": "postgresql"}  # other names of a kind
_PORTS = {"postgresql": 5432}  # where an address names none


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The address of the database of a store or a connection. Equal addresses are one database."""

    kind: str
    host: str
    port: int
    database: str


def address_of(url: str | URL) -> StoreAddress:
    """Return the address in a URL of an outbox or an engine."""
    made = make_url(url)
    kind = _KINDS.get(made.get_backend_name(), made.get_backend_name())
    if kind == "sqlite":
        return StoreAddress(kind, "", 0, realpath(made.database or ""))
    host = made.host or made.query.get("host") or "localhost"
    return StoreAddress(kind, str(host), made.port or _PORTS.get(kind, 0), made.database or "")


def stagers_of(url: URL, several: Sequence["Tracker"]) -> Iterable["Tracker"]:
    """Return those of several that stage the writes on an engine's connection, given its URL."""
    if len(several) == 1:
        return several
    here = address_of(url)
    same = [each for each in several if each.address == here]
    alike = [each for each in several if each.address.kind == here.kind]
    chosen: dict[Names, Tracker] = {}
    for each in same or alike or several:
        chosen.setdefault(each.names, each)
    return chosen.values()


_PENDING = "penstock.tracking"  # the key in a session's `info` for the changes of its flush so far

PublishMany = Callable[[Connection, Sequence[Mapping[str, Any]]], object]


@dataclass(slots=True)
class Change:
    """One object that a flush writes."""

    action: str
    declaration: Declaration
    target: Any
    connection: Connection
    changed: set[str] = field(default_factory=set)
    parts: list[dict[str, Any]] | None = None  # of a deleted object: its events, made while it existed
    is_written: bool = True

    def counts(self, block: Block) -> bool:
        """Return whether it has events; an update that has changed no column does so only when forced."""
        return self.action != "update" or bool(self.changed) or block.force


class Tracker:
    """The tracked models of one outbox; `address` and `names` identify its store and tables."""

    def __init__(self, publish_many: PublishMany, block: Callable[[], Block], *, url: str, names: Names) -> None:
        self._publish_many, self._block = publish_many, block
        self.address, self.names = address_of(url), names
        self._declared: dict[type, Declaration] = {}

    def add(self, declaration: Declaration) -> None:
        """Listen to a model and those derived from it. Raises InvalidTracking."""
        model = declaration.model
        if model in self._declared:
            raise InvalidTracking(model, "it is already tracked; declare all its events in one call of track")
        self._declared[model] = declaration
        for name, listener in (
            ("before_update", self._before_update),
            ("before_delete", self._before_delete),
            ("after_insert", self._after_insert),
            ("after_update", self._before_update),  # again: other listeners may have made changes since
            ("after_delete", self._after_delete),
        ):
            event.listen(model, name, listener, propagate=True)
        if not event.contains(Session, "after_flush", _after_flush):
            event.listen(Session, "before_flush", _before_flush)
            event.listen(Session, "after_flush", _after_flush)

    def stage(self, changes: Sequence[Change]) -> None:
        """Publish the changes of a flush, each on the connection that wrote it."""
        block = self._block()
        events: dict[Connection, list[dict[str, Any]]] = {}
        for change in changes:
            if change.is_written and not block.skips(change.target) and change.counts(block):
                made = self._parts(change) if change.parts is None else change.parts
                events.setdefault(change.connection, []).extend(with_metadata(made, block))
        for connection, several in events.items():
            with blaming_column(several):
                self._publish_many(connection, several)

    def _parts(self, change: Change) -> list[dict[str, Any]]:
        target, changed = change.target, None
        if change.action == "update":
            changed = [key for key in columns_of(target) if key in change.changed]
        return parts_of(
            change.declaration, change.action, target, identity=identity_of(target), image_of=image_of, changed=changed
        )

    # --- SQLAlchemy's mapper events ---------------------------------------------------------------

    def _before_update(self, mapper: Any, connection: Connection, target: Any) -> None:
        """Record the changed columns before the statement, after which SQLAlchemy forgets computed ones."""
        if change := self._change("update", connection, target):
            change.changed |= changed_columns(target, change.declaration.exclude)

    def _after_insert(self, mapper: Any, connection: Connection, target: Any) -> None:
        self._change("insert", connection, target)

    def _before_delete(self, mapper: Any, connection: Connection, target: Any) -> None:
        """Make the events while the row can still be read; `after_delete` confirms the deletion."""
        if self._block().skips(target):
            return
        if (change := self._change("delete", connection, target)) is not None:
            change.is_written = False
            with suppress(ObjectDeletedError):  # another transaction has deleted it: no event of ours
                change.parts = self._parts(change)

    def _after_delete(self, mapper: Any, connection: Connection, target: Any) -> None:
        if change := self._change("delete", connection, target):
            change.is_written = change.parts is not None

    def _change(self, action: str, connection: Connection, target: Any) -> Change | None:
        """Return the change of an object in this flush, creating it if needed; None if it is not tracked."""
        declaration, session = self._declaration(target), object_session(target)
        if declaration is None or action not in declaration.types or session is None:
            return None
        return self._pending(session).setdefault(id(target), Change(action, declaration, target, connection))

    def _pending(self, session: Session) -> dict[int, Change]:
        by_tracker: dict[Tracker, dict[int, Change]] = session.info.setdefault(_PENDING, {})
        return by_tracker.setdefault(self, {})

    def _declaration(self, target: Any) -> Declaration | None:
        return next((self._declared[cls] for cls in type(target).__mro__ if cls in self._declared), None)


def _before_flush(session: Session, flush_context: Any, instances: Any) -> None:
    session.info.pop(_PENDING, None)  # of a flush that failed


def _after_flush(session: Session, flush_context: Any) -> None:
    by_tracker: dict[Tracker, dict[int, Change]] = session.info.pop(_PENDING, {})
    for tracker, changes in by_tracker.items():
        mine = []
        for key, change in changes.items():
            several = [each for each, theirs in by_tracker.items() if key in theirs]
            if tracker in stagers_of(change.connection.engine.url, several):
                mine.append(change)
        tracker.stage(mine)
