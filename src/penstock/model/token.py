"""The token by which a caller says "this event, once".

What is looked up is its 128-bit hash; the token itself goes with the event, in a header of ours.
"""

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

    @property
    def data(self) -> bytes:
        """The bytes that it counts as."""
        return _bytes(self.given)


def check_token(given: object) -> Token:
    """Return a token. A string counts as its UTF-8 bytes, a UUID as its usual text. Raises InvalidToken."""
    if isinstance(given, UUID) or (isinstance(given, str | bytes) and 0 < len(given) <= TOKEN_LENGTH):
        try:
            return Token(_hash(_bytes(given)), given)
        except UnicodeEncodeError:
            pass
    raise InvalidToken(given, TOKEN_LENGTH)


def _bytes(given: GivenToken) -> bytes:
    return given if isinstance(given, bytes) else str(given).encode()


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()
