"""Rules, `allow|deny PRINCIPAL ACTIONS KIND NAME`, and the verdict of all of them on a request.

| word      | is                                                                                     |
|-----------|----------------------------------------------------------------------------------------|
| effect    | `allow` or `deny`                                                                      |
| principal | a name, a prefix `team-*`, or `*`; `anonymous` is a client without a credential        |
| actions   | some of read, write, create, delete, alter, describe, joined by commas, or `*`         |
| kind      | topic, group, transaction, cluster, or `*`                                             |
| name      | a name, a prefix `orders.*`, or `*`; the cluster and the kind `*` have none             |

A `*` is special at the end of a word only: `pay` does not match `payments`. Names are case-sensitive. Read,
write, alter and delete each include describe.

Deny wins, and no principal may without a rule that allows; without any rule at all every principal may do
everything. A set of rules never changes: a change makes another set, which replaces the first in one step, so
that no request sees parts of both. Verdicts are cached, within a bound of bytes. A principal without a rule on
a kind is refused before the name is looked at, so names that strangers make up are not cached at all.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from penstock.database.database import Transaction
from penstock.errors import InvalidRule

from .resource import AccessRight, Resource, ResourceKind

V = TypeVar("V")
PLACE = "database"  # of the rules that processes share, and of the ACLs that Kafka clients set
_MOST_BYTES = 8 * 1024 * 1024  # of cached verdicts; a full cache starts anew
_LONGEST = 300  # characters of a name, in a rule or cached
_ENTRY_BYTES, _CHARACTER_BYTES = 400, 4  # of an entry beside its names, and of a character at most
ANY = "*"
_DESCRIBING = frozenset({AccessRight.READ, AccessRight.WRITE, AccessRight.ALTER, AccessRight.DELETE})


class AccessRule(NamedTuple):
    """A rule, and its place in a file."""

    allows: bool
    principal: str
    rights: frozenset[AccessRight]
    kind: ResourceKind | None  # None: every kind
    name: str
    place: str = ""  # `access.toml:12`, `database`

    def concerns(self, principal: str, right: AccessRight, kind: ResourceKind) -> bool:
        """Return whether the rule applies to a request on a resource of a kind, whatever its name is."""
        return bool(
            (right in self.rights or (self.allows and right is AccessRight.DESCRIBE and self.rights & _DESCRIBING))
            and (self.kind is None or self.kind is kind)
            and matches(self.principal, principal)
        )

    def parts(self) -> list["AccessRule"]:
        """Return equivalent rules, each of one kind, and of one action or all."""
        kinds = [self.kind] if self.kind is not None else list(ResourceKind)
        single = [frozenset({each}) for each in AccessRight if each in self.rights]
        rights = [self.rights] if len(single) == len(AccessRight) else single
        return [self._replace(kind=kind, rights=some) for kind in kinds for some in rights]

    def __str__(self) -> str:
        rights = ANY if len(self.rights) == len(AccessRight) else ",".join(r for r in AccessRight if r in self.rights)
        words = ["allow" if self.allows else "deny", self.principal, rights, self.kind or ANY]
        if self.kind not in (None, ResourceKind.CLUSTER):
            words.append(self.name)
        return " ".join(words)


def matches(pattern: str, name: str) -> bool:
    """Return whether a name equals a pattern, or begins like it before the `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith(ANY) else name == pattern


def parse_rule(text: str, place: str = "") -> AccessRule:
    """Parse a rule. Raises InvalidRule."""
    words = text.split()
    if len(words) < 4 or words[0] not in ("allow", "deny"):
        raise InvalidRule(text, place, "a rule is: allow|deny PRINCIPAL ACTIONS KIND NAME")
    effect, principal, actions, kind, *names = words
    given = list(AccessRight) if actions == ANY else actions.split(",")
    for action in given:
        if action not in list(AccessRight):
            raise InvalidRule(text, place, f"no action {action!r}; there are {', '.join(AccessRight)} and *")
    if kind not in (ANY, *ResourceKind):
        raise InvalidRule(text, place, f"no kind {kind!r}; there are {', '.join(ResourceKind)} and *")
    found = None if kind == ANY else ResourceKind(kind)
    if found in (None, ResourceKind.CLUSTER):
        if names and names != [ANY]:
            raise InvalidRule(text, place, f"{kind} has no name; leave {' '.join(names)} out")
        names = [ANY]
    if len(names) != 1:
        raise InvalidRule(text, place, f"it needs one name of a {kind}, a prefix such as orders.*, or *")
    for word in (principal, names[0]):
        if ANY in word[:-1] or len(word) > _LONGEST:
            raise InvalidRule(text, place, f"{word[:_LONGEST]}: a * stands at the end only")
        if not word.isprintable():
            raise InvalidRule(text, place, "a name has a character that cannot be seen")
    return AccessRule(effect == "allow", principal, frozenset(map(AccessRight, given)), found, names[0], place)


class AccessVerdict(NamedTuple):
    """Whether a request is allowed, by which rule, and why in words."""

    allowed: bool
    rule: AccessRule | None
    why: str


class _BoundedCache(Generic[V]):
    """Values by keys whose names have a length. Clears itself when full. Safe from any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.bytes = most_bytes, 0
        self._values: dict[Hashable, V] = {}

    def get(self, key: Hashable) -> V | None:
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
        self._kept = _BoundedCache[AccessVerdict](_MOST_BYTES)
        self._concerning = _BoundedCache[tuple[AccessRule, ...]](_MOST_BYTES)

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
