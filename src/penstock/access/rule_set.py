"""All rules, and their verdict on a request: deny wins, and no principal may without a rule that allows.

Without any rule at all every principal may do everything. A set never changes: a change of rules makes
another set, which replaces the first in one step, so that no request sees parts of both.

Verdicts are cached, within a bound of bytes. A principal without a rule on a kind is refused before the name
is looked at, so names that strangers make up are not cached at all.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from penstock.database.database import Transaction

from .resource import AccessRight, Resource, ResourceKind
from .rule import AccessRule, matches, parse_rule

V = TypeVar("V")

PLACE = "database"  # of the rules that processes share, and of the ACLs that Kafka clients set
_MOST_BYTES = 8 * 1024 * 1024  # of cached verdicts; a full cache starts anew
_LONGEST = 300  # characters of a cached name; no rule has a longer one
_ENTRY_BYTES, _CHARACTER_BYTES = 400, 4  # of an entry beside its names, and of a character at most


class AccessVerdict(NamedTuple):
    """Whether a request is allowed, by which rule, and why in words."""

    allowed: bool
    rule: AccessRule | None
    why: str


class BoundedCache(Generic[V]):
    """Values by keys whose names have a length. Clears itself when full. Safe from any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.bytes = most_bytes, 0
        self._values: dict[Hashable, V] = {}

    def get(self, key: Hashable) -> V | None:
        """Return the cached value, if any."""
        return self._values.get(key)

    def put(self, key: Hashable, value: V, *lengths: int) -> None:
        """Cache a value, unless a name of its key is longer than any useful one."""
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
    """A set of rules. Safe from any thread."""

    def __init__(self, rules: Iterable[AccessRule] = ()) -> None:
        self.rules = tuple(rules)
        self._kept = BoundedCache[AccessVerdict](_MOST_BYTES)
        self._concerning = BoundedCache[tuple[AccessRule, ...]](_MOST_BYTES)

    def verdict(self, principal: str, right: AccessRight, resource: Resource) -> AccessVerdict:
        """Return the verdict of the rules on a request."""
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
        """Return whether a rule allows a right to any resource of a kind, whatever is denied by name."""
        return not self.rules or any(
            rule.allows and right in rule.rights and rule.kind in (None, kind) and matches(rule.principal, principal)
            for rule in self.rules
        )

    def _rules_of(self, principal: str, right: AccessRight, kind: ResourceKind) -> tuple[AccessRule, ...]:
        """Return the rules on a principal's right to a kind, whatever the resource's name."""
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


def stored_rules(tx: Transaction) -> list[AccessRule]:
    """Return all rules of the database, in the order they were added. Raises InvalidRule."""
    return [parse_rule(rule, PLACE) for rule, _, _ in tx.rows("access", "access_rules")]


def add_rules(tx: Transaction, rules: Iterable[AccessRule], by: str, now_ms: int) -> int:
    """Add rules; return how many are new."""
    return sum(tx.change("access", "access_rule_add", rule=str(each), added_by=by, added_ms=now_ms) for each in rules)


def remove_rules(tx: Transaction, rules: Iterable[AccessRule]) -> int:
    """Remove rules; return how many existed."""
    return sum(tx.change("access", "access_rule_remove", rule=str(each)) for each in rules)
