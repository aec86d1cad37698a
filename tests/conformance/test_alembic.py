"""Penstock's tables by a real Alembic environment: online, as SQL, and left alone by autogenerate."""

import io
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from penstock import Outbox
from penstock.alembic import include_name
from penstock.database.dialects import open_database
from penstock.database.drift import differences
from penstock.database.migrations import pending
from penstock.database.naming import Names
from penstock.errors import InvalidInput, SchemaUnreleased
from tests.conformance.callers import sqlalchemy_engine
from tests.conformance.next_release import KNOWN, NEXT, add_next

ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine, pool

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()
"""
REVISION = """
import sqlalchemy as sa
from alembic import op

from penstock import alembic as penstock

revision, down_revision = {revision!r}, {down!r}


def upgrade():
    {upgrade}


def downgrade():
    pass
"""
ORDERS = 'op.create_table("orders", sa.Column("id", sa.Integer, primary_key=True))'
Environment = Callable[..., Config]


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    """Give an empty store."""
    found: str = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture
def environment(address: str, tmp_path: Path) -> Environment:
    """Give a way to make an Alembic environment whose revisions run some lines each."""

    def make(*upgrades: str) -> Config:
        folder = tmp_path / "alembic"
        (folder / "versions").mkdir(parents=True)
        (folder / "env.py").write_text(ENVIRONMENT, "utf-8")
        for number, lines in enumerate(upgrades, 1):
            down = str(number - 1) if number > 1 else None
            text = REVISION.format(revision=str(number), down=down, upgrade=lines)
            (folder / "versions" / f"r{number}.py").write_text(text, "utf-8")
        config = Config(output_buffer=io.StringIO(), stdout=io.StringIO())
        config.set_main_option("script_location", str(folder))
        config.set_main_option("path_separator", "os")
        url = address.replace("postgresql://", "postgresql+psycopg://")
        config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        return config

    return make


def wanting(address: str, names: Names | None = None) -> tuple[list[int], list[str]]:
    """Return which versions a store lacks, and how its tables differ."""
    database = open_database(address, names or Names())
    try:
        return [step.version for step in pending(database)], differences(database)
    finally:
        database.close()


def test_a_revision_makes_the_tables(environment: Environment, address: str) -> None:
    config = environment(ORDERS, "penstock.upgrade()")
    command.upgrade(config, "head")
    command.upgrade(config, "head")
    assert wanting(address) == ([], [])


@pytest.mark.slow
def test_what_is_there_already_is_not_made_again(environment: Environment, address: str) -> None:
    outbox = Outbox(address)
    outbox.migrate()
    command.upgrade(environment(f"penstock.upgrade(to={KNOWN})", "penstock.upgrade()"), "head")
    assert outbox.migrate() == []
    outbox.close()
    assert wanting(address) == ([], [])


@pytest.mark.slow
def test_a_later_revision_goes_on(environment: Environment, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_next(monkeypatch)
    later = f"penstock.upgrade(since={KNOWN}, to={NEXT})"
    config = environment(f"penstock.upgrade(to={KNOWN})", ORDERS, later)
    command.upgrade(config, "2")
    assert wanting(address)[0] == [NEXT]
    command.upgrade(config, "head")
    assert wanting(address) == ([], [])


def test_the_sql_of_a_revision_can_be_run_by_hand(
    environment: Environment, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_next(monkeypatch)
    config = environment(f"penstock.upgrade(to={KNOWN})", f"penstock.upgrade(since={KNOWN}, to={NEXT})")
    command.upgrade(config, "head", sql=True)
    assert isinstance(config.output_buffer, io.StringIO)
    run_script(address, config.output_buffer.getvalue())
    assert wanting(address) == ([], [])


def run_script(address: str, script: str) -> None:
    """Run some SQL as an administrator would."""
    if address.startswith("sqlite"):
        conn = sqlite3.connect(address.removeprefix("sqlite:///"))
        conn.executescript(script)
        conn.close()
        return
    with psycopg.connect(address, autocommit=True) as own:
        own.execute(script.encode())


@pytest.mark.slow
def test_a_revision_that_fails_leaves_nothing(environment: Environment, address: str) -> None:
    config = environment("penstock.upgrade(); raise RuntimeError")
    with pytest.raises(RuntimeError):
        command.upgrade(config, "head")
    assert wanting(address)[0] == [KNOWN]
    outbox = Outbox(address)
    outbox.migrate()  # no table is in the way
    outbox.close()
    assert wanting(address) == ([], [])


def test_versions_that_there_are_not_are_refused(environment: Environment, address: str) -> None:
    config = environment("penstock.upgrade(to=99)")
    with pytest.raises(InvalidInput, match=f"up to 99: this Penstock has {KNOWN} to {KNOWN}"):
        command.upgrade(config, "head")


def test_tables_of_an_unreleased_version_are_refused(environment: Environment, address: str) -> None:
    outbox = Outbox(address)
    outbox.migrate()
    outbox.close()
    run_script(address, "UPDATE penstock_meta SET value = '16' WHERE name = 'schema_version'")
    with pytest.raises(SchemaUnreleased, match="schema version 16, of an unreleased version"):
        command.upgrade(environment(f"penstock.upgrade(to={KNOWN})"), "head")


@pytest.mark.slow
def test_names_of_ones_own(environment: Environment, address: str) -> None:
    command.upgrade(environment('penstock.upgrade(prefix="acme_")'), "head")
    assert wanting(address, Names("acme_")) == ([], [])
    assert wanting(address)[0] != []


def test_a_schema_of_its_own(environment: Environment, address: str) -> None:
    if address.startswith("sqlite"):
        pytest.skip("SQLite has no schemas")
    with psycopg.connect(address, autocommit=True) as conn:
        conn.execute("DROP SCHEMA IF EXISTS penstock_own CASCADE; CREATE SCHEMA penstock_own")
    command.upgrade(environment('penstock.upgrade(schema="penstock_own")'), "head")
    assert wanting(address, Names(schema="penstock_own")) == ([], [])


@pytest.mark.parametrize("filtered", [True, False])
def test_autogenerate_leaves_our_tables_alone(address: str, filtered: bool) -> None:
    outbox = Outbox(address, prefix="acme_")
    outbox.migrate()
    outbox.close()
    chosen: Any = {"include_name": partial(include_name, prefix="acme_")} if filtered else {}
    with sqlalchemy_engine(address) as engine, engine.connect() as conn:
        context = MigrationContext.configure(conn, opts=chosen)
        found = compare_metadata(context, sqlalchemy.MetaData())
    assert (found == []) is filtered


def test_other_tables_stay_in_autogenerate() -> None:
    kept = [("orders", "table"), ("penstock_meta", "index"), (None, "schema")]
    assert all(include_name(name, kind, {}) for name, kind in kept)
    assert not include_name("penstock_meta", "table", {})
