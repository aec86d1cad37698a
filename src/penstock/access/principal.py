"""The client at the other end of a connection, and how it authenticated."""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from penstock.errors import Unauthenticated

ANONYMOUS = "anonymous"
LONGEST_NAME = 200
SHARED = "shared:"  # how the credential of a door's shared secret begins
_NAME = re.compile(rf"[A-Za-z0-9._@:/=+,-]{{1,{LONGEST_NAME}}}")


class Peer(NamedTuple):
    """The other end of a connection, as far as the socket knows it."""

    address: str = ""
    door: str = "code"  # kafka, http: the name of the listener in audit lines and series
    is_private: bool = True  # encrypted, or on this machine: a secret may be sent over it


class Principal(NamedTuple):
    """A client that asks. Rules use the name; the rest tells how it authenticated, and until when."""

    name: str
    address: str = ""
    method: str = ANONYMOUS  # password, scram-sha-256, token, jwt, certificate
    credential: str = ""  # a digest of the credential; the secret cannot be recovered from it
    expires: float | None = None  # seconds since 1970; invalid from then on
    door: str = "code"

    @property
    def is_anonymous(self) -> bool:
        """Whether the client has shown no credential."""
        return self.method == ANONYMOUS

    @property
    def is_shared(self) -> bool:
        """Whether the client has shown a door's shared secret, which all its clients have."""
        return self.credential.startswith(SHARED)


@lru_cache(1024)
def is_loopback(address: str) -> bool:
    """Return whether an address belongs to this machine."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def anonymous(peer: Peer) -> Principal:
    """Return the principal of a client without a credential."""
    return Principal(ANONYMOUS, peer.address, door=peer.door)


def check_name(name: object) -> str:
    """Return a name if a principal may have it. Raises Unauthenticated for one that could deceive a reader.

    Others sign tokens and certificates: a line feed in a name must not forge a log line, and no principal may
    take the name `anonymous`.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == ANONYMOUS or "*" in name:
        raise Unauthenticated("the name in it is not one that a principal may have")
    return name
