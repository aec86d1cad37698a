"""Passwords and static tokens, kept as hashes.

| text                                 | of                                                       |
|--------------------------------------|----------------------------------------------------------|
| `scrypt$ln=14,r=8,p=1$salt$hash`     | a password: slow to guess; salt and hash in base64       |
| `sha256$hash`                        | a token, which is long and random, hence not guessable   |

`penstock access hash` makes both. This module keeps no secret that it is given.
"""

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from typing import NamedTuple

from penstock.errors import InvalidInput

SHORTEST_TOKEN = 20  # characters: a shorter token could be guessed from its hash
LONGEST_SECRET = 1024  # bytes of a password or static token that are examined
_SCRYPT = re.compile(r"scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/=]{16,})\$([A-Za-z0-9+/=]{32,})")
_SHA256 = re.compile(r"sha256\$([0-9a-f]{64})")
_COST = 14
_MOST_MEMORY = 256 * 1024 * 1024


class PasswordHash(NamedTuple):
    """The stored form of a password."""

    cost: int
    block: int
    lanes: int
    salt: bytes
    hash: bytes

    def fits(self, password: str) -> bool:
        """Return whether this is the password; takes some 50 ms and 16 MiB, whatever the answer."""
        secret = password.encode("utf-8", "surrogatepass")
        if len(secret) > LONGEST_SECRET:
            return False
        return hmac.compare_digest(_scrypt(secret, self), self.hash)

    def __str__(self) -> str:
        numbers = f"ln={self.cost},r={self.block},p={self.lanes}"
        return f"scrypt${numbers}${b64encode(self.salt).decode()}${b64encode(self.hash).decode()}"


def new_secret(password: str) -> bytes:
    """Return a new password as bytes. Raises InvalidInput if it is too long, or empty."""
    secret = password.encode()
    if not secret or len(secret) > LONGEST_SECRET:
        raise InvalidInput(f"a password has from 1 to {LONGEST_SECRET} bytes")
    return secret


def hash_password(password: str) -> PasswordHash:
    """Return the stored form of a new password. Raises InvalidInput."""
    secret = new_secret(password)
    made = PasswordHash(_COST, 8, 1, os.urandom(16), b"")
    return made._replace(hash=_scrypt(secret, made))


def parse_password_hash(text: str) -> PasswordHash | None:
    """Parse the stored form of a password; None for another text."""
    found = _SCRYPT.fullmatch(text)
    if found is None:
        return None
    cost, block, lanes = int(found[1]), int(found[2]), int(found[3])
    is_usable = 10 <= cost <= 20 and 1 <= block <= 32 and 1 <= lanes <= 16
    if not is_usable or 128 * block * (1 << cost) > _MOST_MEMORY:
        return None
    try:
        return PasswordHash(cost, block, lanes, b64decode(found[4]), b64decode(found[5]))
    except ValueError:
        return None


def hash_token(token: str) -> str:
    """Return the stored form of a new token. Raises InvalidInput."""
    if len(token) < SHORTEST_TOKEN or len(token.encode()) > LONGEST_SECRET:
        raise InvalidInput(
            f"a token has from {SHORTEST_TOKEN} to {LONGEST_SECRET} characters; make one with: openssl rand -hex 32"
        )
    return f"sha256${token_digest(token)}"


def token_digest(token: str) -> str:
    """Return the hash by which a token is looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def parse_token_hash(text: str) -> str | None:
    """Return the digest in the stored form of a token; None for another text."""
    found = _SHA256.fullmatch(text)
    return None if found is None else found[1]


def _scrypt(secret: bytes, kept: PasswordHash) -> bytes:
    costs = {"n": 1 << kept.cost, "r": kept.block, "p": kept.lanes, "maxmem": _MOST_MEMORY + 1024 * 1024}
    return hashlib.scrypt(secret, salt=kept.salt, **costs, dklen=len(kept.hash) or 32)
