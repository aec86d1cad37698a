"""Sessions of SQLAlchemy: what they have not written yet comes first, and the right connection is taken."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from penstock.errors import UnsupportedConnection
from tests.conformance.async_callers import alchemy_engine
from tests.conformance.callers import sqlalchemy_engine
from tests.conformance.engines import StoreEngine
from tests.conformance.tracked_shop import Shop, opened_shop


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """Give a shop on a store that SQLAlchemy can reach; its models are not tracked."""
    store = StoreEngine(request.getfixturevalue(f"migrated_{request.param}"))
    with opened_shop(store.outbox, store.url) as opened:
        yield opened
    store.close()


def writes(engine: sqlalchemy.Engine) -> list[str]:
    """Return a list that is filled with the tables that an engine writes to from now on."""
    tables: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        words = statement.split()
        if words[0] in ("INSERT", "UPDATE"):
            tables.append(words[2] if words[0] == "INSERT" else words[1])

    sqlalchemy.event.listen(engine, "before_cursor_execute", note)
    return tables


def test_what_a_session_has_not_written_comes_before_the_event(shop: Shop) -> None:
    """Design rule F10: for one key, publish after the statement that locks its row."""
    tables = writes(shop.engine)
    with shop.session() as session:
        session.add(shop.Order(id=1))
        shop.outbox.publish(session, "order.placed", {}, key="1")
        session.commit()
    assert tables == ["orders", "penstock_staged"]
    assert shop.types() == ["order.placed"]


def test_a_session_that_shall_not_flush_by_itself_does_not(shop: Shop) -> None:
    tables = writes(shop.engine)
    with shop.session() as session:
        session.add(shop.Order(id=1))
        with session.no_autoflush:
            shop.outbox.publish(session, "order.placed", {}, key="1")
        session.commit()
    assert tables == ["penstock_staged", "orders"]


def test_a_listener_of_a_flush_may_publish_on_its_session(shop: Shop) -> None:
    with shop.session() as session:

        @sqlalchemy.event.listens_for(session, "after_flush")
        def _publish(flushed: Session, context: Any) -> None:
            shop.outbox.publish(flushed, "order.placed", {}, key="1")

        session.add(shop.Order(id=1))
        session.commit()
    assert shop.types() == ["order.placed"]


def test_a_session_that_has_not_begun_begins(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.publish(session, "t", 1)
        assert session.in_transaction()
        session.rollback()
        shop.outbox.publish(session, "kept", 1)
        session.commit()
    assert shop.types() == ["kept"]


def test_a_scoped_session_is_the_session_of_its_thread(shop: Shop) -> None:
    sessions = scoped_session(sessionmaker(shop.engine))
    sessions.add(shop.Order(id=1))
    tables = writes(shop.engine)
    id = shop.outbox.publish(sessions, "order.placed", {}, key="1")
    shop.outbox.publish_many(sessions, [{"type": "more", "value": 1}] * 2)
    assert shop.outbox.cancel(sessions, id) == 0
    sessions.commit()
    sessions.remove()
    assert tables[:2] == ["orders", "penstock_staged"]
    assert sorted(shop.types()) == ["more", "more", "order.placed"]


@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg"])
def test_an_async_session_writes_first_too(driver: str, request: pytest.FixtureRequest) -> None:
    kind = "sqlite" if driver == "aiosqlite" else "postgres"
    store = StoreEngine(request.getfixturevalue(f"migrated_{kind}"))
    with opened_shop(store.outbox, store.url) as shop:

        async def work() -> list[str]:
            async with alchemy_engine(driver, store.url) as engine:
                tables = writes(engine.sync_engine)
                async with AsyncSession(engine) as session:
                    session.add(shop.Order(id=1))
                    await shop.outbox.apublish(session, "order.placed", {}, key="1")
                    await session.commit()
                scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
                scoped.add(shop.Order(id=2))
                await shop.outbox.apublish(scoped, "order.placed", {}, key="2")
                await shop.outbox.apublish_many(scoped, [{"type": "more", "value": 1}])
                await scoped.commit()
                await scoped.remove()
                return tables

        assert asyncio.run(work()) == ["orders", "penstock_staged"] * 2 + ["penstock_staged"]
        assert sorted(shop.types()) == ["more", "order.placed", "order.placed"]
    store.close()


def test_a_session_with_several_engines_is_told_apart_by_a_model(shop: Shop) -> None:
    with sqlalchemy_engine("sqlite://") as elsewhere:
        binds: Any = {shop.Order: shop.engine, shop.Customer: elsewhere}
        with sessionmaker(binds=binds)() as session:
            with pytest.raises(UnsupportedConnection, match=r"several engines: pass session\.connection\("):
                shop.outbox.publish(session, "t", 1)
            here = session.connection(bind_arguments={"mapper": shop.Order})
            shop.outbox.publish(here, "t", 1)
            session.commit()
    assert shop.types() == ["t"]


def test_an_async_session_with_several_engines_is_refused_in_its_own_words(migrated_sqlite: str) -> None:
    store = StoreEngine(migrated_sqlite)

    async def work() -> None:
        async with AsyncSession(binds={}) as session:
            await store.outbox.apublish(session, "t", 1)

    with pytest.raises(UnsupportedConnection, match=r"pass await session\.connection\("):
        asyncio.run(work())
    store.close()
