"""The frames that a client may negotiate by 0xFE: the same head as before, with structured bodies.

Each request has a number, which its answer repeats. Integers are big-endian. text: u16 length (2^16-1: none) and UTF-8.
ranges: u16 count, then partition u32, first u64, last u64 each. token: 16 bytes (all 0: none). rest: the bytes that are
left. tag: 0 raw bytes, 1 JSON, 2 Protobuf. packed: the codec of the payload, or 0. Every answer has its size, and an
error closes the connection only if the bytes after it cannot be parsed.
"""

import struct
from typing import Any

from .frames import TinyqCode, TinyqCommand, TinyqRefusal

VERSION = 1
NO_TOKEN = bytes(16)
BY_POLICY = (1 << 32) - 1
SNAPPY, ZSTD = 1, 2
_NONE = (1 << 16) - 1
_NUMBERS = {name: struct.Struct(sign) for name, sign in (("u8", ">B"), ("u16", ">H"), ("u32", ">I"), ("u64", ">Q"))}
_RANGE = struct.Struct(">IQQ")
BodyLayout = tuple[tuple[str, str], ...]


def _body(fields: str) -> BodyLayout:
    return tuple((name, kind) for kind, name in (each.split() for each in fields.split(",")))


_TOPIC = _body("u32 request, text topic")
REQUESTS: dict[int, BodyLayout] = {
    # versions; codecs by bits: 1 snappy, 2 zstd; features: 0
    TinyqCommand.NEGOTIATE: _body("u8 least, u8 most, u8 codecs, u32 features"),
    TinyqCommand.AUTHENTICATE: _body("u32 request, rest secret"),  # the 64 digits of a password, or a token
    TinyqCommand.CREATE_CONSUME: _TOPIC,
    TinyqCommand.CREATE_BROADCAST: _TOPIC,
    TinyqCommand.PUBLISH: _body(
        "u32 request, token token, u8 tag, u8 packed, text topic, text key, text type, rest payload"
    ),
    # no group: the shared one
    TinyqCommand.SUBSCRIBE: _body("u32 request, text topic, text group, u32 credits, u32 lease_ms"),
    TinyqCommand.ACK: _body("u32 request, u32 subscription, ranges ranges"),
    TinyqCommand.NACK: _body("u32 request, u32 subscription, u32 after_ms, ranges ranges"),  # 2^32-1: by policy
    TinyqCommand.CREDIT: _body("u32 request, u32 subscription, u32 credits"),
    TinyqCommand.CLEAR: _TOPIC,
    TinyqCommand.DELETE: _TOPIC,
}
# Answers to 254, to 3 (the message's id), and to the others (the messages that an ack or nack has settled).
NEGOTIATED = _body("u8 version, u8 codec, u32 features, u8 authenticates")  # codec: one bit, or 0; features: 0
PUBLISHED = _body("u32 request, u32 partition, u64 offset")
DONE = _body("u32 request, u32 count")
PROBLEM = _body("u32 request, rest why")  # any other code; UTF-8
MESSAGE = _body(  # answer 1; subscription: its request
    "u32 subscription, u32 partition, u64 offset, u16 attempt, u8 redelivered, u8 tag, u8 packed, token token, "
    "text key, text type, rest payload"
)


def encode(layout: BodyLayout, **values: Any) -> bytes:
    """Return the bytes of a body."""
    out = bytearray()
    for name, kind in layout:
        value = values[name]
        if kind in _NUMBERS:
            out += _NUMBERS[kind].pack(value)
        elif kind == "text":
            data = b"" if value is None else value.encode()
            out += struct.pack(">H", _NONE if value is None else len(data)) + data
        elif kind == "ranges":
            out += struct.pack(">H", len(value)) + b"".join(_RANGE.pack(*each) for each in value)
        else:
            out += value
    return bytes(out)


def decode(layout: BodyLayout, data: bytes) -> dict[str, Any]:
    """Return the fields of a body. Raises TinyqRefusal when the bytes do not match the layout."""
    found: dict[str, Any] = {}
    at = 0
    try:
        for name, kind in layout:
            if kind in _NUMBERS:
                (found[name],) = _NUMBERS[kind].unpack_from(data, at)
                at += _NUMBERS[kind].size
            elif kind == "text":
                (size,) = struct.unpack_from(">H", data, at)
                at += 2
                found[name] = None if size == _NONE else _cut(data, at, size).decode()
                at += 0 if size == _NONE else size
            elif kind == "token":
                found[name] = _cut(data, at, 16)
                at += 16
            elif kind == "ranges":
                (count,) = struct.unpack_from(">H", data, at)
                at += 2
                found[name] = list(_RANGE.iter_unpack(_cut(data, at, _RANGE.size * count)))
                at += _RANGE.size * count
            else:
                found[name], at = data[at:], len(data)
    except (struct.error, ValueError) as exc:
        raise TinyqRefusal(TinyqCode.BODY_INVALID) from exc
    if at != len(data):
        raise TinyqRefusal(TinyqCode.BODY_INVALID)
    return found


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("the body is too short")
    return data[at : at + size]
