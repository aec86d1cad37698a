"""Acts of persons that left no other rows: letters discarded, groups reset, events cancelled.

A record that a group has passed leaves no row, whether it was delivered or a person discarded it. The audit
tells which: for a single id with certainty, for a selection only that the record may have been in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from penstock.database.database import Transaction

from .finder import Logged

DISCARD, RESET, CANCEL = "dead discard", "group reset", "scheduled cancel"
_ENTRIES = 1_000  # of the audit, the newest, that are searched


@dataclass(frozen=True, slots=True)
class Act:
    """One act of a person."""

    at_ms: int
    actor: str
    action: str
    subject: dict[str, Any]

    def may_concern(self, group: str, record: Logged) -> bool:
        """Return whether it concerned the record, or a selection that may have held it."""
        held = {"group": group, "topic": record.topic.name, "partition": record.partition}
        held |= {"id": record.id, "key": record.key, "type": record.type}
        same = all(self.subject.get(name) in (None, value) for name, value in held.items())
        return same and self.at_ms >= record.timestamp_ms


class History:
    """The audit on one snapshot; read on first use."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @cached_property
    def _acts(self) -> list[Act]:
        """Newest first."""
        rows = self._tx.rows("operate", "why_audit", actions=[DISCARD, RESET, CANCEL], limit=_ENTRIES)
        return [
            Act(at_ms, actor, action, msgspec.json.decode(subject, type=dict[str, Any]))
            for at_ms, actor, action, subject in rows
        ]

    def discarded(self, group: str, record: Logged) -> Act | None:
        """Return the act that certainly discarded a record, unless a later reset of the group undid it."""
        for act in self._on(group, record):
            if act.action == RESET or act.subject.get("id") == record.id:
                return None if act.action == RESET else act
        return None

    def doubts(self, group: str, record: Logged) -> list[str]:
        """Return how else than by delivery a group may have passed a record."""
        actions = {act.action for act in self._on(group, record)}
        texts = {DISCARD: "it was among the dead letters that were discarded", RESET: "the group was reset past it"}
        return [text for action, text in texts.items() if action in actions]

    def cancelled(self, id: str) -> Act | None:
        """Return the act that cancelled a scheduled event by its id."""
        return next((act for act in self._acts if act.action == CANCEL and act.subject.get("id") == id), None)

    def _on(self, group: str, record: Logged) -> Iterator[Act]:
        for act in self._acts:
            if act.action in (DISCARD, RESET) and act.may_concern(group, record):
                yield act
