"""The audit log of a store: each action with its actor, time, subject and count.

An entry is written in the transaction of its action, so the audit lists exactly the actions that committed.
It names groups, topics, keys and ids, never a payload.
"""

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from penstock.clock import from_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.log.store import Store
from penstock.model.limits import check_moment

from .operation import LAST, PAGE_ROWS, Page, operation, page, place_after, storable

ACTOR = "PENSTOCK_ACTOR"
_LONGEST_ACTOR = 255


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action of a person. `subject`: the things acted on; `count`: how many."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: dict[str, Any]
    count: int


def write(
    tx: Transaction, action: str, subject: Mapping[str, Any], count: int, now_ms: int | None, actor: str | None = None
) -> None:
    """Record an action in the action's own transaction; `now_ms` None: the database's clock.

    Omits the values of `subject` that are None. The actor defaults to this process's (`this_actor`).
    """
    given = {name: each for name, each in subject.items() if each is not None}
    stored = {name: storable(each) if isinstance(each, str) else each for name, each in given.items()}
    text, by = msgspec.json.encode(stored).decode(), storable(actor or this_actor())[:_LONGEST_ACTOR]
    tx.change("operate", "audit_write", actor=by, action=action, subject=text, count=count, now_ms=now_ms)


def this_actor() -> str:
    """Return the actor: the environment's PENSTOCK_ACTOR, else the user of this process and its host."""
    named = os.environ.get(ACTOR, "").strip()
    if named:
        return named
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may have users without a name
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    return f"{user}@{socket.gethostname()}"


@operation
def audit(
    store: Store,
    *,
    action: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[AuditEntry]:
    """Return a page of the audit, newest first, optionally of one action, one actor or a span of time.

    Raises InvalidPage, InvalidTime.
    """
    (last,) = place_after(after, limit, LAST)
    params = {
        "before": last,
        "since_ms": None if since is None else check_moment("since", since, 0),
        "before_ms": None if before is None else check_moment("before", before, 0),
        "action": None if action is None else storable(action),
        "actor": None if actor is None else storable(actor),
    }
    rows = store.database.look(lambda tx: tx.rows("operate", "audit_list", limit=limit + 1, **params))

    def entry(row: Row) -> AuditEntry:
        id, at_ms, actor, action, subject, count = row
        return AuditEntry(id, from_ms(at_ms), actor, action, msgspec.json.decode(subject), count)

    return page(rows, limit, 1, entry)
