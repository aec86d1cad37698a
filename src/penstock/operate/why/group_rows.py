"""Rows of many groups at one place of the log: each kind is read for all of them by one statement.

A question about a key has an answer for each group, and the rows behind it differ by group alone. So the
first group that asks for a kind of row brings those of the others. What they will ask is said before, by
`add` and `expect`; who asks for something else is given it by a statement of its own. All on one snapshot:
nothing that was read changes.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.log.sql.contract import Row
from penstock.log.sql.database import Transaction


class TopicPart(NamedTuple):
    """A partition of a topic."""

    topic_id: int
    partition: int


RowValue = int | str  # an offset, a type of events


class GroupRows:
    """Rows of this snapshot, as groups ask for them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._groups: dict[TopicPart, set[int]] = {}
        self._expected: dict[tuple[TopicPart, str], set[RowValue]] = {}
        self._found: dict[Any, dict[Any, list[Row]]] = {}

    def add(self, place: TopicPart, groups: Iterable[int]) -> None:
        """Say which groups will be asked about at a place."""
        self._groups.setdefault(place, set()).update(groups)

    def expect(self, place: TopicPart, column: str, values: Iterable[RowValue]) -> None:
        """Say which offsets or types will be asked about at a place; `column`: the name of the parameter."""
        self._expected.setdefault((place, column), set()).update(values)

    def expected(self, place: TopicPart, column: str) -> set[RowValue]:
        """Return what will be asked about at a place."""
        return self._expected.get((place, column), set())

    def of(self, name: str, place: TopicPart, group_id: int, **params: Any) -> list[Row]:
        """Return the rows of a group that a statement gives, which says whose each is in the first column."""
        found = self._found.setdefault((name, place, *params.items()), {})
        if group_id not in found:
            missing = (self._groups.get(place, set()) | {group_id}) - found.keys()
            found |= {each: [] for each in missing}
            for row in self._read(name, place, missing, **params):
                found[row[0]].append(row[1:])
        return found[group_id]

    def of_all(self, name: str, place: TopicPart, **params: Any) -> Iterable[Row]:
        """Return the rows of all groups that a statement has given."""
        return (row for rows in self._found[name, place, *params.items()].values() for row in rows)

    def at(self, name: str, place: TopicPart, group_id: int, column: str, value: RowValue) -> list[Row]:
        """Return the rows of a group for one offset or type, which stands in the second column."""
        found = self._found.setdefault((name, place, column), {})
        if (group_id, value) not in found:
            groups = self._groups.get(place, set()) | {group_id}
            values = self.expected(place, column) | {value}
            found |= {(each, one): [] for each in groups for one in values}
            for row in self._read(name, place, groups, **{column: sorted(values, key=str)}):
                found[row[0], row[1]].append(row[2:])
        return found[group_id, value]

    def _read(self, name: str, place: TopicPart, groups: Iterable[int], **params: Any) -> list[Row]:
        return self._tx.rows("delivery", name, groups=sorted(groups), **place._asdict(), **params)
