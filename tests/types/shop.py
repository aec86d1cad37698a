"""A program of a user's, as type checkers see it: right lines, and wrong ones marked with what they must say.

`./scripts/check` reads it with mypy, `test_types.py` with both checkers in their strict mode. An error that is
expected is ignored by name; one that does not come is an unused ignore, which is an error, too. It is never
run.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import aiosqlite
import msgspec
import psycopg
from pydantic import BaseModel
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from penstock import Cancel, Connection, Done, Exponential, Outbox, Record, Retry, Snooze, Tx, context

outbox = Outbox("sqlite:///shop.db", retry=Exponential(max_retries=5))


# --- events --------------------------------------------------------------------------------------


@outbox.event("order.placed", key="order_id")
@dataclass
class OrderPlaced:
    order_id: str
    cents: int


@outbox.event("order.paid", key=lambda event: str(event.order_id), aliases="order.settled")
class OrderPaid(msgspec.Struct):
    order_id: str


@outbox.event("invoice.sent", key="number", topic="billing", headers={"currency": "currency"})
class InvoiceSent(BaseModel):
    number: str
    currency: str


assert_type(OrderPlaced("o-1", 1), OrderPlaced)  # the decorator gives the class back
OrderPlaced("o-1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
outbox.event("order.lost", key=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- publishing ----------------------------------------------------------------------------------


def twice(n: int) -> int:
    return n * 2


def publish(conn: sqlite3.Connection) -> None:
    assert_type(outbox.publish(conn, "order.placed", {"order_id": "o-1"}, key="o-1"), str)
    outbox.publish(conn, "order.gone", None, key="o-1", headers={"by": "me"}, at=timedelta(hours=1))
    outbox.publish(conn, "order.placed", 5)
    outbox.publish(conn, OrderPlaced("o-1", 4200), token="once")
    outbox.publish(conn, OrderPaid("o-1"), at=datetime(2030, 1, 1, tzinfo=UTC))
    outbox.publish(conn, InvoiceSent(number="1", currency="EUR"))
    many: list[dict[str, object]] = [{"type": "order.placed", "value": 1}]
    assert_type(outbox.publish_many(conn, many), list[str])
    outbox.publish_many(conn, [OrderPlaced("o-1", 1), OrderPaid("o-1"), {"type": "t", "value": 1}])

    outbox.publish(conn, 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, "order.placed")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, {"order_id": "o-1"})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, None)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, OrderPlaced)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, 5, "order.placed")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, "order.placed", 1, key=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, "order.placed", 1, at=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish_many(conn, ["order.placed"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def connections(
    server: "psycopg.Connection[tuple[object, ...]]",
    session: Session,
    scoped: scoped_session[Session],
    engine: Engine,
    path: str,
) -> None:
    outbox.publish(server, "t", 1)
    outbox.publish(session, "t", 1)
    outbox.publish(scoped, "t", 1)
    with engine.begin() as conn:
        outbox.publish(conn, OrderPaid("o-1"))
        outbox.cancel(conn, key="o-1")
    with outbox.transaction() as tx:
        assert_type(tx, Tx)
        outbox.publish(tx, "t", 1)
        assert_type(tx.execute("SELECT n FROM orders WHERE id = ?", ("o-1",)).fetchall(), list[tuple[Any, ...]])
        tx.commit()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        if isinstance(tx, sqlite3.Connection):
            tx.create_function("twice", 1, twice)
    assert_type(outbox.cancel(server, "id"), int)
    assert_type(outbox.reschedule(server, "id", timedelta(hours=1)), bool)
    assert_type(outbox.reschedule(server, key="o-1", at=timedelta(hours=1)), int)
    assert_type(outbox.published(None, "once"), str | None)

    outbox.publish(path, "t", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(engine, "t", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.cancel(path, key="o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    outbox.reschedule(server, "id", 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def publish_async(
    file: aiosqlite.Connection,
    server: "psycopg.AsyncConnection[tuple[object, ...]]",
    conn: AsyncConnection,
    session: AsyncSession,
    scoped: async_scoped_session[AsyncSession],
) -> None:
    assert_type(await outbox.apublish(file, "t", 1), str)
    await outbox.apublish(server, OrderPaid("o-1"))
    await outbox.apublish_many(conn, [OrderPaid("o-1")])
    await outbox.acancel(session, key="o-1")
    await outbox.apublish(scoped, "t", 1)
    assert_type(await outbox.areschedule(session, "id", timedelta(hours=1)), bool)

    await outbox.apublish(file, 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(file, "t", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    with closing(sqlite3.connect("shop.db")) as sync:
        await outbox.apublish(sync, "t", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def shared(conn: Connection) -> str:
    """A function of the user's that takes whatever `publish` takes."""
    return outbox.publish(conn, OrderPaid("o-1"))


def again(conn: sqlite3.Connection) -> int:
    """Work for `run_in_tx` may name the class of its driver."""
    shared(conn)
    return 1


assert_type(outbox.run_in_tx(again), int)


# --- handlers ------------------------------------------------------------------------------------


@outbox.handler("order.placed", group="mailer", retry=Exponential(max_retries=3), on_failure="alone")
def of_record(record: Record) -> None:
    assert_type(record.key, str | None)
    assert_type(record.headers, dict[str, str | None])
    outbox.publish(record.tx, OrderPaid("o-1"))
    row = record.tx.execute("UPDATE orders SET paid = 1 WHERE id = ?", (record.key,)).fetchone()
    assert row is not None
    record.tx.rollback()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@outbox.handler(group="typed", start="latest", on_exhausted="release", lanes="partition")
def of_event(event: OrderPlaced) -> Retry | Snooze | Cancel | None:
    return Retry(timedelta(seconds=1)) if event.cents else None


@outbox.handler("order.*", group="both", timeout=timedelta(seconds=5), rate="5/min")
async def of_both(event: OrderPaid, record: Record) -> Done:
    return Done()


@outbox.handler(group="lists", batch=100, concurrency=2)
def of_lists(records: list[Record]) -> Sequence[Retry | None]:
    return [None for _ in records]


@outbox.handler(group="typed-lists", batch=100)
async def of_typed_lists(events: list[OrderPaid]) -> None: ...


def told(record: Record, reason: str) -> None: ...


@outbox.handler(lambda record: record.value == 1, group="predicate", fallback=told, transaction=True)
def of_predicate(record: Record) -> None: ...


class Mailer:
    def wants(self, record: Record) -> bool:
        return record.late

    @outbox.handler(wants, group="methods")
    def send(self, record: Record) -> None: ...


assert_type(outbox.register(Mailer()), Mailer)
Mailer().send(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(of_event(OrderPlaced("o-1", 1)), Retry | Snooze | Cancel | None)  # its own type is kept
of_record("o-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


outbox.handler("t", group="g", start="soonest")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.handler("t", group="g", on_failure="stop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.handler("t", group="g", on_exhausted="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.handler("t", group="g", lanes="topic")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.handler("t", group="g", wrong=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
outbox.handler("t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@outbox.handler("t", group="g")  # type: ignore[type-var]  # pyright: ignore[reportArgumentType, reportUntypedFunctionDecorator]
def answers_a_number(record: Record) -> int:
    return 5


@outbox.listener("order.*")
def heard(event: OrderPaid) -> int:
    return 1


@outbox.context
def tenant() -> Mapping[str, str]:
    return {"tenant": "acme"}


outbox.context(heard)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
with context(user="me"):
    pass


# --- models --------------------------------------------------------------------------------------

orders = outbox.repository(OrderPlaced, "orders", id="order_id", on=("insert", "delete"), value="image")


@orders.inserts
def insert(conn: sqlite3.Connection, order: OrderPlaced) -> OrderPlaced:
    return order


def write(conn: sqlite3.Connection) -> None:
    assert_type(insert(conn, OrderPlaced("o-1", 1)), OrderPlaced)
    assert_type(orders.updated(conn, OrderPlaced("o-1", 1)), list[str])
    orders.updated(conn, OrderPaid("o-1"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


outbox.track(OrderPlaced, on="insert", names={"insert": "order.made"})
outbox.track(OrderPlaced, on="upsert")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.track(OrderPlaced, on=("insert", "upsert"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outbox.track(OrderPlaced, value="all")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- running -------------------------------------------------------------------------------------

assert_type(outbox.drain().delivered, int)
outbox.run(partitions=range(4))
