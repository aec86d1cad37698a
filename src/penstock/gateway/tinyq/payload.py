"""Payloads: their type, as a tag of frames and a content type of records; and the codecs that pack them."""

from contextlib import suppress
from importlib import import_module
from typing import Any

from penstock.errors import BodyTooLarge, InvalidInput, UnsupportedBody
from penstock.model.content import BINARY, CONTENT_TYPE, JSON, is_json
from penstock.model.record import RawHeaders, Record
from penstock.wire.tinyq.messages import SNAPPY, ZSTD

cramjam: Any = None
with suppress(ModuleNotFoundError):  # of the extra kafka: without it nothing is packed
    cramjam = import_module("cramjam")

_WORTH_BYTES = 512  # below, packing costs more than it saves
_RATIO = 8
_LEAST = 64 * 1024
RAW, AS_JSON, PROTOBUF = 0, 1, 2
_PROTOBUF = "application/x-protobuf"
_TYPES = {RAW: BINARY, PROTOBUF: _PROTOBUF}
_HEADERS: dict[int, RawHeaders] = {AS_JSON: ()} | {
    tag: ((CONTENT_TYPE, kind.encode()),) for tag, kind in _TYPES.items()
}
TAGS = (RAW, AS_JSON, PROTOBUF)


def tagged(tag: int) -> RawHeaders:
    """Return the header for a tag; JSON needs none."""
    return _HEADERS[tag]


def tag_of(record: Record) -> int:
    """Return the tag of a record's content type."""
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    if is_json(content_type):
        return AS_JSON
    return PROTOBUF if "protobuf" in content_type else RAW


def codecs() -> int:
    """Return the available codecs, as bits."""
    return 0 if cramjam is None else SNAPPY | ZSTD


def pack(codec: int, payload: bytes) -> tuple[int, bytes]:
    """Pack a payload if that makes it smaller; return the codec used, and the payload."""
    if not codec or len(payload) < _WORTH_BYTES:
        return 0, payload
    module = cramjam.snappy.compress_raw if codec == SNAPPY else cramjam.zstd.compress
    packed = bytes(module(payload))
    return (codec, packed) if len(packed) < len(payload) else (0, payload)


def unpack(codec: int, payload: bytes, limit: int) -> bytes:
    """Unpack a payload. Raises UnsupportedBody, BodyTooLarge, InvalidInput."""
    if not codec:
        return payload
    if not codec & codecs():
        raise UnsupportedBody("codec", str(codec), "one that was agreed on")
    try:
        if codec == SNAPPY:
            if cramjam.snappy.decompress_raw_len(payload) > limit:
                raise BodyTooLarge(limit)
            return bytes(cramjam.snappy.decompress_raw(payload))
        return _zstd(payload, limit)
    except (cramjam.DecompressionError, ValueError, OverflowError) as exc:
        raise InvalidInput(f"the payload cannot be unpacked: {exc}") from exc


def _zstd(payload: bytes, limit: int) -> bytes:
    """Unpack into a buffer of bounded size, then into a larger one if that is too small."""
    size = min(max(len(payload) * _RATIO, _LEAST), limit)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(payload, out)])
        except cramjam.DecompressionError as exc:
            if "whole buffer" not in str(exc):
                raise
            if size >= limit:
                raise BodyTooLarge(limit) from exc
            size = min(size * 4, limit)
