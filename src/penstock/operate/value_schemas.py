"""Schemas of values: the Protobuf message by which the values of a topic convert to and from JSON.

A schema is registered for one event type of a topic or for all its types, as the name of a message and the
FileDescriptorSet that describes it (`protoc --include_imports --descriptor_set_out`). It is stored in the
store, so every process converts alike. Values are converted only on request.
"""

from dataclasses import dataclass
from datetime import datetime

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.database import Transaction
from penstock.errors import UnknownValueSchema
from penstock.log.store import Store
from penstock.model.limits import check_topic, check_type
from penstock.model.protobuf import ProtobufJson

from . import audit
from .operation import operation

ALL_TYPES = ""


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """A registered schema; `type` is empty if it applies to all types."""

    topic: str
    type: str
    message: str
    added_by: str
    added_at: datetime


@operation
def schemas(store: Store, topic: str | None = None) -> list[ValueSchema]:
    """Return all schemas, or those of a topic."""
    rows = store.database.look(lambda tx: tx.rows("operate", "value_schemas", topic=topic))
    return [ValueSchema(topic, type, message, by, from_ms(ms)) for topic, type, message, by, ms in rows]


@operation
def register(
    store: Store,
    topic: str,
    message: str,
    descriptors: bytes,
    *,
    type: str = ALL_TYPES,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> None:
    """Register a schema, replacing any existing one. Raises InvalidInput, MissingExtra."""
    check_topic(topic)
    if type != ALL_TYPES:
        check_type(type)
    ProtobufJson(message, descriptors)

    def change(tx: Transaction) -> None:
        by, now_ms = actor or audit.this_actor(), own_ms(clock)
        subject = {"topic": topic, "type": type, "message": message}
        tx.change("operate", "value_schema_remove", topic=topic, type=type)
        tx.change("operate", "value_schema_add", descriptors=descriptors, added_by=by, now_ms=now_ms, **subject)
        audit.write(tx, "value schema register", subject, 1, now_ms, actor=by)

    store.database.run(change)


@operation
def remove(store: Store, topic: str, *, type: str = ALL_TYPES, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Remove a schema; stored records stay as they are. Raises UnknownValueSchema."""

    def change(tx: Transaction) -> None:
        if not tx.change("operate", "value_schema_remove", topic=topic, type=type):
            raise UnknownValueSchema(topic, type)
        audit.write(tx, "value schema remove", {"topic": topic, "type": type}, 1, own_ms(clock), actor=actor)

    store.database.run(change)


@operation
def schema_of(store: Store, topic: str, type: str) -> ProtobufJson | None:
    """Return the converter for a type of a topic: by its own schema, or by the one for all types."""
    rows = store.database.look(lambda tx: tx.rows("operate", "value_schema_of", topic=topic, type=type))
    return ProtobufJson(rows[0][0], bytes(rows[0][1])) if rows else None
