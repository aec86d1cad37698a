"""Prefix and schema may be chosen: everything works under them, and beside another outbox."""

from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from penstock import Outbox
from penstock.database.migrations import chain
from penstock.errors import InvalidName, SchemaMissing
from penstock.testing import FakeClock
from tests.conformance.engines import connect
from tests.suites.handling_suite import Seen, subscribe

PREFIXES = ["acme_", "a", "my_penstock_", "x" * 30]


def whole_way(outbox: Outbox, clock: FakeClock) -> None:
    """Publish, schedule, cancel, drain, fail, read and delete."""
    seen = Seen(2)
    subscribe(outbox, "g", seen)
    with closing(connect(outbox.url)) as conn:
        outbox.publish(conn, "t", 1, key="k")
        outbox.publish_many(conn, [{"type": "t", "value": n, "key": "k"} for n in (2, 3)])
        outbox.publish(conn, "t", 4, key="k", at=timedelta(seconds=1))
        dropped = outbox.publish(conn, "t", 5, key="k", at=timedelta(seconds=1))
        assert outbox.cancel(conn, dropped) == 1
        conn.commit()
    outbox.drain()
    seen.failing.clear()
    clock.advance(timedelta(seconds=2))
    outbox.drain()
    assert seen.values() == [1, 2, 2, 3, 4]
    (topic,) = outbox.log.topics()
    place = seen[0].partition
    assert place is not None
    assert outbox.log.offset_at(topic.name, place, clock.now_ms()) == 4
    outbox.log.delete_topic(topic.name)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_outbox_works_under_a_prefix(prefix: str, url: str) -> None:
    clock = FakeClock()
    outbox = Outbox(url, prefix=prefix, clock=clock)
    outbox.migrate()
    assert outbox.migrate() == []
    whole_way(outbox, clock)
    with closing(connect(url)) as conn:
        listing = (
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            if url.startswith("postgresql")
            else "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        tables = [row[0] for row in conn.execute(listing).fetchall()]
    assert len(tables) >= 10
    assert all(table.startswith(prefix) for table in tables)
    outbox.close()


def test_two_prefixes_in_one_database_are_two_outboxes(url: str) -> None:
    clock = FakeClock()
    outboxes = [Outbox(url, prefix=prefix, clock=clock) for prefix in ("penstock_", "penstock_two_")]
    for outbox in outboxes:
        outbox.migrate()
    for outbox in outboxes:
        whole_way(outbox, clock)
        outbox.close()


@pytest.mark.parametrize(("prefix", "schema"), [("acme_", "events"), ("penstock_", "order")])
def test_an_outbox_works_in_a_schema(prefix: str, schema: str, postgres_url: str) -> None:
    """Also in one whose name is a word of SQL; nothing is made anywhere else."""
    with psycopg.connect(postgres_url) as conn:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    clock = FakeClock()
    outbox = Outbox(postgres_url, prefix=prefix, schema=schema, clock=clock)
    assert len(outbox.migrate()) == len(chain(outbox._database))
    assert outbox.migrate() == []
    whole_way(outbox, clock)
    with psycopg.connect(postgres_url) as conn:
        places = conn.execute("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE '%staged%'").fetchall()
        indexes = conn.execute("SELECT DISTINCT schemaname FROM pg_indexes WHERE indexname LIKE 'ix_%'").fetchall()
    assert places == indexes == [(schema,)]
    with pytest.raises(SchemaMissing, match=f"{schema}.no_staged"), psycopg.connect(postgres_url) as conn:
        Outbox(postgres_url, prefix="no_", schema=schema).publish(conn, "t", 1)
    outbox.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"], indirect=True)
def test_a_schema_where_there_are_none_is_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(InvalidName, match="'events' is not supported by this database; set a prefix"):
        Outbox(url, schema="events")
