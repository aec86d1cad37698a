"""Events declared on SQLAlchemy's models: one per row that a flush writes, in its transaction."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy
from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from penstock.errors import InvalidHeaders, InvalidKey, InvalidTracking, NoTransaction, SchemaMissing
from tests.conformance.async_callers import alchemy_engine
from tests.conformance.callers import sqlalchemy_engine
from tests.conformance.engines import StoreEngine, sqlite_url
from tests.conformance.tracked_shop import Shop, Status, opened_shop
from tests.services.slow import but_the_first
from tests.suites.outbox_suite import logged

# Tracking is done in Python; the databases differ in what they compute and in their types.
on_each_database = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=but_the_first(["sqlite", "postgres"]))
def store(request: pytest.FixtureRequest) -> Iterator[StoreEngine]:
    """Give a store that SQLAlchemy can reach."""
    opened = StoreEngine(request.getfixturevalue(f"migrated_{request.param}"))
    yield opened
    opened.close()


@pytest.fixture
def shop(store: StoreEngine) -> Iterator[Shop]:
    """Give a shop on it."""
    with opened_shop(store.outbox, store.url) as opened:
        yield opened


def saved(shop: Shop, model: str = "Order", **values: Any) -> int:
    """Insert a row, deliver its events, and return its id."""
    with shop.session() as session:
        row = shop.models[model](**values)
        session.add(row)
        session.commit()
        id: int = row.id
    shop.delivered()
    return id


@contextmanager
def noted(engine: sqlalchemy.Engine) -> Iterator[list[str]]:
    """Note the statements that an engine runs."""
    statements: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        statements.append(" ".join(statement.split()))

    sqlalchemy.event.listen(engine, "before_cursor_execute", note)
    yield statements
    sqlalchemy.event.remove(engine, "before_cursor_execute", note)


# --- what there is an event for ----------------------------------------------------------------


@on_each_database
def test_insert_update_and_delete_give_an_event_each(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        order = shop.Order(cents=1)
        session.add(order)
        session.commit()
        order.cents = 2
        session.commit()
        session.delete(order)
        session.commit()
    inserted, updated, deleted = shop.delivered()
    key = inserted.key
    assert key == str(inserted.value["id"])
    assert [(each.type, each.key) for each in (inserted, updated, deleted)] == [
        ("orders.inserted", key),
        ("orders.updated", key),
        ("orders.deleted", key),
    ]
    assert [each.value["cents"] for each in (inserted, updated, deleted)] == [1, 2, 2]
    entity = {"entity": f"orders:{key}"}
    assert inserted.headers == {"action": "INSERT", **entity}
    assert updated.headers == {"action": "UPDATE", "changed": "cents", **entity}
    assert deleted.headers == {"action": "DELETE", **entity}


@on_each_database
def test_what_the_database_computes_is_in_the_image(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order())
        session.commit()
    (record,) = shop.delivered()
    assert set(record.value) == {"id", "cents", "secret", "kind", "made", "customer_id"}
    assert record.value["made"].startswith("20")


def test_only_the_actions_named_are_tracked(shop: Shop) -> None:
    shop.outbox.track(shop.Order, on="delete")
    with shop.session() as session:
        order = shop.Order()
        session.add(order)
        session.commit()
        order.cents = 1
        session.commit()
        session.delete(order)
        session.commit()
    assert shop.types() == ["orders.deleted"]


def test_an_update_that_changes_nothing_gives_none(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop, cents=1)
    with shop.session() as session:
        order = session.get_one(shop.Order, id)
        order.cents = 1
        session.commit()
        session.refresh(order)
        order.cents = 2
        order.cents = 1
        session.commit()
    assert shop.types() == []


def test_an_update_by_an_expression_counts_as_a_change(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop, cents=41)
    with shop.session() as session:
        order = session.get_one(shop.Order, id)
        order.cents = shop.Order.cents + 1
        session.commit()
    (record,) = shop.delivered()
    assert (record.headers["changed"], record.value["cents"]) == ("cents", 42)


def test_what_another_listener_changes_is_named_too(shop: Shop) -> None:
    shop.outbox.track(shop.Order)

    @sqlalchemy.event.listens_for(shop.Order, "before_update")
    def _stamp(mapper: Any, connection: Any, order: Any) -> None:
        order.secret = "stamped"

    id = saved(shop)
    with shop.session() as session:
        session.get_one(shop.Order, id).cents = 5
        session.commit()
    (record,) = shop.delivered()
    assert (record.headers["changed"], record.value["secret"]) == ("cents,secret", "stamped")


def test_a_relationship_changes_its_foreign_key(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop)
    with shop.session() as session:
        session.get_one(shop.Order, id).customer = shop.Customer(name="Ada")
        session.commit()
    (record,) = shop.delivered()
    assert record.headers["changed"] == "customer_id"
    assert record.value["customer_id"] is not None


def test_orphans_and_cascades_are_seen(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        customer = shop.Customer(orders=[shop.Order(cents=1), shop.Order(cents=2)])
        session.add(customer)
        session.commit()
        shop.delivered()
        customer.orders.pop(0)
        session.commit()
        assert [(each.type, each.value["cents"]) for each in shop.delivered()] == [("orders.deleted", 1)]
        session.delete(customer)
        session.commit()
    assert [(each.type, each.value["cents"]) for each in shop.delivered()] == [("orders.deleted", 2)]


def test_a_row_that_was_never_loaded_is_deleted_with_its_image(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop, cents=7)
    with shop.session() as session:
        order = session.get_one(shop.Order, id)
        session.expire(order)
        session.delete(order)
        session.commit()
    assert shop.delivered()[0].value["cents"] == 7


@pytest.mark.filterwarnings("ignore:DELETE statement on table")
def test_a_row_that_somebody_else_deleted_gives_no_event(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop)
    with shop.session() as session:
        order = session.get_one(shop.Order, id)
        order.customer  # noqa: B018 - what a cascade looks at is loaded
        session.expire(order, ["cents"])
        session.delete(order)
        session.connection().execute(delete(shop.Order).where(shop.Order.id == id))
        session.commit()
    assert shop.types() == []


def test_statements_for_many_rows_are_not_seen(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    saved(shop)
    with shop.session() as session:
        session.execute(update(shop.Order).values(cents=9))
        session.execute(delete(shop.Order))
        session.bulk_save_objects([shop.Order()])
        session.commit()
    assert shop.types() == []


# --- names, keys and values --------------------------------------------------------------------


def test_several_names_fan_out(shop: Shop) -> None:
    names = {"insert": ("order.placed", "stock.reserved"), "delete": "order.gone"}
    shop.outbox.track(shop.Order, names=names)
    with shop.session() as session:
        order = shop.Order()
        session.add(order)
        session.commit()
        order.cents = 1
        session.commit()
        session.delete(order)
        session.commit()
    assert shop.types() == ["order.placed", "stock.reserved", "orders.updated", "order.gone"]


def test_the_names_of_all_actions(shop: Shop) -> None:
    shop.outbox.track(shop.Order, names=["order.touched", "audit"])
    saved(shop)
    id = saved(shop)
    with shop.session() as session:
        session.get_one(shop.Order, id).cents = 3
        session.commit()
    found = [(each.type, each.headers["action"]) for each in shop.delivered()]
    assert found == [("order.touched", "UPDATE"), ("audit", "UPDATE")]


def test_a_model_may_name_its_events_itself(shop: Shop) -> None:
    """`events` on the model; a key of two columns."""
    shop.outbox.track(shop.Line)
    with shop.session() as session:
        session.add(shop.Line(order_id=7, number="a"))
        session.commit()
    found = shop.delivered()
    assert [each.type for each in found] == ["line.touched", "line.a"]
    assert {(each.key, each.headers["entity"]) for each in found} == {("7,a", "lines:7,a")}


@pytest.mark.parametrize("key", ["customer_id", "customer.id", lambda order: order.customer_id])
def test_the_key_may_be_an_attribute_or_a_function(shop: Shop, key: Any) -> None:
    shop.outbox.track(shop.Order, key=key, topic="shop.orders", owner="customer.name")
    seen: list[Any] = []
    shop.outbox.handler(group="own", id="own", topic="shop.orders")(seen.append)
    with shop.session() as session:
        customer = shop.Customer(name="Ada", orders=[shop.Order()])
        session.add(customer)
        session.commit()
        id = customer.id
    shop.outbox.drain()
    assert [(each.key, each.topic) for each in seen] == [(str(id), "shop.orders")]


def test_the_owner_is_stored(shop: Shop) -> None:
    shop.outbox.track(shop.Order, owner="secret")
    with shop.session() as session:
        session.add(shop.Order(secret="tenant-1"))
        session.commit()
        stored = session.execute(sqlalchemy.text("SELECT owner FROM penstock_staged")).scalars()
        assert list(stored) == ["tenant-1"]


def test_a_key_that_is_not_there_fails_the_flush(shop: Shop) -> None:
    shop.outbox.track(shop.Order, key="customer_id")
    with shop.session() as session:
        session.add(shop.Order())
        with pytest.raises(InvalidKey, match=r"Order\.customer_id is None"):
            session.commit()
    with shop.session() as session:
        assert session.scalars(select(shop.Order)).all() == []


def test_the_value_is_chosen_by_type(shop: Shop) -> None:
    """A reference alone, a full image, or what a function makes."""
    shop.outbox.track(
        shop.Order,
        on="insert",
        names=("image", "reference", "own", "gone"),
        value={"reference": "reference", "own": lambda order: {"c": order.cents}, "gone": lambda _: None},
        exclude="secret",
    )
    id = saved_events(shop)
    image, reference, own, gone = shop.delivered()
    assert "secret" not in image.value
    assert image.value["cents"] == 3
    assert (reference.value, own.value, gone.value) == (f"orders:{id}", {"c": 3}, None)


def saved_events(shop: Shop) -> int:
    """Insert an order and return its id; its events are not delivered yet."""
    with shop.session() as session:
        order = shop.Order(cents=3, secret="s")
        session.add(order)
        session.commit()
        id: int = order.id
        return id


def test_a_change_of_excluded_columns_alone_gives_none(shop: Shop) -> None:
    shop.outbox.track(shop.Order, exclude=["secret"])
    id = saved(shop)
    with shop.session() as session:
        order = session.get_one(shop.Order, id)
        order.secret = "other"
        session.commit()
        assert shop.types() == []
        order.secret, order.cents = "third", 4
        session.commit()
    assert shop.delivered()[0].headers["changed"] == "cents"


@on_each_database
def test_values_of_all_kinds_are_written_as_json(shop: Shop) -> None:
    shop.outbox.track(shop.Thing)
    id = UUID(int=7)
    with shop.session() as session:
        thing = shop.Thing(id=id, price=Decimal("1.20"), status=Status.PAID, data={"a": [1]}, raw=b"x")
        session.add(thing)
        session.commit()
    (record,) = shop.delivered()
    assert record.key == str(id)
    assert record.value == {"id": str(id), "price": "1.20", "status": "paid", "data": {"a": [1]}, "raw": "eA=="}


def test_a_column_without_a_json_form_is_named(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order())
        session.flush()
        order = shop.Order()
        session.add(order)

        @sqlalchemy.event.listens_for(shop.Order, "after_insert")
        def _odd(mapper: Any, connection: Any, target: Any) -> None:
            target.__dict__["secret"] = object()

        with pytest.raises(InvalidTracking, match=r"orders:\d+ cannot be tracked: its column 'secret' holds a"):
            session.flush()


# --- inheritance -------------------------------------------------------------------------------


def test_a_model_that_derives_from_a_tracked_one_is_tracked(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Gift(wish="joy"))
        session.commit()
    (record,) = shop.delivered()
    assert (record.type, record.value["wish"], record.value["kind"]) == ("orders.inserted", "joy", "gift")


def test_the_nearest_declaration_holds(shop: Shop) -> None:
    shop.outbox.track(shop.Gift)
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add_all([shop.Gift(), shop.Order()])
        session.commit()
    assert sorted(shop.types()) == ["gifts.inserted", "orders.inserted"]


# --- transactions ------------------------------------------------------------------------------


def test_a_rollback_leaves_nothing(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order())
        session.flush()
        session.rollback()
    assert shop.types() == []


@on_each_database
def test_a_savepoint_that_rolls_back_takes_its_events_along(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order(cents=1))
        session.flush()
        inner = session.begin_nested()
        session.add(shop.Order(cents=2))
        session.flush()
        inner.rollback()
        session.add(shop.Order(cents=3))
        session.commit()
    assert sorted(each.value["cents"] for each in shop.delivered()) == [1, 3]


def test_a_flush_that_failed_leaves_nothing_for_the_next(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    shop.outbox.track(shop.Customer)
    with shop.session() as session:
        session.add_all([shop.Customer(id=1), shop.Order(id=50, customer_id=1)])
        session.commit()
        shop.delivered()
        session.expunge_all()
        session.add_all([shop.Customer(id=2), shop.Order(id=50)])  # the customer is written, the order not
        with pytest.raises(IntegrityError):
            session.flush()
        session.rollback()
        session.expunge_all()
        session.add(shop.Customer(id=3))
        session.commit()
    assert [(each.type, each.key) for each in shop.delivered()] == [("customers.inserted", "3")]


@on_each_database
def test_an_event_follows_the_statement_that_locks_its_row(shop: Shop) -> None:
    """Design rule F10, and one statement for all events of a flush."""
    shop.outbox.track(shop.Order)
    first, second = saved(shop), saved(shop)
    with shop.session() as session, noted(shop.engine) as statements:
        for order in [session.get_one(shop.Order, id) for id in (first, second)]:
            order.cents = 8
        session.commit()
    written = [each.split()[0] for each in statements if not each.startswith("SELECT")]
    assert written == ["UPDATE", "INSERT"]
    assert shop.types() == ["orders.updated"] * 2


def test_autocommit_is_refused_and_nothing_is_published(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    autocommitting = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(autocommitting) as session:
        session.add(shop.Order())
        with pytest.raises(NoTransaction):
            session.commit()
    assert shop.types() == []


@on_each_database
def test_without_its_tables_the_flush_fails(shop: Shop) -> None:
    outbox = type(shop.outbox)(shop.outbox.url, prefix="elsewhere_")
    outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order())
        with pytest.raises(SchemaMissing, match="elsewhere_staged"):
            session.commit()
    with shop.session() as session:
        assert session.scalars(select(shop.Order)).all() == []
    outbox.close()


def test_each_outbox_has_its_own_events(shop: Shop) -> None:
    other = type(shop.outbox)(shop.outbox.url, prefix="other_")
    other.migrate()
    seen: list[Any] = []
    other.handler(group="g", id="g")(seen.append)
    other.track(shop.Order, names="theirs")
    shop.outbox.track(shop.Order, names="ours")
    with shop.session() as session:
        session.add(shop.Order())
        with shop.outbox.tracking(skip=True):
            session.flush()
        session.add(shop.Order())
        session.commit()
    other.drain()
    assert shop.types() == ["ours"]
    assert [each.type for each in seen] == ["theirs", "theirs"]
    other.close()


def test_two_outboxes_of_one_store_publish_a_row_once(shop: Shop) -> None:
    other = type(shop.outbox)(shop.outbox.url)
    shop.outbox.track(shop.Order, names="first")
    other.track(shop.Order, names="second")
    with shop.session() as session:
        order = shop.Order()
        session.add(order)
        session.flush()
        order.cents = 7
        session.flush()
        session.delete(order)
        session.commit()
    assert shop.types() == ["first"] * 3
    other.close()


def test_of_outboxes_with_one_store_for_each_tenant_that_of_the_row_publishes(
    sqlite_store: str, tmp_path: Path
) -> None:
    """The second has declared it otherwise: each row is published as its own store's outbox says."""
    first, second = StoreEngine(sqlite_store), StoreEngine(sqlite_url(tmp_path))
    second.outbox.migrate()
    with opened_shop(first.outbox, first.url) as shop, sqlalchemy_engine(second.url) as elsewhere:
        shop.Base.metadata.create_all(elsewhere)
        first.outbox.track(shop.Order, names="ours")
        second.outbox.track(shop.Order, names="theirs")
        for engine in (shop.engine, elsewhere):
            with Session(engine) as session:
                session.add(shop.Order())
                session.commit()
        assert shop.types() == ["ours"]
        second.outbox.drain()
        assert [record.type for record in logged(second)] == ["theirs"]
    first.close()
    second.close()


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_an_outbox_on_another_kind_of_database_does_not_fail_the_flush(shop: Shop, tmp_path: Path) -> None:
    other = type(shop.outbox)(sqlite_url(tmp_path))
    other.track(shop.Order)
    shop.outbox.track(shop.Order)
    with shop.session() as session:
        session.add(shop.Order())
        session.commit()
    assert shop.types() == ["orders.inserted"]
    other.close()


def test_a_session_with_two_engines_publishes_where_the_row_is(shop: Shop, store: StoreEngine) -> None:
    shop.outbox.track(shop.Order)
    with sqlalchemy_engine("sqlite://") as elsewhere:
        shop.Customer.__table__.create(elsewhere)
        binds: Any = {shop.Order: shop.engine, shop.Gift: shop.engine, shop.Customer: elsewhere}
        with Session(binds=binds) as session:
            session.add_all([shop.Order(), shop.Customer(name="Ada")])
            session.commit()
    assert shop.types() == ["orders.inserted"]


def test_each_event_is_on_the_connection_of_its_row(sqlite_store: str, tmp_path: Path) -> None:
    """A session over two databases that both have the tables, as shards do."""
    first, second = StoreEngine(sqlite_store), StoreEngine(sqlite_url(tmp_path))
    with opened_shop(first.outbox, first.url) as shop, sqlalchemy_engine(second.url) as elsewhere:
        shop.Base.metadata.create_all(elsewhere)
        first.outbox.track(shop.Order)
        first.outbox.track(shop.Customer)
        binds: Any = {shop.Order: shop.engine, shop.Gift: shop.engine, shop.Customer: elsewhere}
        with Session(binds=binds) as session:
            session.add_all([shop.Order(), shop.Customer(), shop.Order()])
            session.commit()
        assert shop.types() == ["orders.inserted"] * 2
        assert second.outbox.drain().sequenced == 1
    first.close()
    second.close()


# --- blocks ------------------------------------------------------------------------------------


def test_a_block_skips_forces_and_adds_metadata(shop: Shop) -> None:
    track, tracking = shop.outbox.track, shop.outbox.tracking
    track(shop.Order)
    track(shop.Customer)

    def add(*rows: Any) -> list[str]:
        with shop.session() as session:
            session.add_all(rows)
            session.commit()
        return sorted(shop.types())

    with tracking(skip=True):
        assert add(shop.Order(), shop.Customer()) == []
        with tracking(force=True):
            assert add(shop.Order()) == ["orders.inserted"]
        assert add(shop.Order()) == []
    with tracking(skip=shop.Order):
        assert add(shop.Order(), shop.Gift(), shop.Customer()) == ["customers.inserted"]
    with tracking(skip=[shop.Order, shop.Customer]):
        assert add(shop.Order(), shop.Customer()) == []
    assert add(shop.Order()) == ["orders.inserted"]
    with tracking(metadata={"who": "ada", "why": "a"}), tracking(metadata={"why": "b"}), shop.session() as session:
        session.add(shop.Order())
        session.commit()
    assert shop.delivered()[0].headers.items() >= {"who": "ada", "why": "b", "action": "INSERT"}.items()


def test_a_delete_in_a_block_is_skipped(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop)
    with shop.session() as session, shop.outbox.tracking(skip=True):
        session.delete(session.get_one(shop.Order, id))
        session.commit()
    assert shop.types() == []


def test_a_forced_update_needs_no_change(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    id = saved(shop, cents=1)
    with shop.session() as session, shop.outbox.tracking(force=True):
        order = session.get_one(shop.Order, id)
        order.cents = 2
        order.cents = 1
        session.commit()
    (record,) = shop.delivered()
    assert (record.type, record.headers["changed"]) == ("orders.updated", "")


def test_a_block_ends_with_an_error_in_it(shop: Shop) -> None:
    shop.outbox.track(shop.Order)
    with pytest.raises(RuntimeError), shop.outbox.tracking(skip=True):
        raise RuntimeError
    with shop.session() as session:
        session.add(shop.Order())
        session.commit()
    assert shop.types() == ["orders.inserted"]


@pytest.mark.parametrize("name", ["action", "entity", "changed"])
def test_metadata_cannot_take_the_place_of_our_headers(shop: Shop, name: str) -> None:
    with pytest.raises(InvalidHeaders, match=name), shop.outbox.tracking(metadata={name: "x"}):
        pass


def test_bad_blocks_are_refused(shop: Shop) -> None:
    with pytest.raises(InvalidTracking, match="not both"), shop.outbox.tracking(skip=True, force=True):
        pass
    with pytest.raises(InvalidTracking, match="pass True, a model"), shop.outbox.tracking(skip=["orders"]):  # type: ignore[list-item]
        pass


# --- async -------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg", "psycopg"])
def test_async_sessions_are_tracked(driver: str, request: pytest.FixtureRequest) -> None:
    kind = "sqlite" if driver == "aiosqlite" else "postgres"
    store = StoreEngine(request.getfixturevalue(f"migrated_{kind}"))
    with opened_shop(store.outbox, store.url) as shop:
        shop.outbox.track(shop.Order)

        async def work() -> None:
            async with alchemy_engine(driver, store.url) as engine, AsyncSession(engine) as session:
                order = shop.Order(cents=1)
                session.add(order)
                with shop.outbox.tracking(metadata={"who": "ada"}):
                    await session.commit()
                await session.refresh(order)
                order.cents = 2
                await session.commit()
                await session.refresh(order)
                await session.delete(order)
                with shop.outbox.tracking(skip=shop.Order):
                    await session.commit()
                session.add(shop.Order())
                await session.flush()
                await session.rollback()

        asyncio.run(work())
        found = shop.delivered()
    store.close()
    assert [(each.type, each.headers.get("who")) for each in found] == [
        ("orders.inserted", "ada"),
        ("orders.updated", None),
    ]
