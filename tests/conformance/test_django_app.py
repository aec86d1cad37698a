"""The Django app in a real project: its migrations, its commands, its checks, and Django's own tests."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.utils import ConnectionHandler

from penstock import Outbox
from penstock.database.migrations import chain_of
from penstock.database.naming import Names
from penstock.django import database_url, fresh_connections, migrations
from tests.conformance.django_callers import database_of
from tests.conformance.django_project import Project, sound, wanting
from tests.conformance.engines import connect
from tests.conformance.next_release import EXPANDING, KNOWN, NEXT, add_next
from tests.services.slow import but_the_first
from tests.upgrade.releases import PRESENT, Release

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture(params=but_the_first(["sqlite", "postgres"]))
def address(request: pytest.FixtureRequest) -> str:
    """Give an empty store."""
    found: str = request.getfixturevalue(f"{request.param}_store")
    return found


@pytest.fixture
def project(address: str, tmp_path: Path) -> Project:
    """Give a project on it."""
    return Project(tmp_path / "project", address)


def test_there_is_a_migration_for_each_version() -> None:
    folder = Path(migrations.__path__[0])
    found = sorted(path.stem for path in folder.glob("0*.py"))
    assert found == [f"{step.version:04}_{step.name}" for step in chain_of("sqlite", Names())]
    for stem in found:
        assert f"Tables({int(stem[:4])})" in (folder / f"{stem}.py").read_text("utf-8")


def test_migrate_makes_the_tables_and_they_work(project: Project, address: str) -> None:
    migrated, drift, known, back = project.manage(
        "migrate", "makemigrations penstock --check", "penstock migrate --check", "penstock"
    )
    assert "Applying penstock.0017_first_release... OK" in sound([migrated])
    assert "No changes detected" in sound([drift])
    assert "up to date" in sound([known])
    assert "Usage: penstock" in sound([back])
    assert wanting(address) == ([], [])
    outbox = Outbox(address)
    conn = connect(address)
    outbox.publish(conn, "t", 1)
    conn.commit()
    conn.close()
    assert outbox.drain().sequenced == 1
    outbox.close()


@pytest.mark.slow
def test_migrate_goes_on_from_what_is_there(
    project: Project, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by `penstock migrate`, then by the Django migration of the next release."""
    outbox = Outbox(address)
    outbox.migrate()
    said = sound(project.manage("migrate", "showmigrations penstock"))
    assert "[X] 0017_first_release" in said
    following = Release(PRESENT.parent).following(tmp_path / "next", NEXT, EXPANDING.format(version=NEXT))
    (following.folder / f"penstock/django/migrations/{NEXT:04}_later.py").write_text(LATER, "utf-8")
    project.package = following.folder
    said = sound(
        project.manage(
            f"sqlmigrate penstock {NEXT:04}",
            "migrate",
            "penstock migrate --check",
            f"migrate penstock {KNOWN:04}",
            "penstock migrate --check",
            "migrate",
            "penstock migrate --check",
        )
    )
    assert said.count("CREATE TABLE penstock_later") == 1
    assert "CREATE TABLE penstock_log (" not in said
    assert said.count("up to date") == 3
    assert outbox.migrate() == []
    add_next(monkeypatch)
    assert wanting(address) == ([], [])
    sound(project.manage("migrate penstock zero"))
    assert wanting(address)[0] == [KNOWN, NEXT]
    outbox.close()


LATER = f"""
from django.db import migrations
from penstock.django.tables import Tables


class Migration(migrations.Migration):
    dependencies = [("penstock", "{KNOWN:04}_first_release")]
    operations = [Tables({NEXT})]
"""


@pytest.mark.slow
def test_tables_of_an_unreleased_version_are_refused_whatever_django_has_recorded(
    project: Project, address: str
) -> None:
    """Django's own record names migrations that are gone; the tables say of which version they are."""
    sound(project.manage("migrate"))
    old = "UPDATE penstock_meta SET value = '16' WHERE name = 'schema_version'"
    for statement in (old, "UPDATE django_migrations SET name = '0016_hand_out' WHERE app = 'penstock'"):
        run_sql(address, statement)
    (said,) = project.manage("migrate")
    assert said.endswith("== 1")
    assert "SchemaUnreleased: the tables have schema version 16, of an unreleased version" in said
    run_sql(address, f"UPDATE penstock_meta SET value = '{KNOWN}' WHERE name = 'schema_version'")
    assert wanting(address) == ([], [])


def run_sql(address: str, statement: str) -> None:
    conn = connect(address)
    conn.execute(statement)
    conn.commit()
    conn.close()


@pytest.mark.slow
def test_names_of_ones_own_and_a_database_that_has_none(project: Project, tmp_path: Path) -> None:
    other = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.db")}
    project.settings["DATABASES"]["other"] = other
    project.settings["PENSTOCK_PREFIX"] = "acme_"
    said = project.manage(
        "migrate",
        "migrate --database other",
        "penstock migrate --check",
        "penstock dead list --json",
        f"sqlmigrate penstock {KNOWN:04}",
    )
    assert "up to date" in said[2]
    assert "CREATE TABLE acme_log (" in said[4]
    assert "penstock_log" not in said[4]
    sound(said)
    assert wanting(f"sqlite:///{tmp_path / 'other.db'}", Names("acme_"))[0] != []


PUBLISH = """
from django.db import connection, transaction
from shop.events import outbox
from shop.models import Order
with transaction.atomic():
    outbox.publish(connection, "order.placed", {"order": Order.objects.create().pk}, key="1")
"""


@pytest.mark.slow
def test_the_worker_of_a_project_delivers(project: Project) -> None:
    said = sound(project.manage("migrate", ["shell", "-c", PUBLISH], "penstock worker"))
    assert "mailed 1 1" in said


@pytest.mark.slow
def test_djangos_own_tests_have_the_tables(project: Project) -> None:
    project.settings["DATABASES"]["default"]["OPTIONS"].pop("options", None)  # a schema of the test's
    said = sound(project.manage("test --noinput"))
    assert "\nOK\n" in said
    assert "penstock.W" not in said


# --- checks ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sound_project_has_nothing_to_check(project: Project) -> None:
    assert "no issues" in sound(project.manage("check"))


@pytest.mark.slow
def test_what_is_wrong_is_warned_of(sqlite_store: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", sqlite_store)
    del project.settings["DATABASES"]["default"]["OPTIONS"]["transaction_mode"]
    events = project.folder / "shop" / "events.py"
    text = events.read_text("utf-8").replace("Outbox(database_url())", 'Outbox("sqlite:///elsewhere.db")')
    events.write_text(text, "utf-8")
    said = sound(project.manage("check"))
    assert "penstock.W001" in said
    assert '"transaction_mode": "IMMEDIATE"' in said
    assert "penstock.W002" in said


@pytest.mark.slow
def test_an_outbox_that_cannot_be_loaded_is_an_error(sqlite_store: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "project", sqlite_store)
    wrong = ["nowhere:outbox", "shop.events:nothing", "shop.events:send_mail", "shop", 5]
    ask = [
        "from django.test import override_settings; from django.core.management import call_command\n"
        f"with override_settings(PENSTOCK_OUTBOX={name!r}): call_command('check')"
        for name in wrong
    ]
    for name, said in zip(wrong, project.manage(*[["shell", "-c", each] for each in ask]), strict=True):
        assert said.endswith("== 1")
        assert "penstock.E001" in said
        assert f"PENSTOCK_OUTBOX={name!r}" in said


# --- addresses ---------------------------------------------------------------------------------


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the databases of a project, to fill."""
    found: dict[str, Any] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
    monkeypatch.setattr("penstock.django.connections.connections", ConnectionHandler(found))
    return found


POSTGRESQL: dict[str, tuple[dict[str, Any], str]] = {
    "all": (
        {"NAME": "shop", "USER": "a@b", "PASSWORD": "p:w/d ", "HOST": "db", "PORT": "5433"},
        "postgresql://a%40b:p%3Aw%2Fd%20@db:5433/shop",
    ),
    "a socket": ({"NAME": "shop"}, "postgresql:///shop"),
    "a folder": ({"NAME": "shop", "HOST": "/run/pg", "PORT": 1}, "postgresql:///shop?host=%2Frun%2Fpg&port=1"),
    "options": (
        {"NAME": "s", "OPTIONS": {"sslmode": "require", "isolation_level": 2, "pool": True}},
        "postgresql:///s?sslmode=require",
    ),
    "an address of six bytes and more": ({"NAME": "s", "HOST": "::1"}, "postgresql://[::1]/s"),
    "a service": ({"NAME": "", "OPTIONS": {"service": "shop"}}, "postgresql:///?service=shop"),
}


@pytest.mark.parametrize("case", POSTGRESQL)
def test_the_address_of_a_server(databases: dict[str, Any], case: str) -> None:
    given, expected = POSTGRESQL[case]
    databases["shop"] = {"ENGINE": "django.db.backends.postgresql", **given}
    assert database_url("shop") == expected


def test_the_address_of_a_file(databases: dict[str, Any], tmp_path: Path) -> None:
    databases["path"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a.db"}
    assert database_url() == "sqlite:///shop.db"
    assert database_url("path") == f"sqlite:///{tmp_path}/a.db"


def test_the_address_leads_to_the_same_database(databases: dict[str, Any], postgres_store: str) -> None:
    databases["shop"] = database_of(postgres_store)
    with psycopg.connect(database_url("shop")) as here, psycopg.connect(postgres_store) as there:
        ask = "SELECT current_database(), current_schema(), current_user"
        assert here.execute(ask).fetchone() == there.execute(ask).fetchone()


def test_a_database_that_cannot_be_shared_is_refused(databases: dict[str, Any]) -> None:
    databases["memory"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    databases["dummy"] = {"ENGINE": "django.db.backends.dummy"}
    with pytest.raises(ImproperlyConfigured, match="is in memory"):
        database_url("memory")
    with pytest.raises(ImproperlyConfigured, match="supports sqlite and postgresql"):
        database_url("dummy")


def test_fresh_connections_surrounds_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr("penstock.django.connections.close_old_connections", lambda: closed.append("closed"))

    def sync(record: Any) -> Any:
        closed.append(f"called {record}")

    async def awaited(record: Any) -> Any:
        closed.append(f"awaited {record}")

    fresh_connections(sync)(1)
    asyncio.run(fresh_connections(awaited)(2))
    assert closed == ["closed", "called 1", "closed", "closed", "awaited 2", "closed"]
    assert list(inspect.signature(fresh_connections(sync)).parameters) == ["record"]
    assert inspect.iscoroutinefunction(fresh_connections(awaited))
