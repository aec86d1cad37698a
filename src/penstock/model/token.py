"""The token by which a caller publishes an event only once.

It is looked up by its 128-bit hash; the token itself is stored with the event, in a header.
"""

from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from penstock.errors import InvalidToken

TOKEN_LENGTH = 255
HASH_BYTES = 16
GivenToken = str | bytes | UUID


class Token(NamedTuple):
    """A checked token of a topic. `store_hash`: by it the first topic that uses the token is found."""

    hash: bytes
    store_hash: bytes
    given: GivenToken

    @property
    def data(self) -> bytes:
        """The token as bytes."""
        return _bytes(self.given)


def check_token(given: object, topic: str | None) -> Token:
    """Return a token of a topic, or of the first that used it; a UUID counts as its text. Raises InvalidToken."""
    if isinstance(given, UUID) or (isinstance(given, str | bytes) and 0 < len(given) <= TOKEN_LENGTH):
        try:
            data = _bytes(given)
        except UnicodeEncodeError:
            raise InvalidToken(given, TOKEN_LENGTH) from None
        store_hash = blake2b(data, digest_size=HASH_BYTES).digest()
        return Token(store_hash if topic is None else digest(topic.encode(), data), store_hash, given)
    raise InvalidToken(given, TOKEN_LENGTH)


def digest(*parts: bytes | None) -> bytes:
    """Return a hash of some parts that depends on their boundaries and tells None from empty."""
    hash = blake2b(digest_size=HASH_BYTES)
    for part in parts:
        hash.update(b"-" if part is None else b"%d:" % len(part))
        hash.update(part or b"")
    return hash.digest()


def _bytes(given: GivenToken) -> bytes:
    return given if isinstance(given, bytes) else str(given).encode()
