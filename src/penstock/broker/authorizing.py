"""The ACL calls: rules listed, added to the database and removed from it.

Rules of the access file are listed too, but only the file changes them. A change is refused if the caller
could not change rules any more afterwards: it would lock the door from inside. So is one that leaves no rule
at all, which would open every door.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.access.resource import CLUSTER, AccessRight
from penstock.access.rule import AccessRule
from penstock.access.rule_set import RuleSet
from penstock.access.rule_store import PLACE
from penstock.errors import Error, InvalidRule
from penstock.wire.kafka.apis.security import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .acl import acl_of, by_resource, filter_of, rule_of
from .call import ClientCall, Reply, RequestHandler
from .error_codes import number_of

if TYPE_CHECKING:
    from .broker import Broker


class Authorizing:
    """Answers the ACL calls. Lives in the loop's thread; the pool asks the store."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def handlers(self) -> dict[int, RequestHandler]:
        """Return the handler of each request."""
        return {
            DESCRIBE_ACLS.key: self.describe,
            CREATE_ACLS.key: self.create,
            DELETE_ACLS.key: self.delete,
        }

    async def describe(self, call: ClientCall) -> Reply:
        """Return the rules that pass a filter."""
        call.check(AccessRight.DESCRIBE, CLUSTER)
        wanted = filter_of(call.body)
        acls = [
            acl
            async for rule in call.each(self._broker.access.rules)
            for part in rule.parts()
            if wanted.fits(acl := acl_of(part))
        ]
        return {"resources": list(by_resource(acls))}

    async def create(self, call: ClientCall) -> Reply:
        """Add valid rules to the database; each gets an answer of its own."""
        asked = call.body["creations"]
        if not call.may(AccessRight.ALTER, CLUSTER):
            return {"results": [_refused()] * len(asked)}
        results: list[Message] = []
        rules: list[AccessRule] = []
        async for each in call.each(asked):
            try:
                rules.append(rule_of(each, PLACE))
                results.append({})
            except InvalidRule as exc:
                results.append(_said(exc))
        stored = self._broker.access.stored
        try:
            self._check_door(call, (*stored, *rules))
            by = call.principal.name
            await self._change(partial(self._broker.administration.add_rules, rules, by))
        except Error as exc:
            results = [each or _said(exc) for each in results]
        return {"results": results}

    async def delete(self, call: ClientCall) -> Reply:
        """Remove the rules in the database that pass some filters."""
        asked = call.body["filters"]
        if not call.may(AccessRight.ALTER, CLUSTER):
            return {"filter_results": [_refused()] * len(asked)}
        filters = [filter_of(each) async for each in call.each(asked)]
        stored = self._broker.access.stored
        acls = [(each, acl_of(each)) async for each in call.each(stored)]
        found = [
            [each async for each, acl in call.each(acls) if wanted.fits(acl)]
            async for wanted in call.each(filters)
        ]
        going = {each for some in found for each in some}
        try:
            self._check_door(call, tuple(each for each in stored if each not in going))
            by, rules = call.principal.name, self._broker.access.rules
            last = any(each.place != PLACE for each in rules)  # the access file has some, too
            remove = self._broker.administration.remove_rules
            await self._change(partial(remove, sorted(going, key=str), by, last=last))
        except Error as exc:
            return {"filter_results": [_said(exc)] * len(filters)}
        return {
            "filter_results": [
                {"matching_acls": [acl_of(each)._asdict() for each in dict.fromkeys(some)]} for some in found
            ]
        }

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


def _refused() -> Message:
    return {
        "error_code": int(E.CLUSTER_AUTHORIZATION_FAILED),
        "error_message": "it needs the right to alter the cluster",
    }


def _said(error: Error) -> Message:
    return {"error_code": int(number_of(error)), "error_message": str(error)}
