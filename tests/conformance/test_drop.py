"""Dropping the tables, on every engine: all of ours, and nothing else."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from penstock import Outbox
from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.errors import SchemaMissing, StoreBusy
from penstock.operate.drop import Losses, drop, losses
from tests.conformance.engines import connect
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture
def outbox(url: str) -> Iterator[Outbox]:
    """Give an outbox in a store of this test's own."""
    opened = Outbox(url)
    opened.migrate()
    yield opened
    opened.close()


def tables(url: str) -> set[str]:
    """Return the names of all tables, views and functions."""
    query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
    if url.startswith("postgresql"):
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
            "AND relkind IN ('r', 'v', 'S') "
            "UNION SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
        )
    conn = connect(url)
    try:
        return {row[0] for row in conn.execute(query).fetchall()}
    finally:
        conn.close()


def test_every_table_of_ours_goes_and_no_other(outbox: Outbox, url: str) -> None:
    other = Outbox(url, prefix="shop_")
    other.migrate()
    conn = connect(url)
    conn.execute("CREATE TABLE penstock_orders_of_mine (id integer)")
    conn.commit()
    conn.close()
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1)
        outbox.publish(conn, "t", 1, at=timedelta(hours=1))
    subscribe(outbox, "g", Seen())
    outbox.drain()
    kept = {name for name in tables(url) if name.startswith("shop_")} | {"penstock_orders_of_mine"}
    lost = Losses(topics=1, records=1, staged=0, scheduled=1, groups=1, dead=0, members=0)
    assert losses(outbox.database) == lost
    assert drop(outbox.database) == lost
    assert tables(url) == kept
    for act in (losses, drop):
        with pytest.raises(SchemaMissing):
            act(outbox.database)
    assert other.drain().sequenced == 0
    assert outbox.migrate()
    assert drop(outbox.database).records == 0
    drop(other.database)
    assert tables(url) == {"penstock_orders_of_mine"}
    other.close()


def test_a_schema_of_its_own_is_emptied_and_stays(url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("only PostgreSQL has schemas")
    conn = connect(url)
    conn.execute("CREATE SCHEMA elsewhere_of_drop")
    conn.commit()
    outbox = Outbox(url, schema="elsewhere_of_drop")
    outbox.migrate()
    database: Database = open_database(url, Names("penstock_", "elsewhere_of_drop"))
    drop(database)
    left = conn.execute(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'elsewhere_of_drop'::regnamespace"
    ).fetchone()
    conn.execute("DROP SCHEMA elsewhere_of_drop")
    conn.commit()
    conn.close()
    database.close()
    outbox.close()
    assert left == (0,)


def test_a_store_at_work_is_dropped_by_force_only(outbox: Outbox, url: str) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1)
    database = open_database(url, Names())
    with working(outbox):
        wait_until(lambda: len(seen) == 1, "it is at work")
        with pytest.raises(StoreBusy, match="1 members are running"):
            drop(database)
    assert outbox.drain().sequenced == 0
    database.close()


def test_members_that_are_gone_are_no_obstacle(outbox: Outbox, url: str) -> None:
    conn = connect(url)
    conn.execute(
        "INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms, serves) "
        f"VALUES ('m', 'h', 1, 's', 0, {SYSTEM.now_ms() + 60_000}, '{{}}')"
    )
    conn.commit()
    with pytest.raises(StoreBusy, match="m"):
        drop(outbox.database)
    conn.execute("UPDATE penstock_member SET lease_until_ms = 1")
    conn.commit()
    conn.close()
    assert drop(outbox.database).members == 0
