"""Migrating: once, from several places at once, checked, by hand, and refused when it must be."""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from click.testing import CliRunner

from penstock import Outbox
from penstock.cli import group
from penstock.database.database import Database, Transaction
from penstock.database.dialects import open_database
from penstock.database.drift import differences
from penstock.database.migrations import SchemaWatch, chain, chain_of, check, migrate, pending
from penstock.database.naming import Names
from penstock.errors import (
    NoSuchSchema,
    SchemaBehind,
    SchemaMissing,
    SchemaTooNew,
    SchemaUnreleased,
    SequenceCached,
    WrongEncoding,
)
from penstock.operate.drop import drop
from tests.conformance.engines import connect
from tests.conformance.introspection import facts
from tests.conformance.next_release import NEXT, add_next
from tests.services.postgres import PostgresServer
from tests.services.slow import but_the_first
from tests.unit.cli.program import penstock

CHAIN = chain_of("sqlite", Names())
TITLES = [f"{each.version:04} {each.name}" for each in CHAIN]
NEWEST = CHAIN[-1].version


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Give a database that nothing has been made in."""
    opened = open_database(url, Names())
    yield opened
    opened.close()


def test_migrating_applies_the_chain_once(url: str) -> None:
    outbox = Outbox(url)
    assert outbox.migrate() == TITLES
    assert outbox.migrate() == []
    outbox.close()


def test_a_later_release_applies_only_its_own_migration(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(url)
    outbox.migrate()
    add_next(monkeypatch)
    assert outbox.migrate() == [f"{NEXT:04} later"]
    assert outbox.migrate() == []
    assert differences(outbox.database) == []
    outbox.close()


def test_threads_that_migrate_at_once_apply_each_step_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_next(monkeypatch)
    outboxes = [Outbox(url) for _ in range(5)]
    together = Barrier(len(outboxes))

    def migrated(outbox: Outbox) -> list[str]:
        together.wait()
        return outbox.migrate()

    with ThreadPoolExecutor(len(outboxes)) as pool:
        applied = [title for each in pool.map(migrated, outboxes) for title in each]
    assert sorted(applied) == [*TITLES, f"{NEXT:04} later"]
    for outbox in outboxes:
        outbox.close()


@pytest.mark.parametrize("kind", but_the_first(["postgres", "sqlite"]), indirect=True)
def test_processes_that_migrate_at_once_apply_each_step_once(url: str) -> None:
    command = penstock("migrate", "--url", url)
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[0].splitlines() for process in started]
    assert [process.returncode for process in started] == [0] * 3
    assert sorted(line for lines in said for line in lines if line.startswith("applied")) == [
        f"applied: {title}" for title in TITLES
    ]
    assert {lines[-1] for lines in said} == {f"up to date: version {NEWEST}"}


def test_what_is_pending_is_known_without_changing_anything(database: Database) -> None:
    assert pending(database) == chain(database)
    migrate(database)
    assert pending(database) == []


def test_a_step_that_fails_leaves_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is one transaction: half a schema would be no schema that anyone knows."""
    add_next(monkeypatch)
    first, second = chain(database)
    for sound, left in ((first, [first, second]), (second, [second])):
        broken = type(sound)(sound.version, sound.name, sound.script + "\nSELECT no_such_column;")
        steps = [broken if each == sound else each for each in (first, second)]
        with monkeypatch.context() as context:
            context.setattr("penstock.database.migrations.chain", lambda database, steps=steps: steps)
            with pytest.raises(Exception, match="no_such_column"):
                migrate(database)
        assert pending(database) == left
    assert migrate(database) == [second]
    assert differences(database) == []


def test_a_step_must_write_its_number(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add_next(monkeypatch, "SELECT 1;")
    with pytest.raises(AssertionError, match="later does not write its number"):
        migrate(database)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("prefix", ["penstock_", "acme_"])
def test_the_printed_sql_run_by_hand_is_the_same_as_migrating(url: str, prefix: str, second_url: str) -> None:
    """And a migration after it finds nothing to do."""
    names = Names(prefix)
    by_hand = open_database(url, names)
    command = ["migrate", "--url", url, "--prefix", prefix, "--sql"]
    script = CliRunner().invoke(group, command, catch_exceptions=False).stdout
    conn = connect(url)
    if url.startswith("postgresql"):
        conn.execute(script)
        conn.commit()
    else:
        conn.executescript(script)
    assert migrate(by_hand) == []
    assert differences(by_hand) == []
    if prefix == "penstock_":
        made = facts(conn)
        conn.close()
        migrated = open_database(second_url, Names())
        migrate(migrated)
        migrated.close()
        conn = connect(second_url)
        assert facts(conn) == made
    conn.close()
    assert CliRunner().invoke(group, command, catch_exceptions=False).stdout.strip() == ""
    by_hand.close()


DRIFTS = {
    "a column too many": ("ALTER TABLE penstock_log ADD COLUMN extra text", "penstock_log has unexpected extra"),
    "a column too few": ("ALTER TABLE penstock_dead DROP COLUMN headers", "penstock_dead lacks headers"),
    "a table too few": ("DROP TABLE penstock_log_time", "table penstock_log_time is missing"),
    "an index too few": ("DROP INDEX ix_penstock_scheduled_due", "penstock_scheduled lacks index plain (due_ms, seq)"),
    "an index too many": (
        "CREATE UNIQUE INDEX ix_other ON penstock_log (id)",
        "penstock_log has unexpected index unique (id)",
    ),
    "a view too few": ("DROP VIEW penstock_events", "view penstock_events is missing"),
    "a view of others": ("CREATE VIEW penstock_names AS SELECT name FROM penstock_topic", None),
    "a table of others": ("CREATE TABLE penstock_of_others (a integer)", None),
}


@pytest.mark.parametrize("case", DRIFTS)
def test_drift_is_found(case: str, database: Database) -> None:
    alteration, words = DRIFTS[case]
    migrate(database)
    assert differences(database) == []
    database.run(lambda tx: tx.conn.execute(alteration))
    found = differences(database)
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


@pytest.mark.parametrize("prefix", ["a", "n", "text", "penstock_log_"])
def test_no_prefix_is_taken_for_drift(prefix: str, url: str) -> None:
    database = open_database(url, Names(prefix))
    migrate(database)
    assert differences(database) == []
    assert migrate(database) == []
    database.close()


def test_looking_for_drift_leaves_nothing_behind(database: Database, url: str) -> None:
    migrate(database)
    conn = connect(url)
    before = facts(conn)
    differences(database)
    assert facts(conn) == before
    conn.close()


def _execute(statement: str, tx: Transaction) -> None:
    tx.conn.execute(statement)


def state(database: Database, **facts: int) -> None:
    """Let the tables say that they are of another version, or for others."""
    for name, value in facts.items():
        statement = f"UPDATE penstock_meta SET value = '{value}' WHERE name = '{name}'"
        database.run(partial(_execute, statement))


def test_a_schema_of_a_newer_version_is_used_as_long_as_it_says_so(database: Database) -> None:
    """Expand, then contract: an old process can start after a migration that only adds."""
    migrate(database)
    state(database, schema_version=99, usable_from=NEWEST)
    assert check(database).version == 99
    assert pending(database) == []
    assert migrate(database) == []


def test_a_schema_of_a_newer_version_is_refused_once_it_says_so(database: Database, url: str) -> None:
    migrate(database)
    state(database, schema_version=99, usable_from=50)
    words = f"99 and can be used from version 50 on, but this Penstock knows {NEWEST}; update Penstock here"
    for call in (migrate, pending, check):
        with pytest.raises(SchemaTooNew, match=words):
            call(database)
    outbox = Outbox(url)
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1)  # publishing never looks at the version
    outbox.close()


def test_newer_tables_that_do_not_say_for_whom_they_are_are_refused(database: Database) -> None:
    migrate(database)
    state(database, schema_version=99)
    database.run(lambda tx: tx.conn.execute("DELETE FROM penstock_meta WHERE name = 'usable_from'"))
    with pytest.raises(SchemaTooNew, match="version 99 and can be used from version 99 on"):
        check(database)


def test_a_watch_tells_of_newer_tables_once_and_keeps_its_refusal(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.database")
    migrate(database)
    watch = SchemaWatch(database)
    watch.look()
    assert caplog.messages == []
    state(database, schema_version=98)
    watch.look()
    watch.look()
    assert caplog.messages == [
        f"the database has schema version 98, this Penstock knows {NEWEST} and can still use it; update when you can"
    ]
    state(database, schema_version=99, usable_from=99)
    with pytest.raises(SchemaTooNew) as caught:
        watch.look()
    assert watch.refusal is caught.value


def test_a_watch_checks_all_when_the_tables_are_first_reached(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = SchemaWatch(database)
    with pytest.raises(SchemaMissing):
        watch.look()
    assert isinstance(watch.refusal, SchemaMissing)
    migrate(database)
    add_next(monkeypatch)
    with pytest.raises(SchemaBehind, match=f"has schema version {NEWEST}, but this Penstock needs {NEXT}"):
        SchemaWatch(database).look()


@pytest.mark.parametrize("version", [1, NEWEST - 1])
def test_tables_of_an_unreleased_version_are_refused_by_name_and_left_alone(
    database: Database, url: str, version: int
) -> None:
    migrate(database)
    state(database, schema_version=version, usable_from=7)
    conn = connect(url)
    before = facts(conn)
    words = f"have schema version {version}, of an unreleased version of Penstock, .* {NEWEST}, .*; keep them"
    outbox = Outbox(url)
    for call in (migrate, pending, check, lambda database: SchemaWatch(database).look()):
        with pytest.raises(SchemaUnreleased, match=words):
            call(database)
    with pytest.raises(SchemaUnreleased, match=words):
        drop(outbox.store, force=True)
    outbox.close()
    assert facts(conn) == before
    conn.close()


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_sequence_that_hands_out_blocks_is_refused_with_the_remedy(database: Database) -> None:
    """Rule 5 of the move: sessions would give later numbers to earlier events."""
    migrate(database)
    database.run(lambda tx: tx.conn.execute("ALTER SEQUENCE penstock_staged_seq CACHE 5"))
    with pytest.raises(SequenceCached) as caught:
        migrate(database)
    _, _, remedy = str(caught.value).partition("run ")
    assert remedy == "ALTER SEQUENCE penstock_staged_seq CACHE 1"
    database.run(lambda tx: tx.conn.execute(remedy))
    assert migrate(database) == []


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_schema_that_is_not_there_is_named_with_the_remedy(url: str) -> None:
    database = open_database(url, Names("penstock_", "not_there"))
    assert len(pending(database)) == len(TITLES)
    for call in (migrate, differences):
        with pytest.raises(NoSuchSchema, match="this database has no schema 'not_there'; run CREATE SCHEMA"):
            call(database)
    database.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: PostgresServer, encoding: str) -> None:
    url = postgres_server.create_database(encoding)
    database = open_database(url, Names())
    with pytest.raises(WrongEncoding, match=f"encoded in {encoding}, .* ENCODING 'UTF8'"):
        migrate(database)
    database.close()
    postgres_server.drop_database(url)
