"""A worker's message when it has joined: one log record, a short block as text, fields for machines."""

import logging
from collections.abc import Sequence
from importlib import metadata

from .subscription import Subscription

logger = logging.getLogger("penstock.worker")


def tell_start(where: str, subscriptions: Sequence[Subscription], member: str, members: int) -> None:
    """Log the Penstock version, its store and groups, and how many members are present now.

    `where`: the store's address without its password.
    """
    handlers: dict[str, list[str]] = {}
    for each in subscriptions:
        handlers.setdefault(each.group, []).extend(handler.id for handler in each.handlers)
    number = own_version()
    lines = [f"penstock {number} has joined as member {member}", f"  store    {where}"]
    lines += [f"  group    {group}: {', '.join(ids)}" for group, ids in handlers.items()]
    lines += [f"  members  {members} there now, this one included"]
    fields = {
        "event": "started",
        "version": number,
        "store": where,
        "groups": list(handlers),
        "handlers": [id for ids in handlers.values() for id in ids],
        "member": member,
        "members": members,
    }
    logger.info("\n".join(["%s"] * len(lines)), *lines, extra=fields)  # each on a line of its own


def own_version() -> str:
    """Return the version of Penstock; "unknown" for a copy that was never installed."""
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "unknown"
