"""A lake as the console sees it: values and a protocol. The console itself reads no lake."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from penstock.operate.reconcile import Reconciliation


@dataclass(frozen=True, slots=True)
class LakeTableShown:
    """One table: its size, its last commit, and how many offsets of each topic it holds."""

    name: str
    rows: int
    files: int
    bytes: int
    version: int
    committed_at: datetime | None
    topics: Mapping[str, int]


class LakeView(Protocol):
    """A lake beside the store, opened by the command that serves the console. Called from threads."""

    @property
    def path(self) -> str:
        """The lake's path."""

    def tables(self) -> Sequence[LakeTableShown]:
        """Return its tables."""

    def reconcile(self, topic: str) -> Reconciliation:
        """Compare a topic, its groups and the tables; reads every offset of the topic and the tables."""
