"""Who is at the other end of a connection, and how that is known."""

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

from penstock.errors import Unauthenticated

ANONYMOUS = "anonymous"
LONGEST_NAME = 200
SHARED = "shared:"  # how the credential of a door's own secret begins
_NAME = re.compile(rf"[A-Za-z0-9._@:/=+,-]{{1,{LONGEST_NAME}}}")


class Peer(NamedTuple):
    """The other end of a connection, as far as the socket knows it."""

    address: str = ""
    door: str = "code"  # kafka, http: the name of the listener in audit lines and series
    is_private: bool = True  # encrypted, or on this machine: a secret may be sent over it


class Principal(NamedTuple):
    """Somebody who asks. Rules know the name; the rest says how, and for how long, it is known."""

    name: str
    address: str = ""
    method: str = ANONYMOUS  # password, scram-sha-256, token, jwt, certificate
    credential: str = ""  # which credential was shown, as a digest that no secret can be got back from
    expires: float | None = None  # seconds since 1970 from which on it does not hold any more
    door: str = "code"

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing was shown."""
        return self.method == ANONYMOUS

    @property
    def is_shared(self) -> bool:
        """Whether the one secret of a door was shown, which everybody there has."""
        return self.credential.startswith(SHARED)


@lru_cache(1024)
def is_loopback(address: str) -> bool:
    """Return whether an address is of this machine."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def anonymous(peer: Peer) -> Principal:
    """Return who shows nothing."""
    return Principal(ANONYMOUS, peer.address, door=peer.door)


def check_name(name: object) -> str:
    """Return a name that somebody may have. Raises Unauthenticated for one that could deceive a reader.

    Tokens and certificates are signed by others: a line feed in a name must not forge a line of a log, and
    nobody may take the name of those who show nothing.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == ANONYMOUS or "*" in name:
        raise Unauthenticated("the name in it is not one that a principal may have")
    return name
