"""A policy: users, credentials, rules and limits, as in force at one moment.

A policy never changes. A new one replaces the old in one step, so no request sees parts of both.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from .certificates import CertificateNames
from .json_web_token import JwtVerifier
from .password import PasswordHash
from .rate_limits import RateLimit
from .remote_keys import RemoteKeys
from .rule import AccessRule
from .scram import ScramSecret


@dataclass(frozen=True)
class User:
    """A user with a password."""

    name: str
    password: PasswordHash | None = None
    scram: Mapping[str, ScramSecret] = field(default_factory=dict)

    @property
    def credential(self) -> str:
        """A digest of the stored secret: it changes with the password."""
        kept = [self.name, str(self.password or ""), *(str(each) for each in self.scram.values())]
        return "user:" + hashlib.sha256("\0".join(kept).encode()).hexdigest()[:16]

    def fits(self, password: str) -> bool:
        """Return whether this is the password."""
        if self.password is not None:
            return self.password.fits(password)
        return any(each.fits(password) for each in self.scram.values())


@dataclass(frozen=True)
class AccessPolicy:
    """The contents of an access file."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)  # digest: name
    jwt: JwtVerifier | None = None
    remote_keys: RemoteKeys | None = None  # where the keys of `jwt` come from, if from a URL
    certificates: CertificateNames = CertificateNames()
    rules: tuple[AccessRule, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    admits_anonymous: bool = True

    @property
    def credentials(self) -> frozenset[str]:
        """The valid credentials of users and static tokens."""
        found = {each.credential for each in self.users.values()}
        found |= {token_credential(digest, name) for digest, name in self.tokens.items()}
        return frozenset(found)


def token_credential(digest: str, name: str) -> str:
    """Return the credential of a static token."""
    return f"token:{name}:{digest[:16]}"


OPEN = AccessPolicy()
