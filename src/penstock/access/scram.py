"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): prove a password without sending it.

| message      | from   | holds                                                          |
|--------------|--------|----------------------------------------------------------------|
| client first | client | `n,,n=NAME,r=NONCE`                                            |
| server first | server | `r=NONCE+MORE,s=SALT,i=ITERATIONS`                             |
| client final | client | `c=biws,r=NONCE+MORE,p=PROOF`                                  |
| server final | server | `v=SIGNATURE`, by which the server proves itself to the client |

The stored form of a password is `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY`, as PostgreSQL writes it.
The server's part of the nonce is new for each exchange, so an intercepted exchange cannot be replayed. An
unknown name gets a made-up secret (`made_up.py`), and fails where a wrong password does. All hash functions
come from the standard library.
"""

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import NamedTuple

from penstock.errors import Unauthenticated

from .password import LONGEST_SECRET, new_secret

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 16_384
_FEWEST, _MOST = 4096, 1_000_000
_SECRET = re.compile(r"(SCRAM-SHA-(?:256|512))\$(\d{4,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_FIRST = re.compile(r"([ny]),(?:a=([^,]*))?,(n=([^,]{1,400}),r=([\x21-\x2b\x2d-\x7e]{1,256}))((?:,[a-z]+=[^,]*)*)")
_FINAL = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]{1,512}))((?:,[a-z]+=[^,]*)*),p=([A-Za-z0-9+/=]{1,128})"
)
_LONGEST_MESSAGE = 2048
_WRONG = "name or password is wrong"
_FORM = "it is no SCRAM message"


class ScramSecret(NamedTuple):
    """The stored form of a password for one mechanism."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def fits(self, password: str) -> bool:
        """Return whether this is the password, when it is sent in plain text."""
        if len(password.encode("utf-8", "surrogatepass")) > LONGEST_SECRET:
            return False
        made = _secret(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)

    def __str__(self) -> str:
        salt, stored, server = (b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key))
        return f"{self.mechanism}${self.iterations}:{salt}${stored}:{server}"


def scram_secret(mechanism: str, password: str) -> ScramSecret:
    """Return the stored form of a new password. Raises InvalidInput."""
    new_secret(password)
    return _secret(mechanism, password, os.urandom(16), ITERATIONS)


def parse_scram_secret(text: str) -> ScramSecret | None:
    """Parse the stored form of a password; None for another text."""
    found = _SECRET.fullmatch(text)
    if found is None or not _FEWEST <= int(found[2]) <= _MOST:
        return None
    try:
        salt, stored, server = (b64decode(found[at], validate=True) for at in (3, 4, 5))
    except ValueError:
        return None
    size = hashlib.new(MECHANISMS[found[1]]).digest_size
    if len(stored) != size or len(server) != size or len(salt) < 8:
        return None
    return ScramSecret(found[1], int(found[2]), salt, stored, server)


class ScramExchange:
    """The server's side of one exchange: `first`, then `final`, each once."""

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramSecret | None],
        make_up: Callable[[str], ScramSecret],
        *,
        nonce: str | None = None,
    ) -> None:
        """`find`: the secret of a name. `make_up`: the secret for an unknown name."""
        self._find, self._make_up = find, make_up
        self._nonce = nonce or b64encode(os.urandom(24)).decode()
        self._hash = MECHANISMS[mechanism]
        self.name = ""
        self._flag = self._said = self._full_nonce = ""
        self._secret: ScramSecret | None = None
        self._is_known = self._is_over = False

    def first(self, message: bytes) -> bytes:
        """Return the server's first message. Raises Unauthenticated."""
        found = _FIRST.fullmatch(_text(message))
        if found is None or self._is_over or self._said:
            raise Unauthenticated(_FORM)
        flag, other, bare, name, nonce, _ = found.groups()
        self.name = name.replace("=2C", ",").replace("=3D", "=")
        if other and other.replace("=2C", ",").replace("=3D", "=") != self.name:
            raise Unauthenticated("nobody may act for somebody else")
        found_secret, made_up = self._find(self.name), self._make_up(self.name)  # equal time
        self._is_known, self._secret = found_secret is not None, (secret := found_secret or made_up)
        self._flag, self._full_nonce = f"{flag},{f'a={other}' if other else ''},", nonce + self._nonce
        salt = b64encode(secret.salt).decode()
        server = f"r={self._full_nonce},s={salt},i={secret.iterations}"
        # Both sides sign the extensions, so keep the whole message.
        self._said = f"{bare}{found[6]},{server}"
        return server.encode()

    def final(self, message: bytes) -> bytes:
        """Return the server's last message, once the client has proved itself. Raises Unauthenticated."""
        found = _FINAL.fullmatch(_text(message))
        secret = self._secret
        if found is None or self._is_over or secret is None:
            raise Unauthenticated(_FORM)
        self._is_over = True
        bare, binding, nonce, extensions, proof = found.groups()
        if _decoded(binding) != self._flag.encode() or not hmac.compare_digest(nonce, self._full_nonce):
            raise Unauthenticated("the message belongs to another exchange")
        said = f"{self._said},{bare}{extensions}".encode()
        signature = hmac.digest(secret.stored_key, said, self._hash)
        shown = _decoded(proof)
        key = bytes(a ^ b for a, b in zip(shown, signature, strict=False))
        fits = hmac.compare_digest(hashlib.new(self._hash, key).digest(), secret.stored_key)
        if not fits or len(shown) != len(signature) or not self._is_known:
            raise Unauthenticated(_WRONG)
        return b"v=" + b64encode(hmac.digest(secret.server_key, said, self._hash))


def _secret(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramSecret:
    name = MECHANISMS[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode("utf-8", "surrogatepass"), salt, iterations)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramSecret(mechanism, iterations, salt, stored, hmac.digest(salted, b"Server Key", name))


def _text(message: bytes) -> str:
    if len(message) > _LONGEST_MESSAGE:
        raise Unauthenticated(_FORM)
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Unauthenticated(_FORM) from None


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise Unauthenticated(_FORM) from None
