"""Events declared on plain models, on every engine: what a marked function writes is published with it."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import aiosqlite
import psycopg
import pytest

from penstock.errors import InvalidTracking, NoTransaction
from penstock.model.record import Record
from penstock.outbox.tracking.repository import Repository
from tests.conformance.engines import StoreEngine, connect
from tests.suites.handling_suite import Seen, subscribe


@dataclass
class Order:
    """A row of the program's."""

    id: int
    cents: int
    card: str = ""


class Shop:
    """The program: a table, and functions that write it with SQL of their own."""

    def __init__(self, engine: StoreEngine, **options: Any) -> None:
        self.engine, self.seen = engine, Seen()
        self.orders: Repository[Order] = engine.outbox.repository(Order, "orders", **options)
        with engine.connect() as conn:
            conn.execute("CREATE TABLE orders (id integer PRIMARY KEY, cents integer)")
            conn.commit()
        subscribe(engine.outbox, "audit", self.seen)
        self.add = self.orders.inserts(self._add)
        self.save = self.orders.updates(self._save)
        self.remove = self.orders.deletes(self._remove)

    def _add(self, conn: Any, order: Order) -> None:
        conn.execute(f"INSERT INTO orders VALUES ({order.id}, {order.cents})")

    def _save(self, conn: Any, order: Order) -> int:
        return int(conn.execute(f"UPDATE orders SET cents = {order.cents} WHERE id = {order.id}").rowcount)

    def _remove(self, conn: Any, order: Order) -> bool:
        return bool(conn.execute(f"DELETE FROM orders WHERE id = {order.id}").rowcount)

    def delivered(self) -> list[Record]:
        """Return what has been published since the last time."""
        self.seen.clear()
        self.engine.outbox.drain()
        return list(self.seen)

    def rows(self) -> int:
        """Return how many orders there are."""
        with self.engine.connect() as conn:
            return int(conn.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_each_write_gives_its_event_with_no_further_call(engine: StoreEngine) -> None:
    shop = Shop(engine, exclude="card", owner="card")
    order = Order(7, 1, card="4111")
    with engine.connect() as conn:
        shop.add(conn, order)
        shop.save(conn, replace(order, cents=2))
        shop.remove(conn, replace(order, cents=2))
        conn.commit()
    inserted, updated, deleted = shop.delivered()
    assert [(each.type, each.key) for each in (inserted, updated, deleted)] == [
        ("orders.inserted", "7"),
        ("orders.updated", "7"),
        ("orders.deleted", "7"),
    ]
    assert [each.value for each in (inserted, updated, deleted)] == [
        {"id": 7, "cents": 1},
        {"id": 7, "cents": 2},
        {"id": 7, "cents": 2},
    ]
    assert inserted.headers == {"action": "INSERT", "entity": "orders:7"}
    assert [updated.headers["action"], deleted.headers["action"]] == ["UPDATE", "DELETE"]


def test_a_rollback_takes_row_and_event(engine: StoreEngine) -> None:
    shop = Shop(engine)
    with engine.connect() as conn:
        shop.add(conn, Order(1, 1))
        conn.rollback()
        shop.add(conn, Order(2, 2))
        conn.commit()
    assert [each.key for each in shop.delivered()] == ["2"]
    assert shop.rows() == 1


def test_a_write_that_fails_gives_no_event(engine: StoreEngine) -> None:
    shop = Shop(engine)
    with engine.connect() as conn:
        shop.add(conn, Order(1, 1))
        conn.commit()
        with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
            shop.add(conn, Order(1, 1))
        conn.rollback()
    assert len(shop.delivered()) == 1


def test_what_raises_before_it_writes_leaves_no_event_though_the_rest_commits(engine: StoreEngine) -> None:
    shop = Shop(engine)

    @shop.orders.inserts
    def decline(conn: Any, order: Order) -> None:
        raise LookupError(order.id)

    with engine.connect() as conn:
        shop.add(conn, Order(1, 1))
        with pytest.raises(LookupError):
            decline(conn, Order(2, 2))
        conn.commit()
    assert [each.key for each in shop.delivered()] == ["1"]


def test_a_write_that_hits_no_row_gives_no_event_unless_forced(engine: StoreEngine) -> None:
    shop = Shop(engine)
    with engine.connect() as conn:
        assert shop.save(conn, Order(1, 1)) == 0
        assert shop.remove(conn, Order(1, 1)) is False
        with engine.outbox.tracking(force=True):
            shop.save(conn, Order(1, 1))
        conn.commit()
    assert [each.type for each in shop.delivered()] == ["orders.updated"]


def test_several_names_fan_out_and_values_differ_by_type(engine: StoreEngine) -> None:
    names = {"insert": ("order.placed", "audit.order"), "delete": "order.gone"}
    shop = Shop(
        engine,
        on=("insert", "delete"),
        names=names,
        value={"audit.order": "reference", "order.gone": lambda order: None},
        key=lambda order: f"customer-{order.cents}",
    )
    with engine.connect() as conn:
        shop.add(conn, Order(1, 5))
        shop.save(conn, Order(1, 5))
        shop.remove(conn, Order(1, 5))
        conn.commit()
    found = [(each.type, each.value, each.key) for each in shop.delivered()]
    assert found == [
        ("order.placed", {"id": 1, "cents": 5, "card": ""}, "customer-5"),
        ("audit.order", "orders:1", "customer-5"),
        ("order.gone", None, "customer-5"),
    ]


def test_a_block_skips_forces_and_adds_metadata(engine: StoreEngine) -> None:
    shop = Shop(engine)
    outbox = engine.outbox
    with engine.connect() as conn:
        with outbox.tracking(skip=True, metadata={"user": "ada"}):
            shop.add(conn, Order(1, 1))
            with outbox.tracking(force=True):
                shop.add(conn, Order(2, 2))
        with outbox.tracking(skip=Order):
            shop.add(conn, Order(3, 3))
        with outbox.tracking(skip=Shop):
            shop.add(conn, Order(4, 4))
        conn.commit()
    assert [(each.key, each.headers.get("user")) for each in shop.delivered()] == [("2", "ada"), ("4", None)]
    assert shop.rows() == 4


def test_a_write_is_told_of_by_hand_with_options_of_its_own(engine: StoreEngine) -> None:
    shop = Shop(engine)
    orders, one, other = shop.orders, Order(1, 1), Order(2, 2)
    with engine.connect() as conn:
        ids = orders.inserted(conn, one, other, metadata={"user": "ada"})
        assert orders.updated(conn, one, skip=True) == []
        with engine.outbox.tracking(skip=True):
            ids += orders.deleted(conn, one, force=True)
        conn.commit()
    found = shop.delivered()
    assert {each.id for each in found} == set(ids)
    assert {(each.key, each.headers["action"], each.headers.get("user")) for each in found} == {
        ("1", "INSERT", "ada"),
        ("2", "INSERT", "ada"),
        ("1", "DELETE", None),
    }


def test_a_connection_that_would_commit_by_itself_is_refused(engine: StoreEngine) -> None:
    shop = Shop(engine)
    option = {"autocommit": True} if engine.url.startswith("postgresql") else {"isolation_level": None}
    conn = connect(engine.url, **option)
    with pytest.raises(NoTransaction):
        shop.orders.inserted(conn, Order(1, 1))
    conn.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_async_functions_are_marked_in_the_same_way(engine: StoreEngine) -> None:
    shop = Shop(engine)

    @shop.orders.inserts
    async def add(conn: Any, order: Order) -> Order:
        await conn.execute(f"INSERT INTO orders VALUES ({order.id}, {order.cents})")
        return order

    async def work() -> None:
        if engine.url.startswith("postgresql"):
            conn: Any = await psycopg.AsyncConnection.connect(engine.url)
        else:
            conn = await aiosqlite.connect(engine.url.removeprefix("sqlite:///"))
        assert (await add(conn, Order(1, 1))).id == 1
        await conn.rollback()
        await add(conn, Order(2, 2))
        with engine.outbox.tracking(metadata={"user": "ada"}):
            await shop.orders.aupdated(conn, Order(2, 3))
        await shop.orders.ainserted(conn, Order(3, 3), skip=True)
        await shop.orders.adeleted(conn, Order(2, 3), force=True)
        await conn.commit()
        await conn.close()

    asyncio.run(work())
    found = shop.delivered()
    assert [(each.type, each.key) for each in found] == [
        ("orders.inserted", "2"),
        ("orders.updated", "2"),
        ("orders.deleted", "2"),
    ]
    assert [each.headers.get("user") for each in found] == [None, "ada", None]


def test_a_call_without_a_connection_writes_nothing(engine: StoreEngine) -> None:
    shop = Shop(engine)
    with pytest.raises(InvalidTracking, match="_add was called without a connection; pass the one"):
        shop.add(None, Order(1, 1))
    assert shop.rows() == 0
