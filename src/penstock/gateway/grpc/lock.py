"""Authenticates gRPC calls: metadata `authorization` as in HTTP, client certificate, or anonymous."""

from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from penstock.access.access import Access
from penstock.access.certificate_name import certificate_of
from penstock.access.principal import Peer, Principal, is_loopback

from ..lock import authenticated

DOOR = "grpc"
_shown = lru_cache(256)(certificate_of)


async def principal_of(access: Access, context: Any, *, secrets_in_plaintext: bool) -> Principal:
    """Return the principal of a call. Raises Unauthenticated."""
    said = [_bytes(value) for name, value in context.invocation_metadata() or () if name == "authorization"]
    known = context.auth_context()
    certificate = known.get("x509_pem_cert")
    return await authenticated(
        access,
        peer_of(context.peer(), known, secrets_in_plaintext=secrets_in_plaintext),
        said,
        _shown(certificate[0]) if certificate else None,
    )


def peer_of(text: str, known: Any, *, secrets_in_plaintext: bool) -> Peer:
    """Return the other end of a connection: gRPC writes `ipv4:127.0.0.1:57112` or `ipv6:%5B::1%5D:57112`."""
    kind, _, rest = unquote(text).partition(":")
    address = rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else "local"
    is_encrypted = b"ssl" in known.get("transport_security_type", ())
    return Peer(
        address, DOOR, is_encrypted or address == "local" or is_loopback(address) or secrets_in_plaintext
    )


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1", "replace")
