"""Handlers that write by Django's models in the transaction of their cursor; run inside a project."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, models, transaction
from django.db.transaction import TransactionManagementError

from penstock import Fixed, Outbox, Record
from penstock.django import database_url, fresh_connections, models_on
from penstock.errors import NoTransaction, TransactionEnded, UnsupportedConnection
from penstock.operate.dead import dead_letters


class Entry(models.Model):  # type: ignore[misc]  # Django brings no types
    """A row with what a database writes and reads in its own way."""

    n = models.IntegerField(unique=True)
    at = models.DateTimeField(default=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    price = models.DecimalField(max_digits=8, decimal_places=2, default="1.25")
    notes = models.JSONField(default=dict)

    class Meta:
        app_label = "shop"


class Ledger:
    """An outbox with one handler at a time, and the rows that it writes."""

    def __init__(self) -> None:
        self.outbox = Outbox(database_url())
        self.groups = 0
        with connection.schema_editor() as editor:
            editor.create_model(Entry)

    def handled(self, work: Callable[[Record], None], *values: int, **options: Any) -> Any:
        """Publish values and have them handled by a function; return the counts."""
        self.groups += 1
        outbox = Outbox(database_url(), retry=Fixed(max_retries=0))
        type = f"t{self.groups}"
        outbox.handler(type, group=type, id=type, transaction=True, **options)(work)
        with transaction.atomic():
            for value in values:
                self.outbox.publish(connection, type, value)
        counts = outbox.drain()
        self.reason = "".join(each.reason for each in dead_letters(outbox, group=type).items)
        outbox.close()
        return counts

    def written(self) -> list[int]:
        return list(Entry.objects.order_by("n").values_list("n", flat=True))


def writes_commit_with_the_cursor(ledger: Ledger) -> None:
    """And what is written is read as Django's own connection reads it."""

    @fresh_connections
    def work(record: Record) -> None:
        with models_on(record.tx) as joined:
            assert connection.connection is record.tx
            assert joined is connections["default"]
            made = Entry.objects.create(n=record.value, notes={"a": [record.value]})
            read = Entry.objects.get(pk=made.pk)
            assert (read.at, str(read.price), read.notes) == (made.at, "1.25", {"a": [record.value]})
            assert Entry.objects.filter(at__year=2026, at__minute=4, n=record.value).exists()
            assert [each.n for each in Entry.objects.filter(n=record.value).iterator()] == [record.value]
            ledger.outbox.publish(connection, "noted", record.value)
        ledger.outbox.publish(record.tx, "noted", record.value)
        assert connection.connection is not record.tx

    before = connections["default"]
    counts = ledger.handled(work, 1, 2, 3)
    assert (counts.delivered, counts.sequenced) == (3, 9), ledger.reason  # each has published two
    assert connections["default"] is before
    assert ledger.written() == [1, 2, 3]


def what_fails_leaves_nothing(ledger: Ledger) -> None:
    def work(record: Record) -> None:
        with models_on(record.tx):
            Entry.objects.create(n=record.value)
            if record.value == 11:
                raise ValueError("no")

    counts = ledger.handled(work, 10, 11, 12)
    assert (counts.delivered, counts.dead) == (2, 1)
    assert ledger.written() == [1, 2, 3, 10, 12]


def a_block_that_raises_takes_back_its_own(ledger: Ledger) -> None:
    def work(record: Record) -> None:
        with models_on(record.tx):
            Entry.objects.create(n=20)
            with pytest.raises(IntegrityError), transaction.atomic():
                Entry.objects.bulk_create([Entry(n=21), Entry(n=20)], batch_size=1)
        with pytest.raises(IntegrityError), models_on(record.tx):
            Entry.objects.bulk_create([Entry(n=22), Entry(n=20)], batch_size=1)
        with models_on(record.tx):
            Entry.objects.create(n=23)

    assert ledger.handled(work, 1).delivered == 1, ledger.reason
    assert ledger.written()[-2:] == [20, 23]


def nothing_ends_it(ledger: Ledger) -> None:
    def work(record: Record) -> None:
        with models_on(record.tx) as joined:
            for end in (joined.commit, joined.rollback, lambda: joined.set_autocommit(True)):
                with pytest.raises(TransactionManagementError):
                    end()
            with pytest.raises(TransactionManagementError, match="publish an event on the connection"):
                transaction.on_commit(print)
            Entry.objects.create(n=30)
        with pytest.raises(TransactionEnded, match="asked for another connection"):
            joined.cursor()
        with pytest.raises(TransactionEnded, match=r"connection\.close\(\) was called"), models_on(record.tx):
            connection.close()

    assert ledger.handled(work, 1).delivered == 1, ledger.reason
    assert ledger.written()[-1] == 30


def the_session_stays_as_it_was(ledger: Ledger) -> None:
    """Its time zone is Django's only in the block; its row factory does not matter."""

    def work(record: Record) -> None:
        tx: Any = record.tx
        own, tx.row_factory = tx.row_factory, lambda *_: dict
        with models_on(record.tx):
            Entry.objects.create(n=40, at=datetime(2026, 7, 1, tzinfo=UTC))
            assert Entry.objects.get(n=40).at == datetime(2026, 7, 1, tzinfo=UTC)
        tx.row_factory = own

    def abroad(record: Record) -> None:
        record.tx.execute("SET LOCAL TIME ZONE 'Asia/Tokyo'")
        work(record)
        assert record.tx.execute("SHOW TimeZone").fetchone() == ("Asia/Tokyo",)

    assert ledger.handled(abroad if connection.vendor == "postgresql" else work, 1).delivered == 1, ledger.reason


def another_database_is_refused(ledger: Ledger) -> None:
    def work(record: Record) -> None:
        with pytest.raises(UnsupportedConnection, match="'other': Django's is"), models_on(record.tx, using="other"):
            pass
        unknown: Any = object()
        with pytest.raises(UnsupportedConnection, match=r"pass record\.tx"), models_on(unknown):
            pass

    assert ledger.handled(work, 1).delivered == 1, ledger.reason
    with ledger.outbox.transaction() as tx:
        pass
    with pytest.raises(NoTransaction, match=r"pass record\.tx"), models_on(tx):
        pass


def main() -> None:
    ledger = Ledger()
    for step in (
        writes_commit_with_the_cursor,
        what_fails_leaves_nothing,
        a_block_that_raises_takes_back_its_own,
        nothing_ends_it,
        the_session_stays_as_it_was,
        another_database_is_refused,
    ):
        step(ledger)
        print("passed", step.__name__, flush=True)
    ledger.outbox.close()
