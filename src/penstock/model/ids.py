"""Record ids: UUIDs of version 7, so that ids made later sort later (to the millisecond).

| bits  | field   | meaning                               |
|-------|---------|---------------------------------------|
| 0-47  | time    | milliseconds since 1970, UTC          |
| 48-51 | version | 7                                     |
| 52-63 | random  | 12 bits                               |
| 64-65 | variant | binary 10                             |
| 66-127| random  | 62 bits                               |
"""

from os import urandom


def new_id(now_ms: int) -> str:
    """Return a new id of the given moment; random enough to be made in any process, also after a fork."""
    random = int.from_bytes(urandom(10), "big")
    head = (now_ms & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | (random >> 68) & 0xFFF
    tail = 0x8000_0000_0000_0000 | random & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{head:016x}{tail:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
