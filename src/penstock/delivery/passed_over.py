"""What an owner passes over in a partition because no handler of its group wants the type. No I/O.

The first record of a type is written down with the cursor that passes it; how many follow is a figure for
people, and written now and then.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

NOTED_TYPES = 500  # of a group, more or less: types come from outside


class PassedType(NamedTuple):
    """Records of one type that were passed over: the first, the offset after the last, and how many."""

    type: str
    first: int
    end: int
    records: int


class LateMove(NamedTuple):
    """How far the records of a note are delivered: all before `first`. `until` names the note."""

    type: str
    until: int
    first: int


class PassedEntry(NamedTuple):
    """A record that waited in a lane and was passed over, since the handler for its type is gone."""

    type: str
    offset: int


@dataclass(slots=True)
class _TypeCount:
    first: int
    end: int
    records: int


class PassedOver:
    """The types that one owner has passed over in one partition, since it was taken.

    `known`: types that are noted already, somewhere in the group. `is_full`: so many are that a type was left
    out.
    """

    def __init__(self) -> None:
        self.known: Set[str] = frozenset()
        self.is_full = False
        self._counts: dict[str, _TypeCount] = {}
        self._new: list[str] = []
        self._telling = False

    def add(self, type: str, offset: int) -> None:
        """Take note of one more; beyond a bound a type that is new is left out."""
        count = self._counts.get(type)
        if count is not None:
            count.end = offset + 1
            count.records += 1
        elif type in self.known or len(self._counts.keys() | self.known) < NOTED_TYPES:
            self._counts[type] = _TypeCount(offset, offset + 1, 1)
            self._new.append(type)
        else:
            self.is_full = True

    def tell(self) -> bool:
        """Have all counts written the next time; return whether there is anything to write."""
        self._telling = any(count.records for count in self._counts.values())
        return self._telling

    def take(self) -> list[PassedType]:
        """Return what is to be written now: what is new, and all else if that was asked for."""
        types = list(self._counts) if self._telling else self._new
        found = [self._taken(type) for type in types if self._counts[type].records]
        self._new, self._telling = [], False
        return found

    def _taken(self, type: str) -> PassedType:
        count = self._counts[type]
        records, count.records = count.records, 0
        return PassedType(type, count.first, count.end, records)
