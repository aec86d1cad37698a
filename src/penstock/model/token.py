"""The token by which a caller says "this event, once": its 128-bit hash is all that is stored of it."""

from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from penstock.errors import InvalidToken

TOKEN_LENGTH = 255
HASH_BYTES = 16
GivenToken = str | bytes | UUID


class Token(NamedTuple):
    """A checked token: what is stored, and what the caller gave, for use in messages."""

    hash: bytes
    given: GivenToken


def check_token(given: object) -> Token:
    """Return a token. A string counts as its UTF-8 bytes, a UUID as its usual text. Raises InvalidToken."""
    if isinstance(given, UUID):
        return Token(_hash(str(given).encode()), given)
    if isinstance(given, str | bytes) and 0 < len(given) <= TOKEN_LENGTH:
        try:
            return Token(_hash(given.encode() if isinstance(given, str) else given), given)
        except UnicodeEncodeError:
            pass
    raise InvalidToken(given, TOKEN_LENGTH)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()
