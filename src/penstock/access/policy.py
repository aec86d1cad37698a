"""Everything that is in force at a moment: who there is, how they show it, what they may do, how much.

A policy never changes. A new one takes the place of the old one in one step, so nobody meets a part of each.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .certificate_name import CertificateNames
from .json_web_token import JwtVerifier
from .password import PasswordHash
from .remote_keys import RemoteKeys
from .rule import AccessRule
from .scram import ScramSecret
from .token_bucket import RateLimit


@dataclass(frozen=True)
class User:
    """Somebody with a password."""

    name: str
    password: PasswordHash | None = None
    scram: Mapping[str, ScramSecret] = field(default_factory=dict)

    @property
    def credential(self) -> str:
        """A digest of what is kept: another one when the password has changed."""
        kept = [self.name, str(self.password or ""), *(str(each) for each in self.scram.values())]
        return "user:" + hashlib.sha256("\0".join(kept).encode()).hexdigest()[:16]

    def fits(self, password: str) -> bool:
        """Return whether this is the password."""
        if self.password is not None:
            return self.password.fits(password)
        return any(each.fits(password) for each in self.scram.values())


@dataclass(frozen=True)
class AccessPolicy:
    """What an access file says."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)  # digest: name
    jwt: JwtVerifier | None = None
    remote_keys: RemoteKeys | None = None  # where those of `jwt` come from, if from a URL
    certificates: CertificateNames = CertificateNames()
    rules: tuple[AccessRule, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    admits_anonymous: bool = True

    @property
    def credentials(self) -> frozenset[str]:
        """The credentials of users and static tokens that hold."""
        found = {each.credential for each in self.users.values()}
        found |= {token_credential(digest, name) for digest, name in self.tokens.items()}
        return frozenset(found)


def token_credential(digest: str, name: str) -> str:
    """Return the credential of a static token."""
    return f"token:{name}:{digest[:16]}"


OPEN = AccessPolicy()
