"""The ACL calls: rules listed, added to the database and removed from it, as Kafka's ACLs.

| ACL                              | rule                                                                  |
|----------------------------------|-----------------------------------------------------------------------|
| `User:NAME`, `User:*`            | the principal                                                         |
| topic, group, cluster, transactional id | the kind; the cluster is called `kafka-cluster`                |
| literal, prefixed                | a name, a name with a `*` at its end; literal `*` is every name       |
| All, Read, Write, Create, Delete, Alter, Describe | the action                                           |
| DescribeConfigs, AlterConfigs, IdempotentWrite | describe, alter, write                                  |
| host                             | only `*`: rules do not know addresses                                 |

Rules of the access file are listed too, but only the file changes them. A change is refused if the caller
could not change rules any more afterwards: it would lock the door from inside. So is one that leaves no rule
at all, which would open every door.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from penstock.access.resource import CLUSTER, AccessRight, ResourceKind
from penstock.access.rule import ANY, PLACE, AccessRule, RuleSet, matches, parse_rule
from penstock.errors import Error, InvalidRule
from penstock.wire.kafka.apis.security import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Reply, RequestHandler
from .core import BrokerCore
from .error_codes import error_fields

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
_ALTERING = "it needs the right to alter the cluster"
_REFUSED: Message = {"error_code": E.CLUSTER_AUTHORIZATION_FAILED, "error_message": _ALTERING}
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
    principal, permission = _USER + rule.principal, _ALLOW if rule.allows else _DENY
    return Acl(_KIND_NUMBERS[rule.kind], name, pattern, principal, _EVERYWHERE, operation, permission)


def rule_of(asked: Message, place: str) -> AccessRule:
    """Return the rule for an ACL to be created. Raises InvalidRule if no rule can express it."""
    kind, name = _KINDS.get(asked["resource_type"]), asked["resource_name"]
    pattern, operation = asked["resource_pattern_type"], asked["operation"]
    principal, line = asked["principal"], f"{asked['principal']} {name}"
    if kind is None or pattern not in (_LITERAL, _PREFIXED) or asked["permission_type"] not in (_DENY, _ALLOW):
        raise InvalidRule(line, place, "only topics, groups, the cluster and transactional ids have rules")
    if operation != _ALL and operation not in _RIGHTS:
        raise InvalidRule(line, place, "no action here is that operation")
    if asked["host"] != _EVERYWHERE:
        raise InvalidRule(line, place, "rules do not know addresses; the host must be *")
    if not principal.startswith(_USER) or len(principal) == len(_USER):
        raise InvalidRule(line, place, "a principal is User:NAME")
    if len(f"{principal} {name}".split()) > 2:
        raise InvalidRule(line, place, "a name with a space can be meant by a prefix only")
    if kind is ResourceKind.CLUSTER:
        name = ""
    elif pattern == _PREFIXED:
        name += ANY
    elif name.endswith(ANY) and name != ANY:
        raise InvalidRule(line, place, "a literal name ends in no *; say that it is a prefix")
    effect = "allow" if asked["permission_type"] == _ALLOW else "deny"
    action = ANY if operation == _ALL else _RIGHTS[operation].value
    return parse_rule(f"{effect} {principal[len(_USER) :]} {action} {kind} {name}", place)


def _fits(acl: Acl, wanted: Message) -> bool:
    name, pattern = wanted["resource_name_filter"], wanted["pattern_type_filter"]
    if pattern == _MATCH and name is not None:
        is_named = matches(acl.resource_name + ANY if acl.pattern_type == _PREFIXED else acl.resource_name, name)
    else:
        is_named = pattern in (_ANY, _MATCH, acl.pattern_type) and name in (None, acl.resource_name)
    return (
        is_named
        and wanted["resource_type_filter"] in (_ANY, acl.resource_type)
        and wanted["principal_filter"] in (None, acl.principal)
        and wanted["host_filter"] in (None, acl.host)
        and wanted["operation"] in (_ANY, acl.operation)
        and wanted["permission_type"] in (_ANY, acl.permission_type)
    )


def by_resource(acls: list[Acl]) -> Iterator[Message]:
    """Yield ACLs grouped by resource, as answers list them."""
    resources: dict[tuple[int, str, int], list[Message]] = {}
    for acl in dict.fromkeys(acls):
        resources.setdefault(acl[:3], []).append(acl._asdict())  # with fields that the answer does not have here
    for (kind, name, pattern), found in resources.items():
        yield {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": found}


class Acls:
    """Answers the ACL calls. Lives in the loop's thread; the pool asks the store."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self.handlers: dict[int, RequestHandler] = {
            DESCRIBE_ACLS.key: self.describe,
            CREATE_ACLS.key: self.create,
            DELETE_ACLS.key: self.delete,
        }

    async def describe(self, call: ClientCall) -> Reply:
        """Return the rules that pass a filter."""
        call.check(AccessRight.DESCRIBE, CLUSTER)
        acls = [
            acl
            async for rule in call.each(self._broker.access.rules)
            for part in rule.parts()
            if _fits(acl := acl_of(part), call.body)
        ]
        return {"resources": list(by_resource(acls))}

    async def create(self, call: ClientCall) -> Reply:
        """Add valid rules to the database; each gets an answer of its own."""
        asked = call.body["creations"]
        if not call.may(AccessRight.ALTER, CLUSTER):
            return {"results": [_REFUSED] * len(asked)}
        results: list[Message] = []
        rules: list[AccessRule] = []
        async for each in call.each(asked):
            try:
                rules.append(rule_of(each, PLACE))
                results.append({})
            except InvalidRule as exc:
                results.append(error_fields(exc))
        try:
            self._check_door(call, (*self._broker.access.stored, *rules))
            await self._change(partial(self._broker.administration.add_rules, rules, call.principal.name))
        except Error as exc:
            results = [each or error_fields(exc) for each in results]
        return {"results": results}

    async def delete(self, call: ClientCall) -> Reply:
        """Remove the rules in the database that pass some filters."""
        asked = call.body["filters"]
        if not call.may(AccessRight.ALTER, CLUSTER):
            return {"filter_results": [_REFUSED] * len(asked)}
        stored = self._broker.access.stored
        acls = [(each, acl_of(each)) async for each in call.each(stored)]
        found = [
            [each async for each, acl in call.each(acls) if _fits(acl, wanted)] async for wanted in call.each(asked)
        ]
        going = {each for some in found for each in some}
        try:
            self._check_door(call, tuple(each for each in stored if each not in going))
            by, rules = call.principal.name, self._broker.access.rules
            last = any(each.place != PLACE for each in rules)  # the access file has some, too
            await self._change(partial(self._broker.administration.remove_rules, sorted(going, key=str), by, last=last))
        except Error as exc:
            return {"filter_results": [error_fields(exc)] * len(asked)}
        gone = [[acl_of(each)._asdict() for each in dict.fromkeys(some)] for some in found]
        return {"filter_results": [{"matching_acls": some} for some in gone]}

    def _check_door(self, call: ClientCall, stored: tuple[AccessRule, ...]) -> None:
        """Raise InvalidRule if the caller could not change rules any more."""
        access = self._broker.access
        rules = RuleSet((*access.rules[: len(access.rules) - len(access.stored)], *stored))
        if not rules.verdict(call.principal.name, AccessRight.ALTER, CLUSTER).allowed:
            line = f"allow {call.principal.name} alter cluster"
            raise InvalidRule(line, PLACE, "add this rule first, or you lock yourself out")

    async def _change(self, change: Callable[[], tuple[AccessRule, ...]]) -> None:
        """Change the rules in the database, and put them in force here at once."""
        self._broker.access.install(stored=await self._broker.run(change))
