"""Packs and unpacks payloads, by codecs that are installed and both sides know."""

from contextlib import suppress
from importlib import import_module
from typing import Any

from penstock.errors import BodyTooLarge, InvalidInput, UnsupportedBody
from penstock.wire.tinyq.messages import SNAPPY, ZSTD

cramjam: Any = None
with suppress(ModuleNotFoundError):  # of the extra kafka: without it nothing is packed
    cramjam = import_module("cramjam")

_WORTH_BYTES = 512  # below, packing costs more than it saves
_RATIO = 8
_LEAST = 64 * 1024


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
