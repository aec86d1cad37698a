"""Record ids: UUIDs of version 7, so that ids made later sort later (to the millisecond).

| bits  | field   | meaning                               |
|-------|---------|---------------------------------------|
| 0-47  | time    | milliseconds since 1970, UTC          |
| 48-51 | version | 7                                     |
| 52-63 | random  | 12 bits                               |
| 64-65 | variant | binary 10                             |
| 66-127| random  | 62 bits                               |
"""

import os
from collections.abc import Callable
from hashlib import blake2b

_RANDOM_BYTES = 10
_LOT = 128  # ids per fetch of randomness: the system call is most of an id's cost
_VARIANTS = {digit: "89ab"[number % 4] for number, digit in enumerate("0123456789abcdef")}

_lot: list[str] = []
_source: Callable[[int], bytes] | None = None  # None: the system's
os.register_at_fork(after_in_child=_lot.clear)  # a child must not use the same randomness as its parent


def new_id(now_ms: int) -> str:
    """Return a new id for the given moment; unique across processes, also after a fork."""
    try:
        random = _lot.pop()  # popping from a list is thread-safe
    except IndexError:
        fetched = _fetch()
        random = fetched.pop()  # not from the list again: another thread may have emptied it
        _lot.extend(fetched)
    return f"{now_ms >> 16 & 0xFFFF_FFFF:08x}-{now_ms & 0xFFFF:04x}-7{random}"


def repeatable_id(moment_ms: int, name: str) -> str:
    """Return the id of a moment and a name: the same pair has the same id in any process."""
    time = f"{moment_ms & 0xFFFF_FFFF_FFFF:012x}"
    digits = blake2b(f"{moment_ms}/{name}".encode(), digest_size=_RANDOM_BYTES).hexdigest()
    return f"{time[:8]}-{time[8:]}-7{_shaped(digits)}"


def draw_from(source: Callable[[int], bytes]) -> None:
    """Use another source of randomness in this process, for a reproducible test."""
    global _source
    _source = source
    _lot.clear()


def _fetch() -> list[str]:
    """Return randomness for a lot of ids, each as the text after the version digit."""
    digits = (_source or os.urandom)(_RANDOM_BYTES * _LOT).hex()
    size = _RANDOM_BYTES * 2
    parts = (digits[start : start + size] for start in range(0, len(digits), size))
    return [_shaped(part) for part in parts]


def _shaped(part: str) -> str:
    """Return 20 digits as the text after the version digit of an id."""
    return f"{part[:3]}-{_VARIANTS[part[3]]}{part[4:7]}-{part[7:19]}"
