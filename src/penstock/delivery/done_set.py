"""The done set of a cursor: the offsets from the cursor on that are passed already.

Stored as a bitmap in hexadecimal digits: bit n of byte m, the lowest first, stands for the offset 8 m + n
after the cursor. A value without I/O; all code reads a cursor's bitmap through this class.
"""

from dataclasses import dataclass


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
    def digits(self) -> str:
        """The bitmap as a row holds it."""
        return self.bitmap.hex()

    @property
    def _bits(self) -> int:
        return int.from_bytes(self.bitmap, "little")

    @property
    def count(self) -> int:
        """How many offsets at or above the base are passed."""
        return self._bits.bit_count()

    @property
    def reach(self) -> int:
        """The offset after the last one that is passed."""
        return self.base + self._bits.bit_length()

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
