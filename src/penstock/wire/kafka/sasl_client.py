"""The client side of SASL authentication: its messages, and its checks of the answers. Codec without I/O.

| mechanism                    | the client sends                                                       |
|------------------------------|------------------------------------------------------------------------|
| PLAIN (RFC 4616)             | `NUL name NUL password`: the password itself, readable without TLS     |
| SCRAM-SHA-… (RFC 5802, 7677) | a proof of the password; the server proves in turn that it knows it    |

An exchange is a generator: it yields messages to send and receives the answers. It ends when the server has
proved itself. The count of iterations has bounds, so that a server can neither cost the client too much work
nor weaken the protection of the password.
"""

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Generator

from penstock.errors import Unauthenticated

SaslExchange = Generator[bytes, bytes, None]
PLAIN = "PLAIN"
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
CLIENT_MECHANISMS = (PLAIN, *_HASHES)
_ITERATIONS = range(4096, 1_000_001)
_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]{1,512}),s=([A-Za-z0-9+/=]{1,1024}),i=(\d{1,7})(?:,[a-z]+=[^,]*)*")
_FINAL = re.compile(r"v=([A-Za-z0-9+/=]{1,128})(?:,[a-z]+=[^,]*)*")
_UNBOUND = "c=biws"  # "n,,": there is no channel binding


def sasl_exchange(mechanism: str, name: str, password: str) -> SaslExchange:
    """Return the client's side of one exchange; running it raises Unauthenticated."""
    return _plain(name, password) if mechanism == PLAIN else scram_exchange(mechanism, name, password)


def _plain(name: str, password: str) -> SaslExchange:
    yield f"\0{name}\0{password}".encode()


def scram_exchange(mechanism: str, name: str, password: str, nonce: str | None = None) -> SaslExchange:
    """Return the client's side of a SCRAM exchange; running it raises Unauthenticated."""
    kind = _HASHES[mechanism]
    nonce = nonce or b64encode(os.urandom(24)).decode()
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    opening = f"n={escaped},r={nonce}"
    first = _text((yield f"n,,{opening}".encode()))
    found = _FIRST.fullmatch(first)
    if found is None:
        raise Unauthenticated("the server's first answer is not a SCRAM message")
    if not found[1].startswith(nonce) or found[1] == nonce:
        raise Unauthenticated("the server's answer belongs to another exchange")
    iterations = int(found[3])
    if iterations not in _ITERATIONS:
        raise Unauthenticated(
            f"the server wants {iterations:,} iterations, but {_ITERATIONS[0]:,} to {_ITERATIONS[-1]:,} are allowed"
        )
    salted = hashlib.pbkdf2_hmac(kind, password.encode(), _decoded(found[2]), iterations)
    client_key = hmac.digest(salted, b"Client Key", kind)
    final = f"{_UNBOUND},r={found[1]}"
    both = f"{opening},{first},{final}".encode()
    signature = hmac.digest(hashlib.new(kind, client_key).digest(), both, kind)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _FINAL.fullmatch(_text((yield f"{final},p={b64encode(proof).decode()}".encode())))
    wanted = hmac.digest(hmac.digest(salted, b"Server Key", kind), both, kind)
    if last is None or not hmac.compare_digest(_decoded(last[1]), wanted):
        raise Unauthenticated("the server has not proved that it knows the password")


def _text(message: bytes) -> str:
    try:
        return bytes(message).decode("ascii")
    except UnicodeDecodeError:
        raise Unauthenticated("the server's answer is not a SCRAM message") from None


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise Unauthenticated("the server's answer is not a SCRAM message") from None
