"""What the console is told of a lake, as values: it reads none itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from penstock.operate.reconcile import Reconciliation


@dataclass(frozen=True, slots=True)
class LakeTableShown:
    """One table: how much it holds, its last commit, and how many offsets of each topic it has come to."""

    name: str
    rows: int
    files: int
    bytes: int
    version: int
    committed_at: datetime | None
    topics: Mapping[str, int]


class LakeView(Protocol):
    """A lake beside the store, as the command that serves the console opens it. Called in threads."""

    @property
    def path(self) -> str:
        """Where it is."""

    def tables(self) -> Sequence[LakeTableShown]:
        """Return its tables."""

    def reconcile(self, topic: str) -> Reconciliation:
        """Compare a topic, its groups and the tables; reads all places of both."""
