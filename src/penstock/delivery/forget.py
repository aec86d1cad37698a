"""Forgetting a topic: removes all that groups remember of it when it is deleted, or is emptied."""

from penstock.database.database import Transaction

_WAITING = ("lanes_delete", "entries_delete", "dead_delete", "notes_delete", "fallbacks_delete")


def forget_readers(tx: Transaction, topic_id: int) -> None:
    """Remove every group's cursors on a topic, and everything it has put aside there."""
    tx.change("delivery", "cursors_delete", topic_id=topic_id)
    forget_waiting(tx, topic_id)


def forget_waiting(tx: Transaction, topic_id: int) -> None:
    """Remove everything groups have put aside of a topic: lanes, dead letters, notes, completed fallbacks."""
    for statement in _WAITING:
        tx.change("delivery", statement, topic_id=topic_id)
