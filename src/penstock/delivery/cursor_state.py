"""The state of one partition beside its lanes, as its owner keeps it. No I/O.

The sets of offsets that a cursor stores, the passed ones and those handed out; the suspects, records that may have
killed their process; and the records that it passes over because no handler wants their type.
"""

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from typing import NamedTuple

import msgspec


@dataclass(frozen=True, slots=True)
class DoneSet:
    """A cursor's offset, and the passed offsets at or above it."""

    base: int
    bitmap: bytes = b""

    @classmethod
    def stored(cls, base: int, digits: str) -> "DoneSet":
        """Return the set that a row holds."""
        return cls(base, bytes.fromhex(digits))

    @staticmethod
    def count_in(digits: str) -> int:
        """Return how many offsets are passed in the digits that a row holds."""
        return int(digits or "0", 16).bit_count()

    @property
    def _bits(self) -> int:
        return int.from_bytes(self.bitmap, "little")

    @property
    def count(self) -> int:
        """How many offsets at or above the base are passed."""
        return self._bits.bit_count()

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is passed; all below the base are."""
        byte, bit = divmod(offset - self.base, 8)
        return offset < self.base or (byte < len(self.bitmap) and bool(self.bitmap[byte] >> bit & 1))

    def count_below(self, offset: int) -> int:
        """Return how many offsets from the base up to another are passed."""
        return (self._bits & ((1 << max(0, offset - self.base)) - 1)).bit_count()

    def open_below(self, offset: int) -> int:
        """Return how many offsets from the base up to another are not passed."""
        return max(0, offset - self.base) - self.count_below(offset)


_SET = ord("1")


class GoingOut(NamedTuple):
    """The records that may have been handed out: those below `to`, except those kept back.

    | stored      | meaning                                                           |
    |-------------|-------------------------------------------------------------------|
    | `handed_to` | `to`                                                              |
    | `kept_back` | in hex: bit n, the lowest first, is set if `to` - 1 - n is kept back |
    """

    to: int = 0
    kept_back: frozenset[int] = frozenset()

    @classmethod
    def stored(cls, to: int, bitmap: str) -> "GoingOut":
        """Return the value stored in a row."""
        flags = f"{int(bitmap or '0', 16):b}"
        first = to - len(flags)
        return cls(to, frozenset(first + n for n, flag in enumerate(flags) if flag == "1"))

    @classmethod
    def only(cls, offsets: Collection[int], base: int) -> "GoingOut":
        """Return these records, and none of the others from the base on."""
        to = max(offsets, default=-1) + 1
        return cls(to, frozenset(range(base, to)).difference(offsets))

    def bitmap(self) -> str:
        """Return the kept-back records, as a row holds them."""
        if not self.kept_back:
            return ""
        first = min(self.kept_back)
        flags = bytearray(b"0" * (self.to - first))
        for offset in self.kept_back:
            flags[offset - first] = _SET
        return f"{int(flags, 2):x}"

    def has(self, offset: int) -> bool:
        """Return whether a record may have been handed out."""
        return offset < self.to and offset not in self.kept_back

    def __or__(self, other: "GoingOut") -> "GoingOut":
        """Return the records that either of them may have handed out."""
        if not other.to or not self.to:
            return self if not other.to else other
        kept = {each for each in self.kept_back if not other.has(each)}
        kept |= {each for each in other.kept_back if not self.has(each)}
        return GoingOut(max(self.to, other.to), frozenset(kept))

    def __and__(self, other: "GoingOut") -> "GoingOut":
        """Return the records that both of them may hand out."""
        to = min(self.to, other.to)
        kept = self.kept_back | other.kept_back
        return GoingOut(to, frozenset(each for each in kept if each < to) if kept else kept)


ALONE_DEATHS = 3  # a record that has killed this many processes while running alone is put off
_FEWER_DEATHS = 2
_FIRST_WAIT_MS = 60_000
_LONGEST_WAIT_MS = 3_600_000


class Trial(msgspec.Struct, omit_defaults=True, rename={"deaths": "d", "epoch": "e", "at_work": "w"}):
    """The suspects of one partition. Stored in its cursor's row; only the owner changes it.

    A record is blamed only for a death at which its row says that it was the only record running in its process; any
    other death only makes the records in flight suspect. Each death narrows the number of suspects that may run at
    once: after the first all of them, after the second a few, written down before they begin, and those written down at
    a further death one at a time, alone (docs/decisions/0022-blame.md).

    `deaths`: processes that died with the partition, since everything in flight was settled. `at_work`: the suspects
    that the owner of `epoch` had begun; `is_alone`: it had begun nothing else. `alone`: those that run alone, each with
    the number of processes it has killed.
    """

    deaths: int = 0
    epoch: int = 0
    at_work: set[int] = msgspec.field(default_factory=set)
    is_alone: bool = False
    alone: dict[int, int] = msgspec.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is suspected."""
        return not (self.deaths or self.at_work or self.alone)

    @property
    def goes_by_few(self) -> bool:
        """Whether only a few suspects of the partition may be at work at once."""
        return self.deaths >= _FEWER_DEATHS

    def died(self, epoch: int) -> set[int]:
        """Record that the owner of an epoch has died; return the records to be put off for it."""
        self.deaths += 1
        killers = set[int]()
        if self.epoch == epoch:
            for offset in self.at_work:
                self.alone[offset] = self.alone.get(offset, 0) + self.is_alone
                if self.is_alone and self.alone[offset] >= ALONE_DEATHS:
                    killers.add(offset)
        self.at_work, self.is_alone = set(), False
        return killers

    def begin(self, epoch: int, offset: int, *, alone: bool = False) -> None:
        """Record that a suspect is about to begin; store the trial before it does."""
        if self.epoch != epoch:
            self.epoch, self.at_work = epoch, set()
        self.at_work.add(offset)
        self.is_alone = alone

    def end(self, offset: int) -> None:
        """Record that a record no longer runs: its process has survived it."""
        self.at_work.discard(offset)
        self.is_alone = False

    def clear(self, offset: int) -> None:
        """Clear a suspect."""
        self.end(offset)
        self.alone.pop(offset, None)

    def calm(self) -> None:
        """Record that everything lost owners may have handed out is settled."""
        self.deaths = 0

    def keep(self, waits_for: Callable[[int], bool]) -> None:
        """Forget the suspects that are settled."""
        if self.alone:
            self.alone = {offset: deaths for offset, deaths in self.alone.items() if waits_for(offset)}

    def encode(self) -> str:
        """Return it as stored in its row."""
        return "" if self.is_empty else msgspec.json.encode(self).decode()


def stored_trial(text: str) -> Trial:
    """Undo `encode`."""
    return msgspec.json.decode(text, type=Trial) if text else Trial()


def wait_ms(deaths: int) -> int:
    """Return how long a record is put off after it has killed `deaths` processes."""
    return min(_FIRST_WAIT_MS << min(deaths - ALONE_DEATHS, 10), _LONGEST_WAIT_MS)


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
    """A record with its own note: it waited in a lane, or was left out; `again`: perhaps handed out before."""

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

    The first record of a type is written with the cursor that passes it; the count of the following ones, for people,
    periodically. `taken_at`: the position of the partition when it was taken; single records below it had been left out
    by former owners. `known`: types noted already in the group. `is_full`: a type was left out.
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
        """Count one more record; one handed out before is kept as a single record: it comes marked, others do not."""
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
