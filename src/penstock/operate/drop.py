"""Drops the tables of a store, whose rows are lost for good, or declares it restored from a backup."""

from dataclasses import dataclass

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.database.migrations import check, drop_script, known_version, state, steps_after
from penstock.errors import SchemaBehind, SchemaMissing, SchemaTooNew, StoreBusy
from penstock.log.store import Store

from . import audit
from .members import living
from .operation import operation


@dataclass(frozen=True, slots=True)
class Losses:
    """How much is lost with the tables."""

    topics: int
    records: int
    staged: int
    scheduled: int
    groups: int
    dead: int
    members: int


@operation
def losses(store: Store, *, clock: Clock = SYSTEM) -> Losses:
    """Return how much would be lost. Raises SchemaMissing, SchemaBehind, SchemaTooNew, SchemaUnreleased."""
    check(store.database)
    return store.database.look(lambda tx: _counted(tx, store, clock))


@operation
def drop(store: Store, *, force: bool = False, clock: Clock = SYSTEM) -> Losses:
    """Drop every table of Penstock, of this prefix and schema only; return how much was lost.

    Raises SchemaMissing, SchemaBehind, SchemaTooNew, SchemaUnreleased, and StoreBusy while members live, or
    WriterElsewhere, unless forced.
    """
    check(store.database)
    if not force:
        store.log.claim()
    database = store.database

    def work(tx: Transaction) -> Losses:
        database.dialect.serialize_migrations(tx.conn)
        lost = losses_in(tx, store, force=force, clock=clock)
        database.dialect.run_script(tx.conn, drop_script(database.dialect.name, database.names))
        return lost

    return database.run(work)


def losses_in(tx: Transaction, store: Store, *, force: bool = False, clock: Clock = SYSTEM) -> Losses:
    """Return how much a drop in this transaction would lose.

    Raises SchemaMissing, SchemaBehind, SchemaTooNew, SchemaUnreleased, and StoreBusy while members live, unless forced.
    """
    database = store.database
    found, known = state(tx, database), known_version(database)
    if not found.version:
        raise SchemaMissing(database.names.table("meta"))
    if steps_after(database, found):
        raise SchemaBehind(found.version, known)
    if found.version > known:  # a newer schema may have tables that this code does not know and would leave behind
        raise SchemaTooNew(found.version, known)
    busy = sorted(living(tx, clock))
    if busy and not force:
        raise StoreBusy(busy)
    return _counted(tx, store, clock)


def _counted(tx: Transaction, store: Store, clock: Clock) -> Losses:
    log = store.log_in(tx)
    goes = store.is_one or not store.has_outbox  # a log in files cannot be read without its tables
    topics = log.topics() if goes else []  # elsewhere it stays
    records = sum(end - start for each in topics for start, end in log.all_bounds(each).values())
    ((staged, scheduled, groups, dead),) = tx.rows("operate", "store_counted")
    return Losses(len(topics), records, staged, scheduled, groups, dead, len(living(tx, clock)))


@operation
def restored(store: Store, *, clock: Clock = SYSTEM, actor: str | None = None) -> int:
    """Raise the incarnation of the log and return it: pipelines that know the old one stop."""

    def change(tx: Transaction) -> int:
        log = store.log_in(tx)
        raised = log.raise_incarnation(log.identity().incarnation).incarnation
        for topic in log.topics():
            # If the log was restored and its readers were not, new records come after all they have passed.
            log.skip_to(topic, dict(tx.rows("operate", "cursors_highest", topic_id=topic.id)))
        audit.write(tx, "restored", {"incarnation": raised}, 1, own_ms(clock), actor=actor)
        return raised

    return store.database.run(change)
