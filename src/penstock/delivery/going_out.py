"""How far the records of a partition go out. No I/O."""

from collections.abc import Collection
from typing import NamedTuple

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
