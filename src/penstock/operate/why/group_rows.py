"""Rows of many groups in one partition: one statement reads each kind for all of them.

A question about a key has an answer per group, and the rows behind it differ only by group. So the first
group that needs a kind of row reads those of the others, too. `add` and `expect` declare the needs
beforehand; other rows are read by separate statements. All on one snapshot, so rows read before stay valid.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.database.contract import Row
from penstock.database.database import Transaction


class TopicPart(NamedTuple):
    """A partition of a topic."""

    topic_id: int
    partition: int


RowValue = int | str  # an offset, a type of events


class GroupRows:
    """The rows of this snapshot, by group."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._groups: dict[TopicPart, set[int]] = {}
        self._expected: dict[tuple[TopicPart, str], set[RowValue]] = {}
        self._found: dict[Any, dict[Any, list[Row]]] = {}

    def add(self, place: TopicPart, groups: Iterable[int]) -> None:
        """Declare the groups whose rows at a place will be needed."""
        self._groups.setdefault(place, set()).update(groups)

    def expect(self, place: TopicPart, column: str, values: Iterable[RowValue]) -> None:
        """Declare the offsets or types that will be needed at a place; `column`: the parameter's name."""
        self._expected.setdefault((place, column), set()).update(values)

    def expected(self, place: TopicPart, column: str) -> set[RowValue]:
        """Return the declared values at a place."""
        return self._expected.get((place, column), set())

    def of(self, name: str, place: TopicPart, group_id: int, **params: Any) -> list[Row]:
        """Return a group's rows of a statement whose first column is the group."""
        found = self._found.setdefault((name, place, *params.items()), {})
        if group_id not in found:
            missing = (self._groups.get(place, set()) | {group_id}) - found.keys()
            found |= {each: [] for each in missing}
            for row in self._read(name, place, missing, **params):
                found[row[0]].append(row[1:])
        return found[group_id]

    def at(self, name: str, place: TopicPart, group_id: int, column: str, value: RowValue) -> list[Row]:
        """Return a group's rows for one offset or type, the statement's second column."""
        found = self._found.setdefault((name, place, column), {})
        if (group_id, value) not in found:
            groups = self._groups.get(place, set()) | {group_id}
            values = self.expected(place, column) | {value}
            found |= {(each, one): [] for each in groups for one in values}
            for row in self._read(name, place, groups, **{column: sorted(values, key=str)}):
                found[row[0], row[1]].append(row[2:])
        return found[group_id, value]

    def _read(self, name: str, place: TopicPart, groups: Iterable[int], **params: Any) -> list[Row]:
        return self._tx.rows("operate", name, groups=sorted(groups), **place._asdict(), **params)
