"""The numbers of all groups, for the gauges of a store; every count has a bound."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.database.database import Transaction


class CursorNumbers(NamedTuple):
    """A cursor of a group, whether this member owns it, and whether no living member does."""

    group: str
    topic_id: int
    partition: int
    offset: int
    is_mine: bool
    is_free: bool


def read_cursors(tx: Transaction, owner: str, living: Sequence[str]) -> list[CursorNumbers]:
    """Return the cursors of all groups."""
    rows = tx.rows("delivery", "gauge_cursors", owner=owner, living=list(living))
    return [CursorNumbers(*row) for row in rows]


def read_waiting(tx: Transaction, most: int) -> dict[str, list[int]]:
    """Return for each group how many lanes wait and are held, and how many records are dead letters."""
    return {group: numbers for group, *numbers in tx.rows("delivery", "gauge_waiting", most=most)}
