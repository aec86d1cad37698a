"""`penstock audit`: the audit entries of a store."""

from typing import Any

import click

from penstock.log.store import Store
from penstock.operate.audit import AuditEntry, audit

from .options import after_option, before_option, limit_option, since_option, store_command
from .output import cell, moment, print_page

_COLUMNS = ("at", "who", "action", "subject", "count")


@store_command("audit")
@click.option("--action", help="Only this action, such as 'dead requeue'.")
@click.option("--actor", help="Only this actor's entries.")
@since_option("Only entries at or after this moment.")
@before_option("Only entries before this moment.")
@limit_option
@after_option
def command(store: Store, as_json: bool, **filters: Any) -> None:
    """List the audit entries of a store, newest first.

    Every command and every operation that changes the store writes an entry in the transaction of its change,
    never with a payload. Who: PENSTOCK_ACTOR, or the user and the host. A moment looks like 2026-11-16T02:00
    (UTC, or with a zone), or is a duration back from now, such as 2h or 30d.
    """
    found = audit(store, **filters)
    print_page("audit", found, _COLUMNS, _row, none="no audit entries", as_json=as_json, prose=("subject",))


def _row(each: AuditEntry) -> tuple[str, ...]:
    subject = " ".join(f"{name}={value}" for name, value in each.subject.items())
    texts = moment(each.at), each.actor, each.action, subject, str(each.count)
    return tuple(map(cell, texts))
