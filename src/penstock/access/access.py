"""The one lock of all doors: who somebody is, what they may do, how much, and the trail of it.

A door makes a `Peer` of a connection, asks for a `Principal`, and before each act asks `check` (or `allowed`,
or `sees` for what is only left out of a list). Everything is decided by the policy in force; `install` puts
another in its place in one step. Safe from any thread. Without a policy everybody may do everything.
"""

import hashlib
import hmac
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.errors import NotAllowed, RateLimited, Unauthenticated

from .audit_trail import AuditTrail
from .failures import Failures
from .password import hash_password, token_digest
from .policy import OPEN, AccessPolicy, User, token_credential
from .principal import ANONYMOUS, Peer, Principal, anonymous
from .resource import AccessRight, Resource, ResourceKind
from .rule import ANY, AccessRule
from .rule_set import AccessVerdict, RuleSet
from .scram import MECHANISMS, ScramExchange, ScramSecret, scram_secret
from .token_bucket import TokenBuckets

logger = logging.getLogger("penstock.access")

_WRONG = "name or password is wrong"
_SHARED = "shared:"  # the credential of a door's own secret
_MOST_KEPT = 10_000
CODE = Peer()


class _Force:
    """A policy in force, with what was worked out under it."""

    def __init__(self, policy: AccessPolicy, stored: tuple[AccessRule, ...], buckets: TokenBuckets) -> None:
        self.policy, self.stored, self.buckets = policy, stored, buckets
        self.rules = RuleSet((*policy.rules, *stored))
        self.credentials = policy.credentials
        self.has_scram_alone = any(each.password is None for each in policy.users.values())
        self.shown: dict[bytes, Principal] = {}  # by a keyed digest of what was shown


class Access:
    """Answers for every door of a process."""

    def __init__(
        self, policy: AccessPolicy = OPEN, *, trail: AuditTrail | None = None, clock: Clock = SYSTEM
    ) -> None:
        self._clock, self.trail = clock, trail
        self._force = _Force(policy, (), TokenBuckets(policy.limits, clock))
        self._installing = Lock()
        self._failures = Failures(clock)
        self._key = os.urandom(32)
        self._watchers: list[Callable[[], object]] = []
        self._made_up: User | None = None

    # -- who it is

    def authenticate_bearer(self, token: str, peer: Peer = CODE) -> Principal:
        """Return who a token belongs to: a static one, or a JWT. Raises Unauthenticated."""
        return self._authenticated("bearer", peer, "", token, lambda force: self._bearer(force, token, peer))

    def authenticate_basic(self, name: str, password: str, peer: Peer = CODE) -> Principal:
        """Return who a name and password belong to; slow the first time. Raises Unauthenticated."""
        if not name:  # nobody has it, and failures are counted by name: it must not cost a hash
            raise self.refuse("password", peer, _WRONG)
        shown = f"{name}\0{password}"
        return self._authenticated(
            "password", peer, name, shown, lambda force: self._basic(force, name, password, peer)
        )

    def is_bearer(self, secret: str) -> bool:
        """Return whether a secret is a token: one of the file, or of the form of a JWT where those hold."""
        policy = self._force.policy
        return token_digest(secret) in policy.tokens or (policy.jwt is not None and secret.count(".") == 2)

    def authenticate_shared(
        self, name: str, secret: str, fits: Callable[[str], bool], peer: Peer
    ) -> Principal:
        """Return who shows the one secret of a door, under a name that the door gives to all of them.

        For a protocol that knows no names. `fits` compares in constant time. Raises Unauthenticated.
        """

        def find(_: object) -> Principal:
            if not fits(secret):
                raise Unauthenticated("the password is wrong")
            return Principal(name, peer.address, "password", _SHARED + name, None, peer.door)

        return self._authenticated("password", peer, name, f"shared\0{name}\0{secret}", find)

    def of_certificate(self, certificate: Mapping[str, Any], peer: Peer = CODE) -> Principal:
        """Return whose certificate TLS has verified, as `getpeercert()` gives it. Raises Unauthenticated."""
        try:
            found = self._force.policy.certificates.principal(certificate, peer)
        except Unauthenticated as exc:
            raise self._failed("certificate", peer, "", exc) from None
        return self._known(found)

    def of_nobody(self, peer: Peer = CODE) -> Principal:
        """Return who shows nothing, if they may ask at all. Raises Unauthenticated."""
        if not self._force.policy.admits_anonymous:
            raise self._failed(
                ANONYMOUS, peer, "", Unauthenticated("a token, password or certificate is needed")
            )
        return anonymous(peer)

    def scram(self, mechanism: str, peer: Peer = CODE) -> "ScramLogin":
        """Begin a SCRAM exchange."""
        return ScramLogin(self, mechanism, peer)

    def refuse(self, method: str, peer: Peer, why: str) -> Unauthenticated:
        """Count and tell that somebody showed what cannot be used; return the error to raise."""
        return self._failed(method, peer, "", Unauthenticated(why))

    @property
    def mechanisms(self) -> list[str]:
        """The SASL mechanisms by which somebody could show who they are now."""
        policy = self._force.policy
        found = [name for name in MECHANISMS if any(name in user.scram for user in policy.users.values())]
        found += ["PLAIN"] if policy.users else []
        return found + (["OAUTHBEARER"] if policy.tokens or policy.jwt else [])

    @property
    def admits_anonymous(self) -> bool:
        """Whether who shows nothing may ask at all."""
        return self._force.policy.admits_anonymous

    def holds(self, principal: Principal) -> bool:
        """Return whether what a principal once showed still holds; ask while a connection lasts."""
        if principal.expires is not None and self._now() >= principal.expires:
            return False
        if principal.is_anonymous:
            return self._force.policy.admits_anonymous
        if principal.method == "certificate" or principal.credential.startswith(_SHARED):
            return True  # neither is of the access file
        return principal.credential in self._force.credentials

    # -- what they may do

    def allowed(self, principal: Principal, right: AccessRight, resource: Resource) -> bool:
        """Return whether somebody may do something; a refusal is counted and told."""
        verdict = self._force.rules.verdict(principal.name, right, resource)
        if verdict.allowed:
            if self.trail is not None:
                self.trail.used(principal, right, resource)
            return True
        metrics.ACCESS_REFUSED.add(door=principal.door, action=right)
        if self.trail is not None:
            self.trail.asked(principal, right, resource, "refused", reason=verdict.why)
        return False

    def check(self, principal: Principal, right: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless somebody may do something."""
        if not self.allowed(principal, right, resource):
            raise NotAllowed(principal.name, right, str(resource))

    def allowed_some(self, principal: Principal, right: AccessRight, kind: ResourceKind) -> bool:
        """Return whether a rule lets somebody do something to anything of a kind; a refusal is told."""
        if self._force.rules.allows_some(principal.name, right, kind):
            return True
        return self.allowed(principal, right, Resource(kind, ANY))

    def sees(self, principal: Principal, resource: Resource) -> bool:
        """Return whether somebody may describe something; what they may not is left out, and not told."""
        return self._force.rules.verdict(principal.name, AccessRight.DESCRIBE, resource).allowed

    def explain(self, name: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        """Return whether a principal of a name may do something, and by which rule."""
        return self._force.rules.verdict(name, right, resource)

    @property
    def rules(self) -> tuple[AccessRule, ...]:
        """The rules in force: those of the file, then those of the database."""
        return self._force.rules.rules

    def names(self) -> list[dict[str, str]]:
        """Return who the policy names, and how they show it; nothing of what they show."""
        policy = self._force.policy
        found = [{"kind": "user", "name": each} for each in policy.users]
        found += [{"kind": "token", "name": each} for each in dict.fromkeys(policy.tokens.values())]
        return found + ([{"kind": "jwt", "name": "*"}] if policy.jwt is not None else [])

    @property
    def stored(self) -> tuple[AccessRule, ...]:
        """Of the rules in force, those of the database."""
        return self._force.stored

    # -- how much

    @property
    def has_limits(self) -> bool:
        """Whether anybody has a limit."""
        return bool(self._force.policy.limits)

    def charge(self, principal: Principal, topic: str, size: int, *, requests: int = 1) -> float:
        """Count some bytes of a request; return the seconds that the next has to wait.

        `requests`: 0 for bytes of an answer, whose request was counted when it was admitted.
        """
        seconds = self._force.buckets.charge(principal.name, topic, size, requests)
        if seconds:
            metrics.THROTTLED.add(door=principal.door)
        return seconds

    def admit(self, principal: Principal, topic: str, size: int) -> None:
        """Count some bytes of a request, unless its limit is used up. Raises RateLimited."""
        try:
            self._force.buckets.admit(principal.name, topic, size)
        except RateLimited:
            metrics.THROTTLED.add(door=principal.door)
            raise

    # -- the trail, and what is in force

    def audit(self, principal: Principal, act: str, resource: str, outcome: str, **more: Any) -> None:
        """Tell of an act that no right stands for, such as a change of rules. Never hand in a payload."""
        if self.trail is not None:
            self.trail.write(
                event=act,
                door=principal.door,
                principal=principal.name,
                method=principal.method,
                address=principal.address,
                resource=resource,
                outcome=outcome,
                **more,
            )

    def install(self, policy: AccessPolicy | None = None, stored: Iterable[AccessRule] | None = None) -> None:
        """Put another policy, or other rules of the database, in force from the next request on."""
        with self._installing:  # or one of two changes at a time would bring back what the other replaced
            now = self._force
            new = now.policy if policy is None else policy
            same = new.limits == now.policy.limits  # else a change of rules would give everybody a new burst
            buckets = now.buckets if same else TokenBuckets(new.limits, self._clock)
            self._force = _Force(new, now.stored if stored is None else tuple(stored), buckets)
            if new is now.policy:  # who has shown a password need not show it again
                self._force.shown = now.shown
        for each in tuple(self._watchers):
            each()

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call something after each change, from whatever thread made it; return what ends that."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    @property
    def version(self) -> object:
        """What is another object after each change."""
        return self._force

    # -- inside

    def _bearer(self, force: _Force, token: str, peer: Peer) -> Principal:
        digest = token_digest(token)
        name = force.policy.tokens.get(digest)
        if name is not None:
            return Principal(name, peer.address, "token", token_credential(digest, name), None, peer.door)
        if force.policy.jwt is None:
            raise Unauthenticated("the token is not known")
        return force.policy.jwt.verify(token, self._now(), peer)

    def _basic(self, force: _Force, name: str, password: str, peer: Peer) -> Principal:
        user, nobody = force.policy.users.get(name), self._nobody()
        fits = (user or nobody).fits(password)
        # Each kind of hash of the file is worked out once for every name, so the time it takes says nothing.
        if user is not None and user.password is None:
            nobody.fits(password)
        elif force.has_scram_alone:
            next(iter(nobody.scram.values())).fits(password)
        if user is None or not fits:
            raise Unauthenticated(_WRONG)
        return Principal(name, peer.address, "password", user.credential, None, peer.door)

    def _authenticated(self, method: str, peer: Peer, name: str, shown: str, find: Any) -> Principal:
        force = self._force
        if name:  # what one address may go on with must not help another to guess it
            shown = f"{peer.address}\0{shown}"
        whole = f"{method}\0{peer.door}\0{shown}".encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, whole, "sha256")
        known = force.shown.get(digest)
        if known is not None and (known.expires is None or self._now() < known.expires):
            if not peer.is_private:
                raise self._failed(method, peer, name, _unsafe())
            return known._replace(address=peer.address, door=peer.door)
        try:
            if name:
                self._failures.check(peer.address, name)
            if not peer.is_private:
                raise _unsafe()
            found: Principal = find(force)
        except Unauthenticated as exc:
            raise self._failed(method, peer, name, exc) from None
        if len(force.shown) >= _MOST_KEPT:
            force.shown.clear()
        force.shown[digest] = found
        self._failures.succeeded(peer.address, name)
        return self._known(found)

    def _nobody(self) -> User:
        """Return somebody whose password nobody knows."""
        if self._made_up is None:
            secret, mechanism = os.urandom(16).hex(), next(iter(MECHANISMS))
            self._made_up = User("", hash_password(secret), {mechanism: scram_secret(mechanism, secret)})
        return self._made_up

    def _known(self, principal: Principal) -> Principal:
        metrics.AUTHENTICATIONS.add(door=principal.door, method=principal.method, outcome="ok")
        self.audit(principal, "authentication", "", "ok")
        return principal

    def _failed(self, method: str, peer: Peer, name: str, error: Unauthenticated) -> Unauthenticated:
        """Count and tell a failure. What was said to be a name may be a secret in the wrong place."""
        if name:
            self._failures.failed(peer.address, name)
        metrics.AUTHENTICATIONS.add(door=peer.door, method=method, outcome="failed")
        if self.trail is not None:
            known = name if name in self._force.policy.users else ""
            self.trail.write(
                event="authentication",
                door=peer.door,
                principal=known,
                method=method,
                address=peer.address,
                outcome="failed",
                reason=str(error),
            )
        return error

    def _now(self) -> float:
        return self._clock.now_ms() / 1000


class ScramLogin:
    """One SCRAM exchange at a door: `step` until there is a `principal`."""

    def __init__(self, access: Access, mechanism: str, peer: Peer) -> None:
        self._access, self._mechanism, self._peer = access, mechanism, peer
        unknown = hashlib.sha256(access._key + b"unknown").digest()
        self._exchange = ScramExchange(mechanism, self._find, unknown=unknown)
        self._user: User | None = None
        self._has_begun = False
        self.principal: Principal | None = None

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message of the client. Raises Unauthenticated."""
        access, exchange = self._access, self._exchange
        try:
            if not self._has_begun:
                self._has_begun = True
                return exchange.first(message)
            access._failures.check(self._peer.address, exchange.name)
            answer = exchange.final(message)
        except Unauthenticated as exc:
            raise access._failed(self._mechanism.lower(), self._peer, exchange.name, exc) from None
        assert self._user is not None
        access._failures.succeeded(self._peer.address, exchange.name)
        peer, user = self._peer, self._user
        found = Principal(user.name, peer.address, self._mechanism.lower(), user.credential, None, peer.door)
        self.principal = access._known(found)
        return answer

    def _find(self, name: str) -> ScramSecret | None:
        self._user = self._access._force.policy.users.get(name)
        return None if self._user is None else self._user.scram.get(self._mechanism)


def _unsafe() -> Unauthenticated:
    return Unauthenticated("a secret was sent over a connection that is not encrypted; use TLS")
