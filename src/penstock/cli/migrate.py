"""`penstock migrate`: bring the tables in a database up to date."""

import click

from penstock.database.database import Database
from penstock.database.drift import differences
from penstock.database.migrations import Migration, known_version, migrate, pending, state
from penstock.database.naming import Names
from penstock.log.store import open_store
from penstock.operate.drop import restored

from .options import prefix_option, schema_option, url_option
from .output import print_json
from .remedies import refuse_memory


@click.command("migrate")
@url_option
@prefix_option
@schema_option
@click.option(
    "--check",
    is_flag=True,
    help="Change nothing; exit with 1 if a migration is pending or the schema has drifted.",
)
@click.option(
    "--restored",
    "was_restored",
    is_flag=True,
    help="Also declare that the store was restored from a backup, as penstock restored does.",
)
@click.option("--sql", "as_sql", is_flag=True, help="Change nothing; print the pending SQL.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    url: str,
    prefix: str,
    schema: str | None,
    check: bool,
    was_restored: bool,
    as_sql: bool,
    as_json: bool,
) -> None:
    """Bring Penstock's tables in a database up to date.

    Safe to run from several places at once and as often as you like.
    """
    if was_restored and (check or as_sql):
        raise click.UsageError("--check and --sql change nothing: omit --restored")
    store = open_store(url, Names(prefix, schema))
    database = store.database
    try:
        refuse_memory(url)
        if as_sql:
            click.echo("\n".join(step.script for step in pending(database)))
        elif check:
            _check(database, as_json)
        else:
            applied = migrate(database)
            _report(applied, database, as_json, restored(store) if was_restored else None)
    finally:
        database.close()


def _check(database: Database, as_json: bool) -> None:
    waiting = pending(database)
    version, drift = 0, list[str]()
    if database.dialect.missing_file() is None:
        version = _version(database)
        # Only the Penstock that made newer tables knows their schema.
        drift = [] if version > known_version(database) else differences(database)
    if as_json:
        print_json({"pending": [_title(step) for step in waiting], "drift": drift})
    else:
        for step in waiting:
            click.echo(f"pending: {_title(step)}")
        for line in drift:
            click.echo(f"drift: {line}")
        if not waiting and not drift:
            click.echo(f"up to date{_newer(version, database)}")
    click.get_current_context().exit(1 if waiting or drift else 0)


def _report(applied: list[Migration], database: Database, as_json: bool, incarnation: int | None) -> None:
    version = _version(database)
    if as_json:
        raised = {} if incarnation is None else {"incarnation": incarnation}
        print_json({"applied": [_title(step) for step in applied], "version": version, **raised})
        return
    for step in applied:
        click.echo(f"applied: {_title(step)}")
    click.echo(f"up to date: version {version}{_newer(version, database)}")
    if incarnation is not None:
        click.echo(f"the log is incarnation {incarnation} now; pipelines stop at their next batch")


def _version(database: Database) -> int:
    return database.look(lambda tx: state(tx, database)).version


def _newer(version: int, database: Database) -> str:
    """Return a note if a newer Penstock has migrated the tables."""
    known = known_version(database)
    return f"; this Penstock knows {known} and can still use it" if version > known else ""


def _title(step: Migration) -> str:
    return f"{step.version:04} {step.name}"
