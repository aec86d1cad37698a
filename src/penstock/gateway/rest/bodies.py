"""Request bodies: bounded in bytes and time, and unpacked within the same bounds.

An announced length only serves to refuse it. gzip and deflate are unpacked piece by piece, so that a bomb is
refused when it passes the bound, and is never held in memory.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable

from starlette.requests import ClientDisconnect, Request

from penstock.access.byte_budget import ByteShare
from penstock.errors import BodyLate, BodyTooLarge, InvalidInput, InvalidRequest, UnsupportedBody

from ..settings import GatewaySettings

HEAD_BYTES = 80 * 1024  # of names and values of all headers
_UNPACKED_BYTES = 256 * 1024  # in one step of the loop
ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def check_head(request: Request) -> None:
    """Refuse a head that is too long, or that is ambiguous about its body's end. Raises InvalidRequest."""
    head = request.headers
    size = sum(len(name) + len(value) for name, value in head.raw)
    if size > HEAD_BYTES:
        raise InvalidRequest(f"its head has {size} bytes, and {HEAD_BYTES} are taken")
    if "transfer-encoding" in head and "content-length" in head:
        raise InvalidRequest("it has both Content-Length and Transfer-Encoding")


async def body_of(request: Request, settings: GatewaySettings, share: ByteShare | None = None) -> bytes:
    """Return the whole body of a request; `share` counts it.

    Raises BodyTooLarge, BodyLate, UnsupportedBody, InvalidInput, GatewayBusy.
    """
    limit, seconds = settings.body_bytes, settings.body_time.total_seconds()
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limit:
        raise BodyTooLarge(limit)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in ENCODINGS:
        raise UnsupportedBody("content encoding", encoding, "gzip, deflate or none")
    count = _uncounted if share is None else share.admit
    try:
        async with asyncio.timeout(seconds):
            if encoding == "identity":
                return await _plain(request.stream(), limit, count)
            return await _unpacked(request.stream(), ENCODINGS[encoding], limit, count)
    except TimeoutError as exc:
        raise BodyLate(seconds) from exc
    except ClientDisconnect as exc:
        raise InvalidInput("the connection ended before the body did") from exc


def _uncounted(size: int) -> None:
    """Count nothing."""


async def _plain(stream: AsyncIterator[bytes], limit: int, count: Callable[[int], None]) -> bytes:
    body = bytearray()
    async for piece in stream:
        count(len(piece))
        body += piece
        if len(body) > limit:
            raise BodyTooLarge(limit)
    return bytes(body)


async def _unpacked(stream: AsyncIterator[bytes], window: int, limit: int, count: Callable[[int], None]) -> bytes:
    body, unpacker = bytearray(), zlib.decompressobj(window)
    try:
        async for piece in stream:
            while piece:
                unpacked = unpacker.decompress(piece, _UNPACKED_BYTES)
                count(len(unpacked))
                body += unpacked
                if len(body) > limit:
                    raise BodyTooLarge(limit)
                if unpacker.unused_data:  # refuse now: it would be gathered, beyond any bound
                    raise InvalidInput("the body cannot be unpacked: more follows its end")
                piece = unpacker.unconsumed_tail
                await asyncio.sleep(0)
    except zlib.error as exc:
        raise InvalidInput(f"the body cannot be unpacked: {exc}") from exc
    if not unpacker.eof:
        raise InvalidInput("the body cannot be unpacked: it ends too early")
    return bytes(body)
