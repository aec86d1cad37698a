"""`penstock migrate`, `restored`, `retain`, `erase`, `drop` and `audit`: the tables of a store and their content."""

from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from penstock.database.address import directory_in
from penstock.database.database import Database
from penstock.database.drift import differences
from penstock.database.migrations import Migration, known_version, migrate, pending, state
from penstock.database.url import plain_url
from penstock.log.store import Store, open_store
from penstock.operate.audit import AuditEntry, audit
from penstock.operate.drop import Losses, drop, losses, restored
from penstock.operate.erase import Erased, count_owner, erase
from penstock.operate.progress import readers
from penstock.operate.retention import planned, retain

from .options import ChosenStore, json_option, past_option, refuse_memory, store_command, store_options, yes_option
from .output import ask_for, confirm, line, print_json, print_page, print_result, print_table

_RESTORED = "the log is incarnation {} now; pipelines stop at their next batch"
_WORDS = {
    "staged": "staged, deleted",
    "scheduled": "scheduled, deleted",
    "logged": "in the log, content erased",
    "waiting": "waiting in lanes, removed",
    "dead": "dead letters, removed",
}


@click.command("migrate")
@store_options
@click.option(
    "--check", is_flag=True, help="Change nothing; exit with 1 if a migration is pending or the schema has drifted."
)
@click.option(
    "--restored",
    "was_restored",
    is_flag=True,
    help="Also declare that the store was restored from a backup, as penstock restored does.",
)
@click.option("--sql", "as_sql", is_flag=True, help="Change nothing; print the pending SQL.")
@json_option
def migrate_command(chosen: ChosenStore, check: bool, was_restored: bool, as_sql: bool, as_json: bool) -> None:
    """Bring Penstock's tables in a database up to date.

    Safe to run from several places at once and as often as you like.
    """
    if was_restored and (check or as_sql):
        raise click.UsageError("--check and --sql change nothing: omit --restored")
    store = open_store(chosen.url, chosen.names)
    with closing(store.database) as database:
        refuse_memory(chosen.url)
        if as_sql:
            click.echo("\n".join(step.script for step in pending(database)))
        elif check:
            _check(database, as_json)
        else:
            applied = migrate(database)
            _report(applied, database, as_json, restored(store) if was_restored else None)


def _check(database: Database, as_json: bool) -> None:
    waiting = pending(database)
    version, drift = 0, list[str]()
    if database.dialect.missing_file() is None:
        version = _version(database)
        # Only the Penstock that made newer tables knows their schema.
        drift = [] if version > known_version(database) else differences(database)
    titles = [_title(step) for step in waiting]
    lines = [f"pending: {each}" for each in titles] + [f"drift: {each}" for each in drift]
    text = "\n".join(lines) or f"up to date{_newer(version, database)}"
    print_result({"pending": titles, "drift": drift}, text, as_json=as_json)
    click.get_current_context().exit(1 if waiting or drift else 0)


def _report(applied: list[Migration], database: Database, as_json: bool, incarnation: int | None) -> None:
    version, titles = _version(database), [_title(step) for step in applied]
    document: dict[str, Any] = {"applied": titles, "version": version}
    lines = [*(f"applied: {each}" for each in titles), f"up to date: version {version}{_newer(version, database)}"]
    if incarnation is not None:
        document |= {"incarnation": incarnation}
        lines.append(_RESTORED.format(incarnation))
    print_result(document, "\n".join(lines), as_json=as_json)


def _version(database: Database) -> int:
    return database.look(lambda tx: state(tx, database)).version


def _newer(version: int, database: Database) -> str:
    """Return a note if a newer Penstock has migrated the tables."""
    known = known_version(database)
    return f"; this Penstock knows {known} and can still use it" if version > known else ""


def _title(step: Migration) -> str:
    return f"{step.version:04} {step.name}"


@store_command("restored")
@yes_option
def restored_command(store: Store, yes: bool, as_json: bool) -> None:
    """Declare that this store was restored from a backup, or failed over with a loss.

    Its log becomes a new incarnation: pipelines that have read more than the backup holds stop and show the
    ranges, instead of skipping new records that get the offsets of lost ones. Run it before anything is
    published. Workers that ran during the restore have done it already.
    """
    if not yes:
        confirm("was it restored? every pipeline of this store will stop", as_json=as_json)
    incarnation = restored(store)
    print_result({"incarnation": incarnation}, _RESTORED.format(incarnation), as_json=as_json)


@store_command("retain")
@click.option("--topic", help="Only this topic.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show how many records it would be.")
def retain_command(store: Store, topic: str | None, dry_run: bool, as_json: bool) -> None:
    """Delete the records that are past their retention.

    Workers do this automatically; the command is for stores without one. The settings under [retention]
    apply, or those of `penstock topics set` for a topic. Records stay that a recently seen group has not
    passed, or that wait in its lanes. Safe beside everything else, and safe to repeat.
    """
    done = (planned if dry_run else retain)(store, topic)
    if as_json:
        print_json({"deleted": done.deleted, "count": done.count, "dry_run": dry_run})
        return
    if done.deleted:
        print_table(("topic", "would be deleted" if dry_run else "deleted"), sorted(done.deleted.items()))
    else:
        click.echo("nothing to delete")


@store_command("erase")
@click.argument("owner")
@click.option("--dry-run", is_flag=True, help="Erase nothing; show how many events there are.")
@yes_option
def erase_command(owner: str, store: Store, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Erase all events that were published with this owner tag, in every state.

    Staged and scheduled events are deleted, records in the log lose key, value and headers and keep their
    offset, and their copies in lanes and dead letters are removed. It cannot be undone. Safe while workers
    run, and safe to repeat. Copies elsewhere stay: those of handlers and Kafka clients, backups, and
    lakehouse tables until you run `penstock pipeline erase` on them; this command names the pipelines.
    """
    found = count_owner(store, owner)
    if not dry_run:
        if not yes and found.count:
            if not as_json:
                _print_counts(found, err=True)
            confirm(
                f"erase all events tagged {line(owner)}?", as_json=as_json, instead="--yes, or --dry-run for the counts"
            )
        found = erase(store, owner)
    pipelines = [each.name for each in readers(store.log)]
    if as_json:
        more = {"count": found.count, "dry_run": dry_run, "pipelines": pipelines}
        print_json(asdict(found) | more)
    elif not found.count:
        click.echo("no events have this tag")
    else:
        _print_counts(found)
        click.echo("nothing is erased yet" if dry_run else "erased")
        for name in pipelines if found.logged and not dry_run else ():
            click.echo(
                f"pipeline {line(name)} may have them in its tables; erase them there, too: "
                "penstock pipeline erase FOLDER"
            )


def _print_counts(found: Erased, *, err: bool = False) -> None:
    for name, count in asdict(found).items():
        if count:
            click.echo(f"{count:>8} {_WORDS[name]}", err=err)


@click.command("drop")
@store_options
@click.option("--force", is_flag=True, help="Drop them even while members run.")
@yes_option
@json_option
def drop_command(chosen: ChosenStore, force: bool, yes: bool, as_json: bool) -> None:
    """Drop Penstock's tables and everything in them.

    The opposite of migrate: only the tables of this prefix and schema, for good. It shows what will be lost
    and asks for the prefix, unless --yes is given. Refused while members run.
    """
    with chosen.opened() as store:
        if not yes:
            if not as_json:
                click.echo(f"this deletes {_lost(losses(store))}", err=True)
            name = chosen.names.table("*").replace('"', "")
            ask_for(chosen.prefix, f"type {chosen.prefix} to drop the tables {name}", as_json=as_json)
        lost = drop(store, force=force)
    text, directory = f"dropped, with {_lost(lost)}", directory_in(plain_url(chosen.url))
    if directory is not None:
        text += f"\nthe segments stay in {line(directory)}, unreadable: remove the directory"
    print_result(lost, text, as_json=as_json)


def _lost(lost: Losses) -> str:
    return (
        f"{lost.topics} topics, {lost.records} records, {lost.staged} staged, {lost.scheduled} scheduled, "
        f"{lost.groups} groups, {lost.dead} dead letters"
    )


@store_command("audit", paged=True)
@click.option("--action", help="Only this action, such as 'dead requeue'.")
@click.option("--actor", help="Only this actor's entries.")
@past_option("--since", "Only entries at or after this moment.")
@past_option("--before", "Only entries before this moment.")
def audit_command(store: Store, as_json: bool, **filters: Any) -> None:
    """List the audit entries of a store, newest first.

    Every command and every operation that changes the store writes an entry in the transaction of its change,
    never with a payload. Who: PENSTOCK_ACTOR, or the user and the host. A moment looks like 2026-11-16T02:00
    (UTC, or with a zone), or is a duration back from now, such as 2h or 30d.
    """
    found, columns = audit(store, **filters), ("at", "who", "action", "subject", "count")
    print_page("audit", found, columns, _entry, none="no audit entries", as_json=as_json, prose=("subject",))


def _entry(each: AuditEntry) -> tuple[object, ...]:
    subject = " ".join(f"{name}={value}" for name, value in each.subject.items())
    return each.at, each.actor, each.action, subject, each.count
