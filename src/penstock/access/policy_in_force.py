"""A policy in force, with what was worked out under it: another takes its place as a whole."""

from .made_up import MadeUpSecrets
from .policy import AccessPolicy
from .principal import Principal
from .rule import AccessRule
from .rule_set import RuleSet
from .token_bucket import TokenBuckets


class PolicyInForce:
    """What counts at a moment. Its parts are not changed, but for what is remembered."""

    def __init__(
        self, policy: AccessPolicy, stored: tuple[AccessRule, ...], buckets: TokenBuckets, key: bytes
    ) -> None:
        """`key`: what secrets of names that nobody has are made up from."""
        self.policy, self.stored, self.buckets = policy, stored, buckets
        self.rules = RuleSet((*policy.rules, *stored))
        self.credentials = policy.credentials
        self.made_up = MadeUpSecrets(policy.users.values(), key)
        self.shown: dict[bytes, Principal] = {}  # by a keyed digest of what was shown
