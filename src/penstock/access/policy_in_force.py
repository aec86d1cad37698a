"""A policy in force with the values derived from it, replaced as a whole."""

from .made_up import MadeUpSecrets
from .policy import AccessPolicy
from .principal import Principal
from .rate_limits import RateLimiter
from .rule import AccessRule
from .rule_set import RuleSet


class PolicyInForce:
    """The policy in force at a moment. Its parts do not change, except for caches."""

    def __init__(
        self, policy: AccessPolicy, stored: tuple[AccessRule, ...], buckets: RateLimiter, key: bytes
    ) -> None:
        """`key`: secrets of unknown names are derived from it."""
        self.policy, self.stored, self.buckets = policy, stored, buckets
        self.rules = RuleSet((*policy.rules, *stored))
        self.credentials = policy.credentials
        self.made_up = MadeUpSecrets(policy.users.values(), key)
        self.shown: dict[bytes, Principal] = {}  # by a keyed digest of the credential
