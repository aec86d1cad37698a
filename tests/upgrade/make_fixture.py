"""Makes the fixture files of this folder: a store of version 6 on each engine, and what it held.

Made with commit d6bdc30 (schema version 6), the last one landed before the upgrade they test. They are not
made again: a later version of the schema gets files of its own beside them. How it was run, from the root of
this tree, with ../old a checkout of that commit after its scripts/setup:

    PYTHONPATH=. ../old/.venv/bin/python -m tests.upgrade.make_fixture

| file               | is                                                                               |
|--------------------|----------------------------------------------------------------------------------|
| v6.sqlite.db.gz    | SQLite's own file, vacuumed                                                      |
| v6.postgres.sql    | the migrations' own text, then the rows; loads into an empty schema, from 13 on  |
| v6.json            | what the store held: the records, and each one's fate in each group (`story.py`) |

The one thing written by hand is the name of the machine in the rows of the killed workers.
"""

import gzip
import json
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql

import penstock
from tests.conformance.engines import connect, postgres_schema_url
from tests.services.postgres import PostgresServer
from tests.unit.cli.program import penstock as command
from tests.upgrade.story import RETRY_AT, SCHEDULED_AT, SECOND_DAY, TOPICS, Story, hang

HERE = Path(__file__).parent
VERSION, COMMIT = 6, "d6bdc30"
ANONYMOUS = "UPDATE penstock_member SET host = 'old-host/pid:[1]', pid = 4242, started = '1'"


def main() -> None:
    """Make the files."""
    logging.disable(logging.CRITICAL)  # what fails is meant to
    os.environ["PENSTOCK_ACTOR"] = "operator"
    # The worker begins at once instead of gathering newcomers.
    os.environ["PENSTOCK_CLUSTER_GATHER_JOINS"] = "0"
    print("made with", penstock.__file__)
    with TemporaryDirectory() as folder, PostgresServer() as server:
        file = Path(folder) / "v6.db"
        on_sqlite = _told(f"sqlite:///{file}")
        _keep_sqlite(file)
        database = server.create_database()
        on_postgres = _told(url := postgres_schema_url(database))
        _keep_postgres(url, postgres_schema_url(database))
    assert on_sqlite.fates == on_postgres.fates, "the engines differ"
    _keep_account({"sqlite": on_sqlite, "postgres": on_postgres})


def _told(url: str) -> Story:
    story = Story(url)
    story.act()
    conn = connect(url)
    conn.execute(ANONYMOUS)
    conn.commit()
    ((version,),) = conn.execute("SELECT value FROM penstock_meta WHERE name = 'schema_version'").fetchall()
    assert int(version) == VERSION, "this is not the version that the files are named after"
    conn.close()
    return story


def _keep_sqlite(file: Path) -> None:
    conn = sqlite3.connect(file, isolation_level=None)
    conn.execute("VACUUM")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    (HERE / "v6.sqlite.db.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))


def _keep_postgres(url: str, empty_url: str) -> None:
    printed = subprocess.run(
        command("migrate", "--url", empty_url, "--sql"), capture_output=True, text=True, check=True
    )
    with psycopg.connect(url) as conn:
        rows = "\n".join(_statements(conn))
    head = f"-- Penstock's tables of version {VERSION}, with rows; made by make_fixture.py at {COMMIT}.\n\n"
    (HERE / "v6.postgres.sql").write_text(f"{head}{printed.stdout}\n{rows}\n", "utf-8")


def _statements(conn: psycopg.Connection[Any]) -> Iterator[str]:
    """Yield what fills empty tables with the rows of this schema."""
    tables = conn.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
    ).fetchall()
    for (table,) in tables:
        yield f"DELETE FROM {table};"
        found = conn.execute(sql.SQL("SELECT * FROM {} AS r ORDER BY r").format(sql.Identifier(table)))
        names = ", ".join(f'"{column.name}"' for column in found.description or ())
        lines = [", ".join(map(_literal, row)) for row in found]
        if lines:
            values = ",\n".join(f"({line})" for line in lines)
            yield f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE VALUES\n{values};"
    sequences = conn.execute(
        "SELECT sequencename, last_value FROM pg_sequences"
        " WHERE schemaname = current_schema() AND last_value IS NOT NULL ORDER BY sequencename"
    )
    for name, last in sequences:
        yield f"SELECT setval('{name}', {last});"


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool | int):
        return "NULL" if value is None else str(value)
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    assert isinstance(value, str)
    return "'" + value.replace("'", "''") + "'"


def _keep_account(stories: dict[str, Story]) -> None:
    told = stories["sqlite"]
    head = {
        "commit": COMMIT,
        "version": VERSION,
        "made_at": SECOND_DAY.isoformat(),
        "scheduled_at": SCHEDULED_AT.isoformat(),
        "retry_at": RETRY_AT.isoformat(),
        "groups": TOPICS,
    }
    lines = []
    for each in told.records:
        label = str(each["label"])
        fates = {group: known[label] for group, known in told.fates.items() if label in known}
        ids = {engine: story.id_of(label) for engine, story in stories.items()}
        lines.append(json.dumps(each | {"id": ids, "fates": fates}, ensure_ascii=False))
    records = ",\n  ".join(lines)
    text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "records": [\n  {records}\n ]\n}}\n'
    json.loads(text)
    (HERE / "v6.json").write_text(text, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["hang"]:
        hang(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
