"""One rule: `allow|deny PRINCIPAL ACTIONS KIND NAME`.

| word      | is                                                                                     |
|-----------|----------------------------------------------------------------------------------------|
| effect    | `allow` or `deny`                                                                      |
| principal | a name, a prefix `team-*`, or `*`; `anonymous` is a client without a credential        |
| actions   | some of read, write, create, delete, alter, describe, joined by commas, or `*`         |
| kind      | topic, group, transaction, cluster, or `*`                                             |
| name      | a name, a prefix `orders.*`, or `*`; the cluster and the kind `*` have none             |

A `*` is special at the end of a word only: `pay` does not match `payments`. Names are case-sensitive. Read,
write, alter and delete each include describe.
"""

from typing import NamedTuple

from penstock.errors import InvalidRule

from .resource import AccessRight, ResourceKind

ANY = "*"
_RIGHTS = {each.value: each for each in AccessRight}
_DESCRIBING = frozenset({AccessRight.READ, AccessRight.WRITE, AccessRight.ALTER, AccessRight.DELETE})
_LONGEST = 300  # characters of a name


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
        return (
            (right in self.rights or (self.allows and right is AccessRight.DESCRIBE and self._describes))
            and (self.kind is None or self.kind is kind)
            and matches(self.principal, principal)
        )

    def parts(self) -> list["AccessRule"]:
        """Return equivalent rules, each of one kind, and of one action or all."""
        kinds = [self.kind] if self.kind is not None else list(ResourceKind)
        single = [frozenset({each}) for each in AccessRight if each in self.rights]
        rights = [self.rights] if len(single) == len(AccessRight) else single
        return [self._replace(kind=kind, rights=some) for kind in kinds for some in rights]

    @property
    def _describes(self) -> bool:
        return bool(self.rights & _DESCRIBING)

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
    rights = frozenset(AccessRight) if actions == ANY else _rights(text, place, actions)
    found = None if kind == ANY else _kind(text, place, kind)
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
    return AccessRule(effect == "allow", principal, rights, found, names[0], place)


def _rights(text: str, place: str, actions: str) -> frozenset[AccessRight]:
    unknown = [each for each in actions.split(",") if each not in _RIGHTS]
    if unknown:
        raise InvalidRule(text, place, f"no action {unknown[0]!r}; there are {', '.join(_RIGHTS)} and *")
    return frozenset(_RIGHTS[each] for each in actions.split(","))


def _kind(text: str, place: str, kind: str) -> ResourceKind:
    try:
        return ResourceKind(kind)
    except ValueError:
        kinds = ", ".join(ResourceKind)
        raise InvalidRule(text, place, f"no kind {kind!r}; there are {kinds} and *") from None
