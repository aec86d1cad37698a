"""Authentication: by token, password, certificate, SCRAM, or as anonymous.

Every failure is counted and audited, and no credential is ever quoted. Safe from any thread.
"""

import hmac
import os
from collections.abc import Callable, Mapping
from typing import Any

from penstock import metrics
from penstock.clock import Clock
from penstock.errors import Unauthenticated

from .audit_trail import AuditTrail
from .certificates import RevokedCertificates, credential_of
from .failures import Failures
from .made_up import MadeUpSecrets
from .password import token_digest
from .policy import AccessPolicy, User, token_credential
from .principal import ANONYMOUS, LONGEST_NAME, SHARED, Peer, Principal, anonymous
from .rate_limits import RateLimiter
from .rule import AccessRule, RuleSet
from .scram import MECHANISMS, ScramExchange, ScramSecret

_WRONG = "name or password is wrong"
_MOST_KEPT = 10_000
CODE = Peer()


class PolicyInForce:
    """A policy in force, with the values derived from it, replaced as a whole. Its caches alone change."""

    def __init__(self, policy: AccessPolicy, stored: tuple[AccessRule, ...], buckets: RateLimiter, key: bytes) -> None:
        """`key`: secrets of unknown names are derived from it."""
        self.policy, self.stored, self.buckets = policy, stored, buckets
        self.rules = RuleSet((*policy.rules, *stored))
        self.credentials = policy.credentials
        self.made_up = MadeUpSecrets(policy.users.values(), key)
        self.shown: dict[bytes, Principal] = {}  # by a keyed digest of the credential


class Logins:
    """Authenticates clients by the policy in force."""

    def __init__(self, policy: AccessPolicy, trail: AuditTrail | None, clock: Clock, made_up_key: bytes) -> None:
        self._clock, self.trail, self._made_up_key = clock, trail, made_up_key
        self._force = PolicyInForce(policy, (), RateLimiter(policy.limits, clock), made_up_key)
        self._failures = Failures(clock)
        self._key = os.urandom(32)
        self.revoked = RevokedCertificates()

    def authenticate_bearer(self, token: str, peer: Peer = CODE) -> Principal:
        """Return the principal of a token: a static one, or a JWT. Raises Unauthenticated."""
        return self._authenticated("bearer", peer, "", token, lambda force: self._bearer(force, token, peer))

    def authenticate_basic(self, name: str, password: str, peer: Peer = CODE) -> Principal:
        """Return the principal of a name and password; slow the first time. Raises Unauthenticated."""
        if not 0 < len(name) <= LONGEST_NAME:  # no user has it, so it must not cost a hash
            raise self.refuse("password", peer, _WRONG)
        shown = f"{name}\0{password}"
        return self._authenticated(
            "password", peer, name, shown, lambda force: self._basic(force, name, password, peer)
        )

    def wait_for_basic(self, name: str, password: str, peer: Peer) -> float:
        """Return the seconds to wait before `authenticate_basic`: an address that fails often takes turns.

        Raises Unauthenticated when too many wait already.
        """
        shown = self._force.shown.get(self._digest("password", peer, name, f"{name}\0{password}"))
        return 0.0 if shown is not None else self.wait_for_turn("password", peer, name)

    def wait_for_turn(self, method: str, peer: Peer, name: str) -> float:
        """Return the same for a secret that is not cached after a success."""
        return self._turn(method, peer, name, name)

    def wait_for_secret(self, secret: str, peer: Peer) -> float:
        """The same before `authenticate_secret`; not for a secret that was right at this address before."""
        return self._turn("password", peer, "", secret)

    def _turn(self, method: str, peer: Peer, name: str, known_by: str) -> float:
        try:
            return self._failures.turn(peer.address, known_by)
        except Unauthenticated as exc:
            raise self._failed(method, peer, name, exc, counts=False) from None

    def authenticate_secret(self, name: str, secret: str, fits: Callable[[str], bool] | None, peer: Peer) -> Principal:
        """Return the principal of a secret without a name, which people choose: the door's own, or a token.

        The door's own goes under the name that the door gives to all. `fits` compares in constant time; None
        if the door has none. A wrong secret counts against the address alone. Raises Unauthenticated.
        """

        def find(_: object) -> Principal:
            assert fits is not None
            if not fits(secret):
                raise Unauthenticated("the password is wrong")
            return Principal(name, peer.address, "password", SHARED + name, None, peer.door)

        try:
            policy = self._force.policy  # a token is one of the file, or of the form of a JWT where those hold
            is_jwt = policy.jwt is not None and secret.count(".") == 2
            if fits is None or is_jwt or token_digest(secret) in policy.tokens:
                found = self.authenticate_bearer(secret, peer)
            else:
                found = self._authenticated("password", peer, "", f"shared\0{name}\0{secret}", find)
        except Unauthenticated:
            self._failures.failed(peer.address)
            raise
        self._failures.succeeded(peer.address, secret)
        return found

    def of_certificate(self, certificate: Mapping[str, Any], peer: Peer = CODE) -> Principal:
        """Return the principal of a certificate verified by TLS (`getpeercert()`). Raises Unauthenticated."""
        self.check_revoked(certificate, peer)
        try:
            found = self._force.policy.certificates.principal(certificate, peer)
        except Unauthenticated as exc:
            raise self._failed("certificate", peer, "", exc) from None
        return self._known(found)

    def check_revoked(self, certificate: Mapping[str, Any], peer: Peer) -> None:
        """Refuse a revoked certificate, whatever other credential comes with it. Raises Unauthenticated."""
        if why := self.revoked.why_not(credential_of(certificate), self._now()):
            raise self.refuse("certificate", peer, why)

    def of_nobody(self, peer: Peer = CODE) -> Principal:
        """Return the anonymous principal, if the policy admits it. Raises Unauthenticated."""
        if not self._force.policy.admits_anonymous:
            raise self._failed(ANONYMOUS, peer, "", Unauthenticated("a token, password or certificate is needed"))
        return anonymous(peer)

    def scram(self, mechanism: str, peer: Peer = CODE) -> "ScramLogin":
        """Begin a SCRAM exchange."""
        return ScramLogin(self, mechanism, peer)

    def refuse(self, method: str, peer: Peer, why: str) -> Unauthenticated:
        """Count and audit a credential that cannot be used; return the error to raise."""
        return self._failed(method, peer, "", Unauthenticated(why))

    @property
    def mechanisms(self) -> list[str]:
        """The SASL mechanisms that can succeed under the policy in force."""
        policy = self._force.policy
        found = [name for name in MECHANISMS if any(name in user.scram for user in policy.users.values())]
        found += ["PLAIN"] if policy.users else []
        return found + (["OAUTHBEARER"] if policy.tokens or policy.jwt else [])

    @property
    def admits_anonymous(self) -> bool:
        """Whether clients without a credential are admitted at all."""
        return self._force.policy.admits_anonymous

    def holds(self, principal: Principal, force: PolicyInForce | None = None) -> bool:
        """Return whether a principal's credential is still valid; call it while a connection lasts."""
        force = force or self._force
        policy = force.policy
        if principal.expires is not None and self._now() >= principal.expires:
            return False
        if principal.is_anonymous:
            return policy.admits_anonymous
        if principal.method == "certificate":
            return not self.revoked.why_not(principal.credential, self._now())
        if principal.is_shared:
            return True  # the shared secret is not in the access file
        if principal.method == "jwt":  # its keys may change without a new policy
            return policy.jwt is not None and policy.jwt.holds(principal.credential)
        return principal.credential in force.credentials

    def audit(self, principal: Principal, act: str, resource: str, outcome: str, **more: Any) -> None:
        """Audit an act that no right covers, such as a change of rules. Never hand in a payload."""
        if self.trail is not None:
            self.trail.write_of(principal, event=act, resource=resource, outcome=outcome, **more)

    def _bearer(self, force: PolicyInForce, token: str, peer: Peer) -> Principal:
        digest = token_digest(token)
        if (name := force.policy.tokens.get(digest)) is not None:
            return Principal(name, peer.address, "token", token_credential(digest, name), None, peer.door)
        if force.policy.jwt is None:
            raise Unauthenticated("the token is not known")
        return force.policy.jwt.verify(token, self._now(), peer)

    def _basic(self, force: PolicyInForce, name: str, password: str, peer: Peer) -> Principal:
        user = force.policy.users.get(name)
        # Compute each kind of hash in the file once for every name, so that the time reveals nothing.
        for nobody in force.made_up.users(name):
            if user is None or (user.password is None) != (nobody.password is None):
                nobody.fits(password)
        if user is None or not user.fits(password):
            raise Unauthenticated(_WRONG)
        return Principal(name, peer.address, "password", user.credential, None, peer.door)

    def _authenticated(self, method: str, peer: Peer, name: str, shown: str, find: Any) -> Principal:
        force, digest = self._force, self._digest(method, peer, name, shown)
        known = force.shown.get(digest)
        if known is not None and self.holds(known, force):
            if not peer.is_private:
                raise self._failed(method, peer, name, _unsafe())
            return known._replace(address=peer.address, door=peer.door)
        if name:
            self._check_failures(method, peer, name)
        try:
            if not peer.is_private:
                raise _unsafe()
            found: Principal = find(force)
        except Unauthenticated as exc:
            raise self._failed(method, peer, name, exc) from None
        if len(force.shown) >= _MOST_KEPT:
            force.shown.clear()
        force.shown[digest] = found
        if name:
            self._failures.succeeded(peer.address, name)
        return self._known(found)

    def _digest(self, method: str, peer: Peer, name: str, shown: str) -> bytes:
        if name:  # a success at one address must not help another address to guess the secret
            shown = f"{peer.address}\0{shown}"
        return hmac.digest(self._key, f"{method}\0{peer.door}\0{shown}".encode("utf-8", "surrogatepass"), "sha256")

    def _check_failures(self, method: str, peer: Peer, name: str) -> None:
        """Refuse a name that has to wait; this is not another failure. Raises Unauthenticated."""
        try:
            self._failures.check(peer.address, name)
        except Unauthenticated as exc:
            raise self._failed(method, peer, name, exc, counts=False) from None

    def _known(self, principal: Principal) -> Principal:
        metrics.AUTHENTICATIONS.add(door=principal.door, method=principal.method, outcome="ok")
        self.audit(principal, "authentication", "", "ok")
        return principal

    def _failed(
        self, method: str, peer: Peer, name: str, error: Unauthenticated, *, counts: bool = True
    ) -> Unauthenticated:
        """Count and audit a failure. The name is hidden if unknown: it may be a secret in the wrong place."""
        if name and counts:
            self._failures.failed(peer.address, name)
        metrics.AUTHENTICATIONS.add(door=peer.door, method=method, outcome="failed")
        if self.trail is not None:
            self.trail.failed(peer, method, name if name in self._force.policy.users else "", str(error))
        return error

    def _now(self) -> float:
        return self._clock.now_ms() / 1000


class ScramLogin:
    """One SCRAM exchange at a door: `step` until there is a `principal`."""

    def __init__(self, access: Logins, mechanism: str, peer: Peer) -> None:
        self._access, self._mechanism, self._peer = access, mechanism, peer
        self._exchange = ScramExchange(mechanism, self._find, self._make_up)
        self._user: User | None = None
        self._has_begun = False
        self.principal: Principal | None = None

    def step(self, message: bytes) -> bytes:
        """Return the answer to a client's message. Raises Unauthenticated."""
        access, exchange = self._access, self._exchange
        if self._has_begun:
            access._check_failures(self._mechanism.lower(), self._peer, exchange.name)
        try:
            if not self._has_begun:
                self._has_begun = True
                return exchange.first(message)
            answer = exchange.final(message)
        except Unauthenticated as exc:
            raise access._failed(self._mechanism.lower(), self._peer, exchange.name, exc) from None
        assert self._user is not None
        access._failures.succeeded(self._peer.address, exchange.name)
        method, door = self._mechanism.lower(), self._peer.door
        found = Principal(self._user.name, self._peer.address, method, self._user.credential, None, door)
        self.principal = access._known(found)
        return answer

    def wait_for_turn(self) -> float:
        """Return the seconds to wait before the next step. Raises Unauthenticated when too many wait."""
        if not self._has_begun:
            return 0.0
        return self._access.wait_for_turn(self._mechanism.lower(), self._peer, self._exchange.name)

    def _find(self, name: str) -> ScramSecret | None:
        self._user = self._access._force.policy.users.get(name)
        return None if self._user is None else self._user.scram.get(self._mechanism)

    def _make_up(self, name: str) -> ScramSecret:
        return self._access._force.made_up.scram(self._mechanism, name)


def _unsafe() -> Unauthenticated:
    return Unauthenticated("a secret was sent over a connection that is not encrypted; use TLS")
