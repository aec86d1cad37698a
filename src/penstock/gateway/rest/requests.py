"""Parameters as they were sent; and bodies, bounded in bytes and time, unpacked within the same bounds.

An announced length only serves to refuse it. gzip and deflate are unpacked piece by piece, so that a bomb is
refused when it passes the bound, and is never held in memory.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qsl, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Route
from starlette.types import Scope

from penstock.access.places import ByteShare
from penstock.errors import BodyLate, BodyTooLarge, InvalidInput, InvalidRequest, UnsupportedBody

from ..settings import GatewaySettings

HEAD_BYTES = 80 * 1024  # of names and values of all headers
_UNPACKED_BYTES = 256 * 1024  # in one step of the loop
ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_REPLACED = "\N{REPLACEMENT CHARACTER}"  # the server's substitute for bytes that are not text
_SLASH = "\0"  # stands for a slash in a name during routing; no name holds a NUL


class RestRoute(Route):
    """A route by the path as sent, in which a slash within a name is %2F."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a request is for this route, and its parameters."""
        sent = scope.get("raw_path") or b""
        if b"%2" not in sent or scope["type"] != "http":
            return super().matches(scope)
        parts = [unquote(each) for each in sent.partition(b"?")[0].decode("latin-1").split("/")]
        if not any("/" in each for each in parts) or any(_SLASH in each for each in parts):
            return super().matches(scope)
        match, found = super().matches({**scope, "path": "/".join(each.replace("/", _SLASH) for each in parts)})
        if match is Match.NONE:
            return match, found
        named = {name: value.replace(_SLASH, "/") for name, value in found["path_params"].items()}  # all are texts
        return match, {**found, "path_params": named}


def in_path(request: Request, name: str) -> str:
    """Return a parameter of the path. Raises InvalidInput if it is not UTF-8."""
    value = str(request.path_params[name])
    if _REPLACED in value:
        sent: bytes = request.scope.get("raw_path") or b""
        _check(name, unquote(sent.decode("latin-1"), errors="surrogateescape"))
    return value


def in_query(request: Request, name: str) -> str | None:
    """Return a parameter of the query, if it is there. Raises InvalidInput if it is not UTF-8."""
    value = request.query_params.get(name)
    if value is not None and _REPLACED in value:
        sent: bytes = request.scope["query_string"]
        pairs = parse_qsl(sent.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")
        _check(name, "".join(text for each, text in pairs if each == name))
    return value


def _check(name: str, sent: str) -> None:
    """Refuse bytes that are not text: they would be taken for another name, key or id."""
    if any("\udc80" <= each <= "\udcff" for each in sent):
        raise InvalidInput(f"the parameter {name} is not UTF-8 once its %XX are read")


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
    count = (lambda _: None) if share is None else share.admit
    try:
        async with asyncio.timeout(seconds):
            if encoding == "identity":
                return await _plain(request.stream(), limit, count)
            return await _unpacked(request.stream(), ENCODINGS[encoding], limit, count)
    except TimeoutError as exc:
        raise BodyLate(seconds) from exc
    except ClientDisconnect as exc:
        raise InvalidInput("the connection ended before the body did") from exc


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
