"""Rules in the database: for processes that share no file, and the ACLs that Kafka clients set."""

from collections.abc import Iterable

from penstock.database.database import Transaction

from .rule import AccessRule, parse_rule

PLACE = "database"


def stored_rules(tx: Transaction) -> list[AccessRule]:
    """Return all rules of the database, in the order they were added. Raises InvalidRule."""
    return [parse_rule(rule, PLACE) for rule, _, _ in tx.rows("access", "access_rules")]


def add_rules(tx: Transaction, rules: Iterable[AccessRule], by: str, now_ms: int) -> int:
    """Add rules; return how many are new."""
    return sum(
        tx.change("access", "access_rule_add", rule=str(each), added_by=by, added_ms=now_ms) for each in rules
    )


def remove_rules(tx: Transaction, rules: Iterable[AccessRule]) -> int:
    """Remove rules; return how many existed."""
    return sum(tx.change("access", "access_rule_remove", rule=str(each)) for each in rules)
