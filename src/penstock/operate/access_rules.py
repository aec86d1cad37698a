"""Lists, adds and removes the access rules in the database, and audits changes. docs/how-to/access.md."""

from collections.abc import Sequence

from penstock.access.rule import AccessRule, add_rules, remove_rules, stored_rules
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.errors import LeftOpen, UnknownRule
from penstock.log.store import Store

from . import audit
from .operation import operation


@operation
def rules(store: Store) -> tuple[AccessRule, ...]:
    """Return the rules of the database."""
    return tuple(store.database.look(stored_rules))


@operation
def add(
    store: Store, added: Sequence[AccessRule], *, clock: Clock = SYSTEM, actor: str | None = None
) -> tuple[AccessRule, ...]:
    """Add rules, one row per right; return all rules of the database afterwards."""
    parts = [part for each in added for part in each.parts()]

    def change(tx: Transaction) -> tuple[AccessRule, ...]:
        by = actor or audit.this_actor()
        count = add_rules(tx, parts, by, tx.now_ms(own_ms(clock)))
        if count:
            subject = {"rules": [str(each) for each in added]}
            audit.write(tx, "access rule add", subject, count, own_ms(clock), actor=by)
        return tuple(stored_rules(tx))

    return store.database.run(change)


@operation
def remove(
    store: Store, removed: Sequence[AccessRule], *, last: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> tuple[AccessRule, ...]:
    """Remove rules; return all rules that remain. Raises UnknownRule, LeftOpen, and then removes none.

    `last`: also if no rule remains, for example because the access file has rules.
    """

    def change(tx: Transaction) -> tuple[AccessRule, ...]:
        count = 0
        for each in removed:
            found = remove_rules(tx, each.parts())
            if not found:
                raise UnknownRule(str(each))
            count += found
        if count:
            subject = {"rules": [str(each) for each in removed]}
            audit.write(tx, "access rule remove", subject, count, own_ms(clock), actor=actor)
        left = tuple(stored_rules(tx))
        if count and not left and not last:
            why = (
                "it is the last rule, and without rules every client that is admitted may do everything; add "
                "another rule first, or run penstock access remove with --last if the access file has rules"
            )
            raise LeftOpen(f"the database's rule {removed[-1]}", why)
        return left

    return store.database.run(change)
