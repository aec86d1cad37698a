"""`penstock audit`: who did what to a store."""

import click

from penstock.operate.audit import AuditEntry, audit

from .options import after_option, json_option, limit_option, opened, store_options
from .output import cell, moment, print_page

_COLUMNS = ("at", "who", "action", "to what", "count")


@click.command("audit")
@store_options
@click.option("--action", help="Only this action, such as 'dead requeue'.")
@click.option("--actor", help="Only what this person did.")
@limit_option
@after_option
@json_option
def command(
    url: str,
    prefix: str,
    schema: str | None,
    action: str | None,
    actor: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List who did what to a store, the newest first.

    Every command and every function that changes something is in it, in the transaction that changed it;
    never a payload. Who: PENSTOCK_ACTOR, else the user and the host.
    """
    with opened(url, prefix, schema) as store:
        found = audit(store, action=action, actor=actor, after=after, limit=limit)
    print_page("audit", found, _COLUMNS, _row, none="nothing was done that is audited", as_json=as_json)


def _row(each: AuditEntry) -> tuple[str, ...]:
    subject = " ".join(f"{name}={value}" for name, value in each.subject.items())
    texts = moment(each.at), each.actor, each.action, subject, str(each.count)
    return tuple(map(cell, texts))
