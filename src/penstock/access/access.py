"""The one lock of all doors: authentication, rights, rate limits, and the audit trail.

A door makes a `Peer` of a connection, asks for a `Principal`, and calls `check` before each act (or
`allowed`, or `sees` for entries that are merely left out of a list). The policy in force decides everything;
`install` replaces it in one step. Safe from any thread. Without a policy every client may do everything.
"""

import os
from collections.abc import Callable, Iterable
from threading import Lock

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.errors import LeftOpen, NotAllowed, RateLimited, Unauthenticated

from .audit_trail import AuditTrail
from .certificates import RevokedCertificates
from .logins import Logins, PolicyInForce
from .policy import OPEN, AccessPolicy
from .principal import Principal
from .rate_limits import RateLimiter
from .resource import AccessRight, Resource, ResourceKind
from .rule import ANY, AccessRule, AccessVerdict


class Access(Logins):
    """Answers for every door of a process."""

    def __init__(
        self,
        policy: AccessPolicy = OPEN,
        *,
        trail: AuditTrail | None = None,
        clock: Clock = SYSTEM,
        made_up_key: bytes | None = None,
    ) -> None:
        """`made_up_key`: secrets of unknown names are derived from it; a new key by default."""
        super().__init__(policy, trail, clock, made_up_key or os.urandom(32))
        self._installing = Lock()
        self._watchers: list[Callable[[], object]] = []
        self.must_lock = False  # from when on a policy that lets everybody do everything is refused

    def allowed(self, principal: Principal, right: AccessRight, resource: Resource) -> bool:
        """Return whether a principal has a right to a resource; a refusal is counted and audited."""
        verdict = self._force.rules.verdict(principal.name, right, resource)
        if verdict.allowed:
            if self.trail is not None:
                self.trail.used(principal, right, resource)
            return True
        metrics.ACCESS_REFUSED.add(door=principal.door, action=right)
        if self.trail is not None:
            self.trail.refused(principal, right, resource, verdict.why)
        return False

    def check(self, principal: Principal, right: AccessRight, resource: Resource) -> None:
        """Raise NotAllowed unless a principal has a right to a resource."""
        if not self.allowed(principal, right, resource):
            raise NotAllowed(principal.name, right, str(resource))

    def check_still(self, principal: Principal, right: AccessRight, *resources: Resource) -> None:
        """Check again while a connection lasts: rules change, and a credential expires or is revoked.

        Raises NotAllowed, Unauthenticated.
        """
        if not self.holds(principal):
            raise Unauthenticated("the credential has expired or was revoked")
        for each in resources:
            self.check(principal, right, each)

    def allowed_some(self, principal: Principal, right: AccessRight, kind: ResourceKind) -> bool:
        """Return whether a rule allows a right to any resource of a kind; a refusal is audited."""
        if self._force.rules.allows_some(principal.name, right, kind):
            return True
        return self.allowed(principal, right, Resource(kind, ANY))

    def sees(self, principal: Principal, resource: Resource) -> bool:
        """Return whether a principal may describe a resource; a refusal is not audited."""
        return self._force.rules.verdict(principal.name, AccessRight.DESCRIBE, resource).allowed

    def explain(self, name: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        """Return the verdict on a principal's name, with the rule that decides."""
        return self._force.rules.verdict(name, right, resource)

    @property
    def rules(self) -> tuple[AccessRule, ...]:
        """The rules in force: those of the file, then those of the database."""
        return self._force.rules.rules

    def names(self) -> list[dict[str, str]]:
        """Return the names in the policy, and the kind of credential of each; never the credentials."""
        policy = self._force.policy
        found = [{"kind": "user", "name": each} for each in policy.users]
        found += [{"kind": "token", "name": each} for each in dict.fromkeys(policy.tokens.values())]
        return found + ([{"kind": "jwt", "name": "*"}] if policy.jwt is not None else [])

    @property
    def stored(self) -> tuple[AccessRule, ...]:
        """The rules in force that come from the database."""
        return self._force.stored

    @property
    def has_limits(self) -> bool:
        """Whether any limit is in force."""
        return bool(self._force.policy.limits)

    def charge(self, principal: Principal, topic: str, size: int, *, requests: int = 1) -> float:
        """Charge the bytes of a request; return how many seconds the next one has to wait.

        `requests`: 0 for the bytes of an answer; its request was charged when it was admitted.
        """
        seconds = self._force.buckets.charge(principal.name, topic, size, requests)
        if seconds:
            metrics.THROTTLED.add(door=principal.door)
        return seconds

    def charge_records(self, principal: Principal, topic: str, values: Iterable[bytes | None]) -> float:
        """Charge the bytes of records; return how many seconds the client has to wait for more."""
        size = sum(len(each) for each in values if each)
        return self.charge(principal, topic, size, requests=0) if size else 0.0

    def admit(self, principal: Principal, topic: str, size: int) -> None:
        """Charge the bytes of a request, unless its limit is used up. Raises RateLimited."""
        try:
            self._force.buckets.admit(principal.name, topic, size)
        except RateLimited:
            metrics.THROTTLED.add(door=principal.door)
            raise

    def install(self, policy: AccessPolicy | None = None, stored: Iterable[AccessRule] | None = None) -> None:
        """Put another policy, or other rules of the database, in force from the next request on. Raises LeftOpen."""
        with self._installing:  # else one of two changes at a time would undo the other
            now = self._force
            new = now.policy if policy is None else policy
            same = new.limits == now.policy.limits  # new rules alone grant no new burst
            buckets = now.buckets if same else RateLimiter(new.limits, self._clock)
            rules = now.stored if stored is None else tuple(stored)
            self.check_locked(new, rules, "the database" if policy is None else "the access file")
            self._force = PolicyInForce(new, rules, buckets, self._made_up_key)
            if new is now.policy:  # clients need not authenticate again
                self._force.shown = now.shown
        self._tell()

    def check_locked(self, policy: AccessPolicy, stored: Iterable[AccessRule], place: str) -> None:
        """Raise LeftOpen if it must be locked, and a change at a place would let everybody do everything."""
        if self.must_lock and policy.admits_anonymous and not policy.rules and not tuple(stored):
            why = (
                "with this change no rules and no users are left, and everybody who can connect may do "
                "everything; add a rule or a user, or restart penstock serve or worker with --anonymous"
            )
            raise LeftOpen(place, why)

    def revoke(self, revoked: RevokedCertificates) -> None:
        """Refuse these certificates from now on, also on open connections."""
        self.revoked = revoked
        self._tell()

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call `changed` after each change, in the thread that made it; return a function that ends this."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def _tell(self) -> None:
        for each in tuple(self._watchers):
            each()

    @property
    def version(self) -> object:
        """An object that differs after each change."""
        return self._force
