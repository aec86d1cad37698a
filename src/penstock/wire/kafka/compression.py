"""Decompressing the records of a batch, up to a limit: a few bytes may expand to very many.

| codec  | bytes                                                                              |
|--------|------------------------------------------------------------------------------------|
| gzip   | one stream                                                                         |
| snappy | one raw block; or xerial's framing: 16 bytes of head, then blocks, each with an INT32 length |
| lz4    | one frame                                                                          |
| zstd   | one frame                                                                          |
"""

import struct

from penstock.errors import InvalidBatch, MissingExtra

from .buffer import Buffer
from .record_batch import CRC_START, HEADER_BYTES, BatchHeader, Compression, sealed

try:
    import cramjam
except ModuleNotFoundError as exc:  # pragma: no cover - as in record_batch
    raise MissingExtra("a Kafka port", "kafka") from exc

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16
_GROWTH = 8  # first guess: a batch expands to this many times its size
_LEAST = 64 * 1024
_CODEC_BITS = 0x07
_FORMATS = {Compression.GZIP: "gzip", Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}
assert CRC_START < HEADER_BYTES  # the checksum covers the attributes, so an unpacked batch has another one


class TooManyBytes(Exception):
    """The decompressed records exceed the limit."""


def unpacked(batch: Buffer, header: BatchHeader, limit: int) -> Buffer:
    """Return a batch with its records uncompressed; the same one if they already are.

    Raises InvalidBatch when they cannot be decompressed, TooManyBytes when they exceed the limit.
    """
    if header.codec == Compression.NONE:
        return batch
    packed = memoryview(batch)[HEADER_BYTES:]
    try:
        codec = Compression(header.codec)
        records = _snappy(packed, limit) if codec is Compression.SNAPPY else _framed(_FORMATS[codec], packed, limit)
    except (cramjam.DecompressionError, ValueError, struct.error, OverflowError) as exc:
        raise InvalidBatch(f"its records cannot be decompressed: {exc}") from exc
    return sealed(header._replace(attributes=header.attributes & ~_CODEC_BITS), records)


def _framed(name: str, packed: memoryview, limit: int) -> memoryview:
    """Decompress into a buffer of bounded size, retrying with a larger one if it is too small."""
    module = getattr(cramjam, name)
    size = min(max(len(packed) * _GROWTH, _LEAST), limit)
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: module.decompress_into(packed, out)]
        except cramjam.DecompressionError as exc:
            if "whole buffer" not in str(exc):
                raise
            if size >= limit:
                raise TooManyBytes from exc
            size = min(size * 4, limit)


def _snappy(packed: memoryview, limit: int) -> bytes | bytearray:
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        return _block(packed, limit)
    out, at = bytearray(), _XERIAL_BYTES
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        at += 4
        if length < 0 or at + length > len(packed):
            raise ValueError(f"a block of {length} bytes")
        out += _block(packed[at : at + length], limit - len(out))
        at += length
    return out


def _block(packed: memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(packed) > limit:
        raise TooManyBytes
    return bytes(cramjam.snappy.decompress_raw(packed))
