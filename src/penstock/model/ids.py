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

_RANDOM_BYTES = 10
_LOT = 128  # ids' worth of randomness fetched at a time: the system call is most of an id's cost
_VARIANTS = {digit: "89ab"[number % 4] for number, digit in enumerate("0123456789abcdef")}


def new_id(now_ms: int) -> str:
    """Return a new id of the given moment; random enough to be made in any process, also after a fork."""
    random = _random()  # put together as text: half the cost of doing it with numbers
    time = f"{now_ms & 0xFFFF_FFFF_FFFF:012x}"
    return f"{time[:8]}-{time[8:]}-7{random[:3]}-{_VARIANTS[random[3]]}{random[4:7]}-{random[7:19]}"


_lot: list[str] = []
os.register_at_fork(after_in_child=_lot.clear)  # a child must not give out what its parent will


def _random() -> str:
    """Return the random part of one id in hex; taking from a list is safe between threads."""
    try:
        return _lot.pop()
    except IndexError:
        fetched = os.urandom(_RANDOM_BYTES * _LOT).hex()
        digits = _RANDOM_BYTES * 2
        _lot.extend(fetched[start : start + digits] for start in range(digits, len(fetched), digits))
        return fetched[:digits]
