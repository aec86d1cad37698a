"""All rules, and what they say about a request: deny wins, and without a rule that allows nobody may.

Without any rule at all everybody may do everything. A set never changes: a change of rules is another set,
put in the place of the first in one step, so that no request sees a part of each.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .resource import AccessRight, Resource, ResourceKind
from .rule import AccessRule, matches

_MOST_KEPT = 20_000  # verdicts; then they are worked out again


class AccessVerdict(NamedTuple):
    """Whether somebody may, by which rule, and why in words."""

    allowed: bool
    rule: AccessRule | None
    why: str


_OPEN = AccessVerdict(True, None, "there are no rules, so everybody may do everything")
_SILENT = AccessVerdict(False, None, "no rule allows it, and there are rules, so it is denied")


class RuleSet:
    """Some rules. Safe from any thread."""

    def __init__(self, rules: Iterable[AccessRule] = ()) -> None:
        self.rules = tuple(rules)
        self._kept: dict[tuple[str, AccessRight, Resource], AccessVerdict] = {}

    def verdict(self, principal: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        """Return what the rules say about a request."""
        if not self.rules:
            return _OPEN
        key = (principal, right, resource)
        found = self._kept.get(key)
        if found is None:
            found = self._find(principal, right, resource)
            if len(self._kept) >= _MOST_KEPT:
                self._kept = {}
            self._kept[key] = found
        return found

    def allows_some(self, principal: str, right: AccessRight, kind: ResourceKind) -> bool:
        """Return whether some rule allows it for anything of a kind, whatever others deny by name."""
        return not self.rules or any(
            rule.allows
            and right in rule.rights
            and rule.kind in (None, kind)
            and matches(rule.principal, principal)
            for rule in self.rules
        )

    def _find(self, principal: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        allowing: AccessRule | None = None
        for rule in self.rules:
            if not rule.covers(principal, right, resource):
                continue
            if not rule.allows:
                return AccessVerdict(False, rule, f"{rule.place or 'a rule'} denies it: {rule}")
            allowing = allowing or rule
        if allowing is None:
            return _SILENT
        return AccessVerdict(True, allowing, f"{allowing.place or 'a rule'} allows it: {allowing}")
