"""`penstock doctor`: examines this machine and a store."""

from pathlib import Path

import click
from rich.text import Text

from penstock.database.address import FORMS
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.operate.doctor import DoctorFinding, PartState, examine, healthy
from penstock.operate.store_doctor import examine_store
from penstock.outbox.bell import BellSettings

from .options import attached
from .output import print_rows

_PROSE = ("found", "enables", "to get it")
_SIGNS = {
    PartState.OK: Text("ok", "green"),
    PartState.MISSING: Text("–", "dim"),
    PartState.NOTE: Text("note", "cyan"),
    PartState.LOW: Text("low", "yellow"),
    PartState.BROKEN: Text("no", "red"),
}


@click.command("doctor")
@click.option("--url", envvar="PENSTOCK_URL", show_envvar=True, help=f"Examine this store, too: {', '.join(FORMS)}.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(url: str | None, as_json: bool) -> None:
    """Check this machine and a store, and show what each missing part would enable.

    With a store, it lists everything in it that makes no progress, and why: events that no worker sequences, groups
    without a worker or with a stalled one, silent members, long transactions, topics without a reader. It also checks
    whether workers hear the bell, which time limits of the server may end a handler's transaction, which readers hold
    retention back, which groups retention no longer waits for, and which groups seem to be two programs under one name.
    Of a log in files it reads about 250 MB to find damage; `penstock log verify` reads all of it. Exits with 1 if a
    required part is broken, the tables cannot be used, or the log is damaged.
    """
    folder, of_store = _of_store(url)
    findings = [*examine(folder), *of_store]
    rows = [
        (one.part, _SIGNS[one.state], one.found, one.enables, "" if one.state is PartState.OK else one.remedy)
        for one in findings
    ]
    print_rows(findings, ("part", "state", *_PROSE), rows, as_json=as_json, prose=_PROSE)
    click.get_current_context().exit(0 if healthy(findings) else 1)


def _of_store(url: str | None) -> tuple[Path, list[DoctorFinding]]:
    """Return the folder whose disk the store needs, and the findings on the store."""
    if url is None:
        return Path.cwd(), []
    with attached(url, Names(), listen_url=BellSettings.load().listen_url) as store:
        dialect = store.database.dialect
        folder = Path(dialect.path).parent if isinstance(dialect, SqliteDialect) else Path.cwd()
        return folder, examine_store(store)
