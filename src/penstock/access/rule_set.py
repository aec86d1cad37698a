"""All rules, and what they say about a request: deny wins, and without a rule that allows nobody may.

Without any rule at all everybody may do everything. A set never changes: a change of rules is another set,
put in the place of the first in one step, so that no request sees a part of each.

Verdicts are kept, within a bound of bytes. Who has no rule about something is refused before the name is
looked at, so the names that strangers make up are not kept at all.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from .resource import AccessRight, Resource, ResourceKind
from .rule import AccessRule, matches

V = TypeVar("V")

_MOST_BYTES = 8 * 1024 * 1024  # of what is kept; then it is worked out again
_LONGEST = 300  # characters of a name that is kept; no rule has a longer one
_ENTRY_BYTES, _CHARACTER_BYTES = 400, 4  # what an entry takes beside its names, and a character at most


class AccessVerdict(NamedTuple):
    """Whether somebody may, by which rule, and why in words."""

    allowed: bool
    rule: AccessRule | None
    why: str


class BoundedCache(Generic[V]):
    """Values by keys whose names have a length. Forgets everything when it is full. Safe from any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.bytes = most_bytes, 0
        self._values: dict[Hashable, V] = {}

    def get(self, key: Hashable) -> V | None:
        """Return what is kept, if it is."""
        return self._values.get(key)

    def put(self, key: Hashable, value: V, *lengths: int) -> None:
        """Keep a value, unless a name of its key is longer than any that is of use."""
        if max(lengths) > _LONGEST:
            return
        size = _ENTRY_BYTES + _CHARACTER_BYTES * sum(lengths)
        if self.bytes + size > self._most_bytes:
            self._values, self.bytes = {}, 0
        self._values[key] = value
        self.bytes += size


_OPEN = AccessVerdict(True, None, "there are no rules, so everybody may do everything")
_SILENT = AccessVerdict(False, None, "no rule allows it, and there are rules, so it is denied")


class RuleSet:
    """Some rules. Safe from any thread."""

    def __init__(self, rules: Iterable[AccessRule] = ()) -> None:
        self.rules = tuple(rules)
        self._kept = BoundedCache[AccessVerdict](_MOST_BYTES)
        self._concerning = BoundedCache[tuple[AccessRule, ...]](_MOST_BYTES)

    def verdict(self, principal: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        """Return what the rules say about a request."""
        if not self.rules:
            return _OPEN
        rules = self._rules_of(principal, right, resource.kind)
        if not rules:
            return _SILENT
        key = (principal, right, resource)
        found = self._kept.get(key)
        if found is None:
            found = _verdict(rules, resource)
            self._kept.put(key, found, len(principal), len(resource.name))
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

    def _rules_of(self, principal: str, right: AccessRight, kind: ResourceKind) -> tuple[AccessRule, ...]:
        """Return the rules about what somebody does to things of a kind, whatever they are called."""
        key = (principal, right, kind)
        found = self._concerning.get(key)
        if found is None:
            found = tuple(each for each in self.rules if each.concerns(principal, right, kind))
            self._concerning.put(key, found, len(principal))
        return found


def _verdict(rules: tuple[AccessRule, ...], resource: Resource) -> AccessVerdict:
    allowing: AccessRule | None = None
    for rule in rules:
        if not matches(rule.name, resource.name):
            continue
        if not rule.allows:
            return AccessVerdict(False, rule, f"{rule.place or 'a rule'} denies it: {rule}")
        allowing = allowing or rule
    if allowing is None:
        return _SILENT
    return AccessVerdict(True, allowing, f"{allowing.place or 'a rule'} allows it: {allowing}")
