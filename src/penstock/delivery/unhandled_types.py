"""The records that an owner passes over in a partition because no handler wants their type. No I/O.

The first record of a type is written with the cursor that passes it; the count of the following ones is a
figure for people, and written periodically.
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


class PassedRecord(NamedTuple):
    """One record with a note of its own: it waited in a lane, or a former owner had left it out.

    `again`: it may have been handed out before.
    """

    type: str
    offset: int
    again: bool = False


@dataclass(slots=True)
class _TypeCount:
    first: int
    end: int
    records: int


class PassedOver:
    """The types that one owner has passed over in one partition, since it was taken.

    `taken_at`: the position of the partition at that time. Records passed over below it are single ones that
    former owners had left out; all others there are settled, or wait in lanes. `known`: types that are noted
    already, somewhere in the group. `is_full`: the limit was reached, and a type was left out.
    """

    def __init__(self, taken_at: int = 0) -> None:
        self._taken_at = taken_at
        self.known: Set[str] = frozenset()
        self.is_full = False
        self._counts: dict[str, _TypeCount] = {}
        self._singles: list[PassedRecord] = []
        self._new: list[str] = []
        self._flushing = False

    def add(self, type: str, offset: int, *, again: bool = False) -> None:
        """Count one more record; beyond the limit a new type is left out.

        A record that may have been handed out before becomes a single record, too: it comes marked, and later
        ones do not.
        """
        count = self._counts.get(type)
        if count is not None:
            count.end = offset + 1
            count.records += 1
        elif not self._has_room(type):
            self.is_full = True
        elif again or offset < self._taken_at:
            self._singles.append(PassedRecord(type, offset, again))
        else:
            self._counts[type] = _TypeCount(offset, offset + 1, 1)
            self._new.append(type)

    def flush_counts(self) -> bool:
        """Include all counts in the next write; return whether there is anything to write."""
        self._flushing = any(count.records for count in self._counts.values())
        return self._flushing

    def take(self) -> list[PassedType]:
        """Return the counts to write now: the new types, and all others if they were asked for."""
        types = list(self._counts) if self._flushing else self._new
        found = [self._taken(type) for type in types if self._counts[type].records]
        self._new, self._flushing = [], False
        return found

    def take_singles(self) -> list[PassedRecord]:
        """Return the single records to write now."""
        found, self._singles = self._singles, []
        return found

    def _has_room(self, type: str) -> bool:
        """Return whether a type may be noted; once one was left out, only types noted already may."""
        if type in self.known:
            return True
        return not self.is_full and len(self._counts.keys() | self.known) < NOTED_TYPES

    def _taken(self, type: str) -> PassedType:
        count = self._counts[type]
        records, count.records = count.records, 0
        return PassedType(type, count.first, count.end, records)
