"""`penstock pipeline optimize | vacuum | erase | history`: the files and commits of tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.clock import from_ms

from .exit_codes import FAILED
from .lake import LakePath
from .options import ChosenStore, Decorator, json_option, store_options
from .output import confirm, line, print_json, print_result, print_rows

if TYPE_CHECKING:
    from penstock.pipeline.lake.storage import Location
    from penstock.pipeline.lake.tables import TableCommit

path_argument: Decorator = click.argument("path", type=LakePath(file_okay=False, path_type=Path))
_SAFE_HOURS = 24
_COMMIT_COLUMNS = ("table", "version", "at (UTC)", "operation", "rows", "files added", "files removed")


@click.command("optimize")
@path_argument
@click.option("--file-bytes", type=click.IntRange(1), help="Join files up to this size.  [default: a setting]")
@click.option(
    "--forget-deleted",
    "forget_hours",
    type=click.IntRange(0),
    metavar="HOURS",
    help="In tables of upserts: remove the rows of keys deleted at least this long ago.",
)
@click.option("--dry-run", is_flag=True, help="Join nothing; show what would be joined.")
@json_option
def optimize_tables(
    path: "Location", file_bytes: int | None, forget_hours: int | None, dry_run: bool, as_json: bool
) -> None:
    """Join the small files of tables; a running pipeline does so automatically.

    Safe beside a running pipeline. The old files stay until they are vacuumed.
    """
    from penstock.pipeline.lake.upkeep import optimize
    from penstock.pipeline.settings import PipelineSettings

    settings = PipelineSettings.load(file_bytes=file_bytes)
    done = optimize(path.absolute(), file_bytes=settings.file_bytes, forget_hours=forget_hours, dry_run=dry_run)
    lines, go, become = [], "removed", "became"
    if dry_run:
        go, become = "would go", "would become about"
    for each in done:
        if each.forgotten:
            lines.append(f"{line(each.table)}: {each.forgotten:,} rows of deleted keys {go}")
        if each.files:
            lines.append(f"{line(each.table)}: {each.files:,} files {become} {each.into:,}")
    print_result(done, "\n".join(lines) if done else "nothing to join", as_json=as_json)


@click.command("vacuum")
@path_argument
@click.option(
    "--older-than",
    "hours",
    type=click.IntRange(0),
    default=168,
    show_default=True,
    help="Hours; younger files may belong to a running batch, or have readers.",
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed.")
@click.option("--yes", is_flag=True, help=f"Do not ask when --older-than is below {_SAFE_HOURS}.")
@json_option
def vacuum_tables(path: "Location", hours: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove files that no table refers to: leftovers of crashes, and files joined or replaced since."""
    from penstock.pipeline.lake.tables import vacuum

    if hours < _SAFE_HOURS and not dry_run and not yes:
        confirm(f"remove files that are {hours} hours old, which a batch or a reader may still need?")
    done = vacuum(path.absolute(), older_than_hours=hours, dry_run=dry_run)
    lines = [f"{each.table}/{file}" for each in done for file in each.files]
    text = "\n".join([*lines, f"{len(lines)} files {'would go' if dry_run else 'removed'}"])
    print_result(done, text, as_json=as_json)


@click.command("erase")
@path_argument
@store_options
@click.option(
    "--older-than",
    "hours",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Hours; files that no table ever referred to are removed at this age: younger ones may belong to a "
    "running batch.",
)
@click.option("--dry-run", is_flag=True, help="Erase nothing; show how many rows would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase_rows(path: "Location", chosen: ChosenStore, hours: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Erase from tables the records that `penstock erase` erased in the log, and all older table versions.

    The log must still hold the erased records: run it before retention removes them. Earlier versions of the
    tables become unreadable. Safe while the pipeline runs, and safe to repeat. Exit code 1 if a table does
    not name the records of its rows, so that nothing was erased in it.
    """
    from penstock.pipeline.lake.erasure import erase_in_tables

    if not dry_run and not yes:
        confirm(f"erase from {path} the records erased in the log, and all older versions of its tables?")
    with chosen.opened() as store:
        done = erase_in_tables(path.absolute(), store.log, older_than_hours=hours, dry_run=dry_run)
    if as_json:
        print_json(done)
    word = "would go" if dry_run else "erased"
    for each in [] if as_json else done:
        found = f"{each.rows:,} rows {word}, {each.files:,} files removed"
        what = f"nothing is erased: {each.unplaced}" if each.unplaced else found
        click.echo(f"{line(each.table)}: {what}", err=bool(each.unplaced))
    click.get_current_context().exit(FAILED if any(each.unplaced for each in done) else 0)


@click.command("history")
@path_argument
@click.option("--table", "tables", multiple=True, help="Only this table of a lake; may be repeated.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most commits of a table.")
@json_option
def show_history(path: "Location", tables: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Show the commits of tables: batches, compactions, and those of other engines."""
    from penstock.pipeline.lake.tables import history

    found = history(path.absolute(), limit=limit, tables=tables)
    print_rows(found, _COMMIT_COLUMNS, map(_commit_row, found), as_json=as_json)


def _commit_row(each: "TableCommit") -> tuple[object, ...]:
    at, rows = f"{from_ms(each.at_ms):%Y-%m-%d %H:%M:%S}", None if each.rows is None else f"{each.rows:,}"
    files = f"{each.files_added:,}", f"{each.files_removed:,}"
    return each.table, each.version, at, each.operation.lower(), rows, *files
