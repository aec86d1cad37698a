"""Sets of offsets of one partition, as cursors store them: the passed ones, and those handed out. No I/O."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple


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
