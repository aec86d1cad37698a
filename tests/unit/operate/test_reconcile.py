"""Figures of a topic: each counted where it is, each fault with its range or its number."""

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Outbox, Record
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.errors import UnknownTopic
from penstock.log.contract import Bounds, Log, OffsetRange, Topic
from penstock.log.entry import Entry
from penstock.operate import reconcile as reconciling
from penstock.operate.reconcile import Reconciliation, TableFigures, gaps, reconcile
from penstock.operate.records import walk
from tests.suites.records import a_record


class Shop:
    """Orders and their events in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self.outbox = Outbox(f"sqlite:///{path}")
        self.outbox.migrate()
        self.database: Database = open_database(self.outbox.url, Names())
        self.run("CREATE TABLE orders (id TEXT, event TEXT)")

    def order(self, many: int, start: int = 0) -> None:
        with self.outbox.transaction() as conn:
            for n in range(start, start + many):
                event = self.outbox.publish(conn, "order.placed", {"n": n}, key=f"o-{n}")
                conn.execute("INSERT INTO orders VALUES (?, ?)", (f"o-{n}", event))

    def run(self, sql: str) -> None:
        with self.outbox.transaction() as conn:
            conn.execute(sql)

    def reconciled(self, **given: Any) -> Reconciliation:
        return reconcile(self.database, "events", **given)

    def held(self) -> list[tuple[int, int, int]]:
        """Return the places of the whole log, as tables would hold them."""
        with self.outbox.transaction() as conn:
            rows = conn.execute("SELECT partition, next_offset FROM penstock_head WHERE next_offset > 0")
            return [(partition, 0, end) for partition, end in rows.fetchall()]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.db")
    yield shop
    shop.database.close()
    shop.outbox.close()


def fill(shop: Shop, numbers: Iterable[int]) -> None:
    """Append records with these numbers as ids to one partition."""
    shop.outbox.log.create_topic("events")
    shop.outbox.log.append("events", [a_record(id=str(n)) for n in numbers], partition=0)


def deliver(shop: Shop, fail: str | None = None) -> None:
    @shop.outbox.handler(group="mailer", on_failure="dead")
    def mail(record: Record) -> None:
        assert record.key != fail

    shop.outbox.drain()


def test_all_figures_agree_when_all_is_there(shop: Shop) -> None:
    shop.order(60)
    deliver(shop)
    table = TableFigures("table", 60, shop.held())
    found = shop.reconciled(tables=[table], against="SELECT event FROM orders")
    assert found.agrees, found.figures
    assert found.line() == "reconciled: committed=60 logged=60 delivered[mailer]=60 table=60"
    assert shop.reconciled(against="SELECT id FROM orders", by="key").agrees


def test_a_deleted_row_of_the_log_is_named_by_its_range(shop: Shop) -> None:
    for n in range(5):
        shop.order(1, n)
    with shop.outbox.transaction() as conn:
        for _ in range(5):
            shop.outbox.publish(conn, "order.paid", {}, key="o-1")
    shop.outbox.drain()
    shop.run("DELETE FROM penstock_log WHERE \"offset\" IN (0, 2, 3, 5) AND key = CAST('o-1' AS BLOB)")
    (figure,) = shop.reconciled().figures
    spans = [fault.split(", ", 1)[1] for fault in figure.faults]
    assert spans == [
        "0 to before 1, is not in the log",
        "2 to before 4, is not in the log",
        "5 to before 6, is not in the log",
    ]


def test_a_group_that_waits_or_has_dead_letters_does_not_agree(shop: Shop) -> None:
    shop.order(10)
    deliver(shop, fail="o-3")
    shop.order(4, start=10)
    Outbox(shop.outbox.url).drain()
    found = shop.reconciled()
    assert found.figures[1].count == 9
    assert found.figures[1].faults == ["1 are dead letters", "4 are not delivered yet"]
    assert not shop.reconciled(groups=["mailer"]).agrees
    assert shop.reconciled(groups=[]).agrees
    assert shop.reconciled(groups=["nobody"]).figures[1].faults == ["no such group reads this topic"]


def test_what_no_handler_wants_is_passed_over_and_not_delivered(shop: Shop) -> None:
    shop.order(3)
    with shop.outbox.transaction() as conn:
        for type in ("order.paid", "order.paid", "order.shipped"):
            shop.outbox.publish(conn, type, {}, key="o-1")
    shop.outbox.handler("order.placed", group="mailer", id="mail")(lambda record: None)
    shop.outbox.drain()
    found = shop.reconciled()
    assert found.line() == "reconciled: logged=6 delivered[mailer]=3 passed_over[mailer]=3"
    assert found.figures[2].notes == ["2 of type order.paid had no handler", "1 of type order.shipped had no handler"]
    later = Outbox(shop.outbox.url)  # there is a handler now, so what was passed over comes late
    later.handler("order.*", group="mailer", id="mail")(lambda record: None)
    later.drain()
    later.close()
    assert shop.reconciled().line() == "reconciled: logged=6 delivered[mailer]=6"


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_table_is_compared_with_one_type(shop: Shop, by: str) -> None:
    shop.order(3)
    with shop.outbox.transaction() as conn:
        shop.outbox.publish(conn, "customer.new", {}, key="c-1")
    shop.outbox.drain()
    against = "SELECT event FROM orders" if by == "id" else "SELECT id FROM orders"
    assert not shop.reconciled(against=against, by=by).agrees
    found = shop.reconciled(against=against, by=by, type="order.placed")
    assert found.agrees, found.figures
    assert found.line() == "reconciled: committed=3 logged=4 logged[order.placed]=3"
    shop.run("DELETE FROM orders WHERE id = 'o-1'")
    assert not shop.reconciled(against=against, by=by, type="order.placed").agrees


def test_tables_with_less_or_more_do_not_agree(shop: Shop) -> None:
    shop.order(30)
    shop.outbox.drain()
    (partition, _, end), *rest = shop.held()
    less = shop.reconciled(tables=[TableFigures("table", 30 - end, rest)]).figures[1]
    assert less.faults == [f"partition {partition}, 0 to before {end}, is not in the tables"]
    doubled = shop.reconciled(tables=[TableFigures("table", 33, shop.held())]).figures[1]
    assert doubled.faults == ["3 rows are duplicates"]
    more = [(partition, 0, end + 2), *rest]
    beyond = shop.reconciled(tables=[TableFigures("table", 32, more)]).figures[1]
    assert beyond.faults == [f"partition {partition}, {end} to before {end + 2}, is in the tables but not in the log"]


def test_an_order_without_an_event_and_an_event_without_an_order_are_named(shop: Shop) -> None:
    shop.order(3)
    shop.outbox.drain()
    shop.run("DELETE FROM orders WHERE id = 'o-1'")
    shop.run("INSERT INTO orders VALUES ('o-9', 'x')")
    found = shop.reconciled(against="SELECT id FROM orders", by="key").figures[0]
    assert found.faults == ["o-9 has no record in the log", "o-1 is in the log but not selected"]


def test_what_nobody_has_moved_into_the_log_is_told(shop: Shop) -> None:
    """A stranger saw "reconciled" with 250 committed events that no worker had moved."""
    shop.order(2)
    shop.outbox.drain()
    shop.order(3, start=2)
    found = shop.reconciled()
    assert not found.agrees
    assert (found.figures[0].name, found.figures[0].count) == ("staged", 3)
    assert found.figures[0].faults == ["3 events are committed but not in the log yet; a worker moves them"]
    shop.outbox.drain()
    assert shop.reconciled().agrees


def test_a_key_may_have_several_events_and_rows(shop: Shop) -> None:
    shop.order(3)
    shop.order(2)
    shop.outbox.drain()
    shop.run("DELETE FROM orders WHERE id = 'o-0'")
    shop.run("INSERT INTO orders VALUES ('o-0', 'x')")
    assert shop.reconciled(against="SELECT id FROM orders", by="key").agrees


def test_ids_that_stand_twice_are_counted_however_few_are_remembered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop, [*range(50), 7, 7, 48])
    for most in (1000, 53, 10, 1):
        monkeypatch.setattr(reconciling, "_IDS", most)
        (figure,) = shop.reconciled().figures
        assert (figure.count, figure.faults) == (53, ["3 records have the id of another record"])


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "_IDS", 5_000)
    fill(shop, [])
    shop.reconciled()  # what is made once and kept is no growth
    peaks = []
    for many in (range(10_000), range(10_000, 40_000)):
        for start in range(many.start, many.stop, 1000):
            fill(shop, range(start, start + 1000))
        tracemalloc.start()
        assert shop.reconciled().agrees
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0], "four times the records"


def test_what_retention_deletes_meanwhile_is_not_missing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is counted again from where it begins then; a real gap is still told."""
    fill(shop, range(3_000))

    def walk_while_trimming(log: Log, topic: Topic, partition: int, bounds: Bounds) -> Iterator[list[Entry]]:
        for number, entries in enumerate(walk(log, topic, partition, bounds)):
            if number == 0:
                log.trim(topic, [OffsetRange(partition, 0, 1_500)])
            yield entries

    monkeypatch.setattr(reconciling, "walk", walk_while_trimming)
    (figure,) = shop.reconciled(groups=[]).figures
    assert (figure.count, figure.faults) == (1_500, [])
    monkeypatch.undo()
    shop.run('DELETE FROM penstock_log WHERE "offset" = 2000')
    (figure,) = shop.reconciled(groups=[]).figures
    assert (figure.count, figure.faults) == (1_499, ["partition 0, 2000 to before 2001, is not in the log"])


def test_an_unknown_topic_is_refused(shop: Shop) -> None:
    with pytest.raises(UnknownTopic):
        reconcile(shop.database, "nope")


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_what_is_held_and_what_is_missing_make_the_whole(there: set[int], start: int, end: int) -> None:
    lost = gaps([(0, n, n + 1) for n in there], {0: Bounds(start, end)})
    named = [n for gap in lost for n in range(gap.low, gap.high)]
    assert named == [n for n in range(start, end) if n not in there]
