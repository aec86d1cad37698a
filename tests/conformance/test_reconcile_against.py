"""What a user gives `reconcile --against`: it reads, and whatever it says, nothing is written."""

import pytest

from penstock.errors import InvalidInput, StoreUnreachable
from penstock.operate.reconcile import reconcile
from tests.conformance.engines import StoreEngine


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(engine: StoreEngine) -> StoreEngine:
    """Give a store with orders, each published."""
    with engine.connect() as conn:
        conn.execute("CREATE TABLE orders (id text)")
        for number in range(3):
            conn.execute(f"INSERT INTO orders VALUES ('{engine.outbox.publish(conn, 't', number)}')")
        conn.commit()
    engine.outbox.drain()
    return engine


def count(engine: StoreEngine) -> int:
    with engine.connect() as conn:
        return int(conn.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_a_select_is_compared(shop: StoreEngine) -> None:
    assert reconcile(shop.outbox, "events", against="SELECT id FROM orders").agrees
    assert reconcile(shop.outbox, "events", against="SELECT id FROM orders WHERE id LIKE '%'").agrees


@pytest.mark.parametrize(
    "against",
    [
        "DELETE FROM orders RETURNING id",
        "SELECT id FROM orders; DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "ROLLBACK; DELETE FROM orders",
        "DROP TABLE orders",
        "INSERT INTO orders VALUES ('x') RETURNING id",
        "SELECT nothing FROM nowhere",
        "",
    ],
)
def test_what_does_more_than_read_is_refused_and_does_nothing(shop: StoreEngine, against: str) -> None:
    """It was run and committed: `DELETE … RETURNING id` emptied the table."""
    if against:
        with pytest.raises(InvalidInput, match="give one SELECT"):
            reconcile(shop.outbox, "events", against=against)
    assert count(shop) == 3
    with shop.connect() as conn:  # and the store can be written as before
        shop.outbox.publish(conn, "t", 9)
        conn.commit()
    assert shop.outbox.drain().sequenced == 1


def test_a_store_that_is_away_is_told_as_that(shop: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnreachable("db", "away")

    monkeypatch.setattr(type(shop.outbox.database.dialect), "read_only", away)
    with pytest.raises(StoreUnreachable):
        reconcile(shop.outbox, "events", against="SELECT id FROM orders")
