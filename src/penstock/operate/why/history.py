"""What persons did that the rows no longer show: letters discarded, groups reset, events cancelled.

A record that a group is past leaves no row, whether it was delivered or a person let it go. The audit knows:
for a single id surely, for a whole selection only that it may have been among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from penstock.log.sql.database import Transaction

from .finding import Logged

DISCARD, RESET, CANCEL = "dead discard", "group reset", "scheduled cancel"
_ENTRIES = 1_000  # of the audit that are looked at, the newest


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a person did."""

    at_ms: int
    actor: str
    action: str
    subject: dict[str, Any]

    def may_concern(self, group: str, record: Logged) -> bool:
        """Return whether it was done to the record, or to a selection that may have held it."""
        said = self.subject
        narrow = {"group": group, "topic": record.topic.name, "id": record.id, "key": record.key}
        narrow["type"] = record.type
        same = all(said.get(name) in (None, value) for name, value in narrow.items())
        partition = said.get("partition")
        return same and partition in (None, record.partition) and self.at_ms >= record.timestamp_ms


class History:
    """The audit on one snapshot; read when it is first asked."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @cached_property
    def _acts(self) -> list[Act]:
        """The newest first."""
        rows = self._tx.rows("operate", "why_audit", actions=[DISCARD, RESET, CANCEL], limit=_ENTRIES)
        return [
            Act(at_ms, actor, action, msgspec.json.decode(subject, type=dict[str, Any]))
            for at_ms, actor, action, subject in rows
        ]

    def discarded(self, group: str, record: Logged) -> Act | None:
        """Return the act that surely let a record go, and that no reset of the group has undone since."""
        for act in self._on(group, record):
            if act.action == RESET:
                return None
            if act.subject.get("id") == record.id:
                return act
        return None

    def doubts(self, group: str, record: Logged) -> list[str]:
        """Return what else than delivery may have taken a group past a record."""
        actions = {act.action for act in self._on(group, record)}
        texts = {
            DISCARD: "it was among the dead letters that were discarded",
            RESET: "the group was reset past it",
        }
        return [text for action, text in texts.items() if action in actions]

    def cancelled(self, id: str) -> Act | None:
        """Return the act that took back a scheduled event by its id."""
        return next((act for act in self._acts if act.action == CANCEL and act.subject.get("id") == id), None)

    def _on(self, group: str, record: Logged) -> Iterator[Act]:
        for act in self._acts:
            if act.action in (DISCARD, RESET) and act.may_concern(group, record):
                yield act
