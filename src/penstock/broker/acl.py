"""Translates between Kafka's ACLs and Penstock's rules.

| ACL                              | rule                                                                  |
|----------------------------------|-----------------------------------------------------------------------|
| `User:NAME`, `User:*`            | the principal                                                         |
| topic, group, cluster, transactional id | the kind; the cluster is called `kafka-cluster`                |
| literal, prefixed                | a name, a name with a `*` at its end; literal `*` is every name       |
| All, Read, Write, Create, Delete, Alter, Describe | the action                                           |
| DescribeConfigs, AlterConfigs, IdempotentWrite | describe, alter, write                                  |
| host                             | only `*`: rules do not know addresses                                 |
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.access.resource import AccessRight, ResourceKind
from penstock.access.rule import ANY, AccessRule, matches, parse_rule
from penstock.errors import InvalidRule
from penstock.wire.kafka.layout import Message

CLUSTER_NAME = "kafka-cluster"
_USER, _EVERYWHERE = "User:", "*"
_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4
_DENY, _ALLOW = 2, 3
_ALL = 2
_KINDS = {2: ResourceKind.TOPIC, 3: ResourceKind.GROUP, 4: ResourceKind.CLUSTER, 5: ResourceKind.TRANSACTION}
_RIGHTS = {
    3: AccessRight.READ,
    4: AccessRight.WRITE,
    5: AccessRight.CREATE,
    6: AccessRight.DELETE,
    7: AccessRight.ALTER,
    8: AccessRight.DESCRIBE,
    10: AccessRight.DESCRIBE,
    11: AccessRight.ALTER,
    12: AccessRight.WRITE,
}
_KIND_NUMBERS = {kind: number for number, kind in _KINDS.items()}
_RIGHT_NUMBERS = {right: number for number, right in reversed(_RIGHTS.items())}


class Acl(NamedTuple):
    """One ACL."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


def acl_of(rule: AccessRule) -> Acl:
    """Return a rule of one kind, and of one action or all (`AccessRule.parts`), as an ACL."""
    assert rule.kind is not None
    name, pattern = rule.name, _LITERAL
    if rule.kind is ResourceKind.CLUSTER:
        name = CLUSTER_NAME
    elif name.endswith(ANY) and name != ANY:
        name, pattern = name[:-1], _PREFIXED
    operation = _ALL if len(rule.rights) > 1 else _RIGHT_NUMBERS[next(iter(rule.rights))]
    return Acl(
        _KIND_NUMBERS[rule.kind],
        name,
        pattern,
        _USER + rule.principal,
        _EVERYWHERE,
        operation,
        _ALLOW if rule.allows else _DENY,
    )


def rule_of(asked: Message, place: str) -> AccessRule:
    """Return the rule for an ACL to be created. Raises InvalidRule if no rule can express it."""
    kind, name = _KINDS.get(asked["resource_type"]), asked["resource_name"]
    pattern, operation = asked["resource_pattern_type"], asked["operation"]
    principal, said = asked["principal"], f"{asked['principal']} {name}"
    if (
        kind is None
        or pattern not in (_LITERAL, _PREFIXED)
        or asked["permission_type"] not in (_DENY, _ALLOW)
    ):
        raise InvalidRule(said, place, "only topics, groups, the cluster and transactional ids have rules")
    if operation != _ALL and operation not in _RIGHTS:
        raise InvalidRule(said, place, "no action here is that operation")
    if asked["host"] != _EVERYWHERE:
        raise InvalidRule(said, place, "rules do not know addresses; the host must be *")
    if not principal.startswith(_USER) or len(principal) == len(_USER):
        raise InvalidRule(said, place, "a principal is User:NAME")
    if len(f"{principal} {name}".split()) > 2:
        raise InvalidRule(said, place, "a name with a space can be meant by a prefix only")
    if kind is ResourceKind.CLUSTER:
        name = ""
    elif pattern == _PREFIXED:
        name += ANY
    elif name.endswith(ANY) and name != ANY:
        raise InvalidRule(said, place, "a literal name ends in no *; say that it is a prefix")
    effect = "allow" if asked["permission_type"] == _ALLOW else "deny"
    action = ANY if operation == _ALL else _RIGHTS[operation].value
    return parse_rule(f"{effect} {principal[len(_USER) :]} {action} {kind} {name}", place)


class AclFilter(NamedTuple):
    """A filter on ACLs."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def fits(self, acl: Acl) -> bool:
        """Return whether an ACL passes the filter."""
        return (
            self.resource_type in (_ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (_ANY, acl.operation)
            and self.permission_type in (_ANY, acl.permission_type)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern_type == _MATCH and self.resource_name is not None:
            pattern = acl.resource_name + ANY if acl.pattern_type == _PREFIXED else acl.resource_name
            return matches(pattern, self.resource_name)
        return self.pattern_type in (_ANY, _MATCH, acl.pattern_type) and self.resource_name in (
            None,
            acl.resource_name,
        )


def filter_of(asked: Message) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        asked["resource_type_filter"],
        asked["resource_name_filter"],
        asked["pattern_type_filter"],
        asked["principal_filter"],
        asked["host_filter"],
        asked["operation"],
        asked["permission_type"],
    )


def by_resource(acls: list[Acl]) -> Iterator[Message]:
    """Yield ACLs grouped by resource, as answers list them."""
    resources: dict[tuple[int, str, int], list[Message]] = {}
    for acl in dict.fromkeys(acls):
        resources.setdefault(acl[:3], []).append(
            {
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission_type,
            }
        )
    for (kind, name, pattern), found in resources.items():
        yield {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": found}
