"""SQLAlchemy in the transaction of a handler: its sessions write through `record.tx` and end nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import JSON, Engine, create_engine, event, func, insert, literal, select, text, update
from sqlalchemy.exc import IntegrityError, InvalidRequestError, ResourceClosedError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from penstock import Fixed, Record
from penstock.errors import ConnectionRefused, TransactionEnded
from penstock.sqlalchemy import connection_on, session_on
from tests.conformance.engines import StoreEngine, connect, driver_of

RETRY = Fixed(delay=timedelta(seconds=1), max_retries=2)


class Base(DeclarativeBase):
    """The models of a shop."""


class Sale(Base):
    """What a handler writes down."""

    __tablename__ = "sale"
    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int] = mapped_column(unique=True)
    detail: Mapped[Any] = mapped_column(JSON, nullable=True)


class Shop:
    """A shop on each engine, whose handler gets sessions."""

    def __init__(self, engine: StoreEngine) -> None:
        self.engine, self.outbox = engine, engine.outbox
        self.is_postgres = engine.url.startswith("postgresql")
        with self.outbox.transaction() as conn, connection_on(conn) as connection:
            Base.metadata.create_all(connection)

    def handle(self, body: Callable[[Record], Any], **options: Any) -> list[int]:
        """Register a handler; return what it is given."""
        calls = list[int]()
        options = dict[str, Any](group="sales", id="sell", retry=RETRY) | options

        def sell(record: Record) -> Any:
            calls.append(record.value)
            return body(record)

        self.outbox.handler("sold", transaction=True, **options)(sell)
        return calls

    def deliver(self, *values: int) -> Any:
        """Publish some numbers, each with a key of its own, and drain."""
        with self.outbox.transaction() as conn:
            for value in values:
                self.outbox.publish(conn, "sold", value, key=f"k-{value}")
        return self.outbox.drain()

    def later(self) -> Any:
        """Drain when retries are due."""
        self.engine.clock.advance(timedelta(seconds=1))
        return self.outbox.drain()

    def sales(self) -> list[int]:
        """Return what is committed."""
        with self.engine.connect() as conn:
            return [row[0] for row in conn.execute("SELECT n FROM sale ORDER BY n").fetchall()]

    def own_engine(self, **options: Any) -> Engine:
        """Return an engine as the program might have it, on the driver of `record.tx`."""
        url = "postgresql+psycopg://" if self.is_postgres else "sqlite://"
        return create_engine(url, creator=lambda: connect(self.engine.url), **options)


@pytest.fixture
def shop(engine: StoreEngine) -> Iterator[Shop]:
    """Give a shop on each engine."""
    opened = Shop(engine)
    yield opened
    if opened.is_postgres:  # its schema serves the tests that follow
        with engine.connect() as conn:
            conn.execute("DROP TABLE sale")
            conn.commit()


def failing_once(*values: int, times: int = 2) -> Callable[[int], None]:
    """Return what fails on some values: once with others, then alone."""
    left = dict.fromkeys(values, times)

    def fail(value: int) -> None:
        if left.get(value, 0):
            left[value] -= 1
            raise ValueError(f"no {value}")

    return fail


def test_what_a_session_writes_and_publishes_commits_with_the_cursor(shop: Shop) -> None:
    got = list[int]()

    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value, detail={"of": record.id}))
            shop.outbox.publish(session, "noted", record.value, key=record.key)
            (own,) = session.scalars(select(Sale).where(Sale.n == record.value))
            assert own.detail == {"of": record.id}
            session.execute(update(Sale).where(Sale.n == record.value).values(n=record.value * 10))
            session.add(Sale(n=record.value * 10 + 1))  # written when the block ends

    shop.handle(sell)
    shop.outbox.handler("noted", group="next", id="note")(lambda record: got.append(record.value))
    assert shop.deliver(1, 2).delivered == 4
    assert shop.sales() == [10, 11, 20, 21]
    assert sorted(got) == [1, 2]


@pytest.mark.parametrize("inside", [True, False])
def test_a_handler_that_fails_leaves_nothing_of_its_session(shop: Shop, inside: bool) -> None:
    fail, got = failing_once(2), list[int]()

    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            shop.outbox.publish(session, "noted", record.value)
            session.flush()
            if inside:
                fail(record.value)
        fail(record.value)

    calls = shop.handle(sell)
    shop.outbox.handler("noted", group="next", id="note")(lambda record: got.append(record.value))
    shop.deliver(1, 2, 3)
    assert (shop.sales(), sorted(got)) == ([1, 3], [1, 3])
    shop.later()
    assert (shop.sales(), sorted(got)) == ([1, 2, 3], [1, 2, 3])
    assert calls.count(2) == 3


def end_by_commit(session: Session) -> None:
    session.commit()


def end_by_close(session: Session) -> None:
    session.close()


def end_by_reset(session: Session) -> None:
    session.reset()


def end_by_with(session: Session) -> None:
    with session:
        pass


def end_by_connection(session: Session) -> None:
    session.connection().commit()


def end_by_connections_rollback(session: Session) -> None:
    session.connection().rollback()


def end_by_the_pool(session: Session) -> None:
    session.connection().connection.commit()


@pytest.mark.parametrize(
    "end",
    [
        end_by_commit,
        end_by_close,
        end_by_reset,
        end_by_with,
        end_by_connection,
        end_by_connections_rollback,
        end_by_the_pool,
    ],
)
def test_what_would_end_it_is_refused_and_does_nothing(shop: Shop, end: Callable[[Session], None]) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            with pytest.raises(TransactionEnded, match="leave out commit, rollback and close"):
                end(session)
            session.add(Sale(n=record.value + 10))

    shop.handle(sell)
    assert shop.deliver(1, 2).delivered == 2
    assert shop.sales() == [1, 2, 11, 12]


def test_a_block_of_begin_is_refused_at_its_end_and_what_it_did_is_undone(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            with pytest.raises(TransactionEnded, match=r"session\.commit\(\) was called"), session.begin():
                session.add(Sale(n=record.value))
            session.add(Sale(n=record.value + 10))

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1
    assert shop.sales() == [11]


def test_a_commit_that_is_not_caught_is_final(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.commit()

    calls = shop.handle(sell)
    assert shop.deliver(1).dead == 1
    assert (shop.sales(), calls) == ([], [1])


def test_a_rollback_takes_back_what_the_session_did_and_no_more(shop: Shop) -> None:
    def sell(record: Record) -> None:
        record.tx.execute("INSERT INTO sale (n) VALUES (100)")
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            session.rollback()
            session.add(Sale(n=record.value + 10))

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1
    assert shop.sales() == [11, 100]


def test_a_block_that_raises_leaves_nothing_though_the_handler_goes_on(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with suppress(IntegrityError), session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            session.add_all([Sale(n=50), Sale(n=50)])
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value + 10))

    shop.handle(sell)
    assert shop.deliver(1, 2).delivered == 2
    assert shop.sales() == [11, 12]


def test_a_flush_that_failed_can_be_rolled_back_and_the_session_goes_on(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add_all([Sale(n=50), Sale(n=50)])
            with pytest.raises(IntegrityError):
                session.flush()
            session.rollback()
            session.add(Sale(n=record.value))

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1
    assert shop.sales() == [1]


@pytest.mark.parametrize("more", [True, False])
def test_a_flush_that_failed_and_was_swallowed_is_a_failure(shop: Shop, more: bool) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            session.add_all([Sale(n=50), Sale(n=50)])
            with suppress(IntegrityError):
                session.flush()
            if more:
                session.add(Sale(n=60))

    shop.handle(sell)
    assert shop.deliver(1).retried == 1
    assert shop.sales() == []


def test_savepoints_of_a_session_are_its_own(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            with session.begin_nested():
                session.add(Sale(n=record.value))
            with suppress(IntegrityError), session.begin_nested():
                session.add(Sale(n=record.value))
            session.begin_nested()
            session.add(Sale(n=record.value + 10))  # and it is left open

    shop.handle(sell)
    assert shop.deliver(1, 2).delivered == 2
    assert shop.sales() == [1, 2, 11, 12]


def test_events_of_tracked_models_join_too(shop: Shop) -> None:
    class Own(DeclarativeBase):
        """Of this test alone: what is tracked stays so."""

    class Watched(Own):
        __tablename__ = "sale"
        id: Mapped[int] = mapped_column(primary_key=True)
        n: Mapped[int]

    fail, got = failing_once(2), list[Any]()

    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Watched(n=record.value))
        fail(record.value)

    shop.outbox.track(Watched)
    shop.handle(sell)
    shop.outbox.handler("sale.inserted", group="next", id="note")(lambda record: got.append(record.value["n"]))
    shop.deliver(1, 2)
    assert got == [1]
    shop.later()
    assert got == [1, 2]


def test_a_connection_goes_to_the_transaction_of_the_handler(shop: Shop) -> None:
    kept = list[Any]()

    def sell(record: Record) -> None:
        with connection_on(record.tx) as connection:
            kept.append(connection)
            connection.execute(insert(Sale).values(n=record.value))
            for end in (connection.commit, connection.rollback, connection.close, connection.detach):
                with pytest.raises(TransactionEnded):
                    end()
            with pytest.raises(InvalidRequestError):
                connection.execution_options(isolation_level="AUTOCOMMIT")
            shop.outbox.publish(connection, "noted", record.value)
            assert connection.scalar(select(func.count()).select_from(Sale)) == 1
        with pytest.raises(ResourceClosedError):
            connection.execute(select(Sale))
        assert record.tx.execute("SELECT n FROM sale").fetchone() == (record.value,)

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1
    assert shop.sales() == [1]
    with pytest.raises(ResourceClosedError):
        kept[0].execute(select(Sale))


def test_it_works_in_a_transaction_of_the_outbox(shop: Shop) -> None:
    with shop.outbox.transaction() as conn, session_on(conn) as session:
        session.add(Sale(n=1))
    with suppress(ValueError), shop.outbox.transaction() as conn:
        with session_on(conn) as session:
            session.add(Sale(n=2))
        raise ValueError("no")
    assert shop.sales() == [1]


def test_the_engine_of_the_program_says_how_values_are_written(shop: Shop) -> None:
    def dumps(value: Any) -> str:
        return json.dumps({"wrapped": value})

    def loads(value: str | bytes) -> Any:
        return [json.loads(value)]

    engine = shop.own_engine(json_serializer=dumps, json_deserializer=loads)

    def sell(record: Record) -> None:
        with session_on(record.tx, engine) as session:
            session.add(Sale(n=record.value, detail=1))
        with session_on(record.tx, engine) as session:
            assert session.scalars(select(Sale.detail)).all() == [[{"wrapped": 1}]]
        with session_on(record.tx) as session:
            assert session.scalars(select(Sale.detail)).all() == [{"wrapped": 1}]

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1


def test_listeners_and_the_isolation_level_of_the_engine_do_not_reach_it(shop: Shop) -> None:
    engine = shop.own_engine(isolation_level="SERIALIZABLE").execution_options(isolation_level="AUTOCOMMIT")
    heard = list[str]()
    event.listen(engine, "begin", lambda conn: conn.exec_driver_sql("BEGIN"))  # as some do on SQLite
    event.listen(engine, "commit", lambda conn: heard.append("commit"))
    event.listen(engine, "rollback", lambda conn: heard.append("rollback"))

    def sell(record: Record) -> None:
        with session_on(record.tx, engine) as session:
            session.add(Sale(n=record.value))

    shop.handle(sell)
    assert shop.deliver(1, 2).delivered == 2
    assert (shop.sales(), heard) == ([1, 2], [])


def test_rows_are_plain_whatever_the_handler_has_set(shop: Shop) -> None:
    def wrong(*_: Any) -> Any:
        return dict

    def sell(record: Record) -> None:
        driver = driver_of(record)
        own, driver.row_factory = driver.row_factory, wrong
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            assert session.scalars(select(Sale.n)).all() == [record.value]
        driver.row_factory = own

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1


def test_a_class_of_sessions_and_its_options_may_be_the_programs_own(shop: Shop) -> None:
    class Ours(Session):
        def total(self) -> Any:
            return self.scalar(select(func.sum(Sale.n)))

    def sell(record: Record) -> None:
        with session_on(record.tx, class_=Ours, autoflush=False, info={"who": "us"}) as session:
            assert isinstance(session, Ours)
            session.add(Sale(n=record.value))
            assert session.total() is None
            session.flush()
            assert (session.total(), session.info["who"]) == (record.value, "us")
            with pytest.raises(TransactionEnded):
                session.commit()

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1
    assert shop.sales() == [1]


def test_large_results_can_be_streamed(shop: Shop) -> None:
    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add_all([Sale(n=n) for n in range(100)])
            streamed = session.scalars(select(Sale.n).order_by(Sale.n).execution_options(yield_per=7))
            assert list(streamed) == list(range(100))

    shop.handle(sell)
    assert shop.deliver(1).delivered == 1


def test_a_conflict_that_sqlalchemy_wraps_does_not_count(postgres_engine: StoreEngine) -> None:
    shop = Shop(postgres_engine)
    met = text("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = 'deadlock_detected'; END $$")

    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            if len(calls) < 4:
                session.execute(met)

    calls = shop.handle(sell, retry=Fixed(max_retries=0))
    assert shop.deliver(1).delivered == 1
    assert (shop.sales(), calls) == ([1], [1, 1, 1, 1])
    drop(shop)


def test_a_connection_that_is_lost_under_a_session_is_an_attempt(postgres_engine: StoreEngine) -> None:
    shop = Shop(postgres_engine)

    def sell(record: Record) -> None:
        with session_on(record.tx) as session:
            session.add(Sale(n=record.value))
            session.flush()
            if len(calls) == 1:
                with shop.engine.connect() as other:
                    other.execute("SELECT pg_terminate_backend(%s)", (driver_of(record).info.backend_pid,))
                    other.commit()
                session.execute(text("SELECT 1"))

    calls = shop.handle(sell)
    assert shop.deliver(1).retried == 1
    assert shop.later().delivered == 1
    assert (shop.sales(), calls) == ([1], [1, 1])
    drop(shop)


def drop(shop: Shop) -> None:
    """Take the shop's table out of a schema that others use."""
    with shop.engine.connect() as conn:
        conn.execute("DROP TABLE sale")
        conn.commit()


def test_patterns_work_on_sqlite_as_with_an_engine(sqlite_engine: StoreEngine) -> None:
    shop = Shop(sqlite_engine)
    with shop.outbox.transaction() as conn, connection_on(conn) as connection:
        assert connection.scalar(select(literal("order-1").regexp_match("^order-[0-9]$")))


def refused(*args: Any) -> str:
    """Return why a session is refused."""
    with pytest.raises(ConnectionRefused) as caught, session_on(*args):
        pass
    return str(caught.value)


def test_what_is_no_connection_of_ours_is_refused(shop: Shop) -> None:
    assert "session_on got a builtins.str; pass record.tx" in refused("tx")
    with shop.engine.connect() as conn:
        if shop.is_postgres:
            conn.autocommit = True
        else:
            conn.isolation_level = None
        assert "pass record.tx" in refused(conn)


def test_an_engine_on_another_driver_is_refused(shop: Shop) -> None:
    here, there = "postgresql+psycopg://", "sqlite+pysqlite://"
    if not shop.is_postgres:
        here, there = there, here
    with shop.outbox.transaction() as conn:
        assert f"pass an engine on {here}, or none" in refused(conn, create_engine(there))
        assert f"pass an engine on {here}" in refused(conn, create_async_engine("sqlite+aiosqlite://"))
