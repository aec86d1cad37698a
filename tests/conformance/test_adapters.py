"""Publishing on every kind of connection a caller may have: the same promises on each."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from penstock import Outbox
from penstock.errors import SchemaMissing, UnsupportedConnection
from penstock.testing.outbox_suite import OrderDeclined, keys, logged
from tests.conformance.callers import CALLERS, Caller
from tests.conformance.engines import StoreEngine


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def caller(request: pytest.FixtureRequest) -> Caller:
    """Give each kind of connection."""
    found: Caller = request.param
    return found


@pytest.fixture
def store(caller: Caller, request: pytest.FixtureRequest) -> Iterator[StoreEngine]:
    """Give a store of the caller's kind, whose one topic has one partition."""
    opened = StoreEngine(request.getfixturevalue(f"migrated_{caller.engine}"))
    opened.outbox.log.create_topic("events", partitions=1)
    yield opened
    opened.close()


def drained(store: StoreEngine) -> list[str | None]:
    """Return the keys in the log after a drain."""
    store.outbox.drain()
    return keys(logged(store))


def test_a_commit_brings_the_event(caller: Caller, store: StoreEngine) -> None:
    with caller.transaction(store.url) as conn:
        given = store.outbox.publish(conn, "t", {"n": 1}, key="a", headers={"h": "v"}, owner="me")
    assert drained(store) == ["a"]
    (record,) = logged(store)
    assert (record.id, record.value, record.headers) == (given, {"n": 1}, {"h": "v"})


def test_a_rollback_leaves_nothing(caller: Caller, store: StoreEngine) -> None:
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        store.outbox.publish(conn, "t", 1, key="never")
        store.outbox.publish(conn, "t", 1, key="never", at=timedelta(seconds=1))
        store.outbox.publish_many(conn, [{"type": "t", "value": 1, "key": "never"}] * 3)
        raise OrderDeclined
    store.clock.advance(timedelta(hours=1))
    assert drained(store) == []


def test_a_savepoint_rolled_back_leaves_nothing_of_its_own(caller: Caller, store: StoreEngine) -> None:
    with caller.transaction(store.url) as conn:
        store.outbox.publish(conn, "t", 1, key="before")
        with suppress(OrderDeclined), caller.savepoint(conn):
            store.outbox.publish(conn, "t", 1, key="never")
            raise OrderDeclined
        with caller.savepoint(conn):
            store.outbox.publish(conn, "t", 1, key="inside")
        store.outbox.publish(conn, "t", 1, key="after")
    assert drained(store) == ["before", "inside", "after"]


def test_many_are_staged_in_order(caller: Caller, store: StoreEngine) -> None:
    """With every column null in some and not in others, so that no type is guessed from the first."""
    events: list[dict[str, Any]] = [
        {"type": "t", "value": None},
        {"type": "t", "value": b"\x00\xff", "key": "b"},
        {"type": "t", "value": {"x": "'%s"}, "key": "c", "headers": {"h": None}, "owner": "me"},
    ]
    with caller.transaction(store.url) as conn:
        ids = store.outbox.publish_many(conn, events * 100)
    assert drained(store) == [None, "b", "c"] * 100
    assert [record.id for record in logged(store)] == ids
    assert [record.data for record in logged(store)][:3] == [None, b"\x00\xff", b'{"x":"\'%s"}']


def test_events_for_later_are_scheduled_and_can_be_cancelled(caller: Caller, store: StoreEngine) -> None:
    """1 in time, 0 too late or never there; what a rolled-back cancel took back comes all the same."""
    later = {"type": "t", "value": 1, "at": timedelta(seconds=1)}
    with caller.transaction(store.url) as conn:
        kept = store.outbox.publish(conn, "t", 1, key="kept", at=timedelta(seconds=1))
        ids = store.outbox.publish_many(conn, [later | {"key": key} for key in ("x", "y", "z")])
    with caller.transaction(store.url) as conn:
        assert [store.outbox.cancel(conn, id) for id in (*ids, ids[0], "no such")] == [1, 1, 1, 0, 0]
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        assert store.outbox.cancel(conn, kept) == 1
        raise OrderDeclined
    assert drained(store) == []
    store.clock.advance(timedelta(seconds=1))
    assert drained(store) == ["kept"]
    with caller.transaction(store.url) as conn:
        assert store.outbox.cancel(conn, kept) == 0


def test_the_callers_own_rows_share_the_transaction(caller: Caller, store: StoreEngine) -> None:
    """T-01: both or neither."""
    with store.connect() as conn:
        conn.execute("CREATE TABLE orders (id integer)")
        conn.commit()
    with caller.transaction(store.url) as conn:
        _insert_order(conn)
        store.outbox.publish(conn, "t", 1, key="a")
        _insert_order(conn)
    with suppress(OrderDeclined), caller.transaction(store.url) as conn:
        _insert_order(conn)
        store.outbox.publish(conn, "t", 1, key="never")
        raise OrderDeclined
    with store.connect() as conn:
        assert conn.execute("SELECT count(*) FROM orders").fetchone()[0] == 2
    assert drained(store) == ["a"]


def test_missing_tables_are_named_with_the_remedy(caller: Caller, request: pytest.FixtureRequest) -> None:
    if "pipeline" in caller.name:
        pytest.skip("in a pipeline the driver reports at its next synchronisation, in its own words")
    outbox = Outbox(request.getfixturevalue(f"{caller.engine}_store"))
    calls = (
        lambda conn: outbox.publish(conn, "t", 1),
        lambda conn: outbox.publish(conn, "t", 1, at=timedelta(hours=1)),
        lambda conn: outbox.publish_many(conn, [{"type": "t", "value": 1}] * 2),
        lambda conn: outbox.cancel(conn, "x"),
    )
    for call in calls:
        with (
            pytest.raises(SchemaMissing, match=r"penstock_s\w+ is not .* run outbox\.migrate\(\)") as caught,
            caller.transaction(outbox.url) as conn,
        ):
            call(conn)
        assert caught.value.__cause__ is not None
    outbox.close()


def test_a_connection_to_another_kind_of_database_is_refused(caller: Caller, request: Any) -> None:
    other = "sqlite" if caller.engine == "postgres" else "postgres"
    outbox = Outbox(request.getfixturevalue(f"{other}_store"))
    with caller.transaction(request.getfixturevalue(f"{caller.engine}_store")) as conn:
        for call in (lambda: outbox.publish(conn, "t", 1), lambda: outbox.cancel(conn, "x")):
            with pytest.raises(UnsupportedConnection, match=f"this outbox is on {other}"):
                call()
    outbox.close()


def _insert_order(conn: Any) -> None:
    if isinstance(conn, sqlalchemy.Connection | Session):
        conn.execute(sqlalchemy.text("INSERT INTO orders VALUES (1)"))
    else:
        conn.execute("INSERT INTO orders VALUES (1)")
