"""Counts the messages within a message before parsing it: a few bytes each, they are large as objects.

An empty event takes two bytes, so sixteen megabytes would be eight million objects.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from penstock.errors import InvalidInput

MOST_PARTS = 100_000  # ten headers for each event that one request may hold
_LEAST_BYTES = 2 * MOST_PARTS  # fewer bytes cannot hold more parts
_FIXED = {1: 8, 5: 4}  # bytes of values by wire type
_VARINT, _LENGTH = 0, 2
_PartKinds = Mapping[int, Any]  # the fields that hold messages, and the fields of those


def check_parts(kind: Any, data: bytes) -> None:
    """Refuse a message with too many parts. Raises InvalidInput."""
    if len(data) >= _LEAST_BYTES:
        left = _counted(_parts_of(kind.DESCRIPTOR), data, 0, len(data), MOST_PARTS)
        if left < 0:
            raise InvalidInput(f"the message holds more than {MOST_PARTS} events and headers; send fewer at once")


def _counted(kinds: _PartKinds, data: bytes, at: int, end: int, left: int) -> int:
    """Return how many more parts are allowed; malformed bytes are found when parsing."""
    while at < end and left >= 0:
        tag, at = _varint(data, at, end)
        wire, number = tag & 7, tag >> 3
        if wire == _LENGTH:
            length, at = _varint(data, at, end)
            if number in kinds:
                left -= 1
                if kinds[number]:
                    left = _counted(kinds[number], data, at, min(at + length, end), left)
            at += length
        elif wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            return left
    return left


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    return number, end


@lru_cache(64)
def _parts_of(descriptor: Any) -> _PartKinds:
    return {
        field.number: _parts_of(field.message_type) for field in descriptor.fields if field.message_type is not None
    }
