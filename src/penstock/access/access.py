"""The one lock of all doors: who somebody is, what they may do, how much, and the trail of it.

A door makes a `Peer` of a connection, asks for a `Principal`, and before each act asks `check` (or `allowed`,
or `sees` for what is only left out of a list). Everything is decided by the policy in force; `install` puts
another in its place in one step. Safe from any thread. Without a policy everybody may do everything.
"""

import os
from collections.abc import Callable, Iterable
from threading import Lock

from penstock import metrics
from penstock.clock import SYSTEM, Clock
from penstock.errors import LeftOpen, NotAllowed, RateLimited

from .audit_trail import AuditTrail
from .logins import Logins
from .policy import OPEN, AccessPolicy
from .policy_in_force import PolicyInForce
from .principal import Principal
from .resource import AccessRight, Resource, ResourceKind
from .revocation import RevokedCertificates
from .rule import ANY, AccessRule
from .rule_set import AccessVerdict
from .token_bucket import TokenBuckets


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
        """`made_up_key`: from which secrets of names that nobody has are made up; else a new one."""
        super().__init__(policy, trail, clock, made_up_key or os.urandom(32))
        self._installing = Lock()
        self._watchers: list[Callable[[], object]] = []
        self.must_lock = False  # from when on a policy that lets everybody do everything is refused

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
            self.trail.refused(principal, right, resource, verdict.why)
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

    # -- what is in force

    def install(self, policy: AccessPolicy | None = None, stored: Iterable[AccessRule] | None = None) -> None:
        """Put another policy, or other rules of the database, in force from the next request on.

        Raises LeftOpen.
        """
        with self._installing:  # or one of two changes at a time would bring back what the other replaced
            now = self._force
            new = now.policy if policy is None else policy
            same = new.limits == now.policy.limits  # else a change of rules would give everybody a new burst
            buckets = now.buckets if same else TokenBuckets(new.limits, self._clock)
            rules = now.stored if stored is None else tuple(stored)
            self.check_locked(new, rules, "the database" if policy is None else "the access file")
            self._force = PolicyInForce(new, rules, buckets, self._made_up_key)
            if new is now.policy:  # who has shown a password need not show it again
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
        """Let certificates hold no more, also on connections that are open."""
        self.revoked = revoked
        self._tell()

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call something after each change, from whatever thread made it; return what ends that."""
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)

    def _tell(self) -> None:
        for each in tuple(self._watchers):
            each()

    @property
    def version(self) -> object:
        """What is another object after each change."""
        return self._force
