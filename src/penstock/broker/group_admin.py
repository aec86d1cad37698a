"""Groups as operators see them: listed, described, deleted."""

from functools import partial

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.errors import Error
from penstock.wire.kafka.apis import groups as apis
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Refused, Reply, RequestHandler
from .coordinator import Coordinator
from .core import BrokerCore
from .error_codes import number_of
from .group import GroupState

_DEAD = "Dead"


class GroupAdmin:
    """Answers operators' requests on groups. Lives in the loop's thread."""

    def __init__(self, broker: BrokerCore, groups: Coordinator) -> None:
        self._broker, self._groups = broker, groups
        self.handlers: dict[int, RequestHandler] = {
            apis.LIST_GROUPS.key: self.list,
            apis.DESCRIBE_GROUPS.key: self.describe,
            apis.DELETE_GROUPS.key: self.delete,
        }

    async def list(self, call: ClientCall) -> Reply:
        """Return the groups that are coordinated here."""
        states = {each.lower() for each in call.body["states_filter"] or ()}
        found = []
        async for each in call.each(await self._broker.run(self._groups.store.listed)):
            if not self._broker.cluster.is_mine(each.name) or not call.sees(resource.group(each.name)):
                continue
            held = self._groups.held.get(each.name)
            stored = GroupState.STABLE if each.has_members else GroupState.EMPTY
            state = stored if held is None else held.group.state
            if not states or state.lower() in states:
                kind = each.protocol_type if held is None else held.group.protocol_type
                found.append({"group_id": each.name, "protocol_type": kind, "group_state": state.value})
        return {"groups": found}

    async def describe(self, call: ClientCall) -> Reply:
        """Return groups with their members."""
        return {"groups": [await self._described(call, name) async for name in call.each(call.body["groups"])]}

    async def _described(self, call: ClientCall, name: str) -> Message:
        try:
            # Check the right first: a caller without it must not learn whether the group exists.
            if not call.may(AccessRight.DESCRIBE, resource.group(name)):
                raise Refused(E.GROUP_AUTHORIZATION_FAILED)
            if not await self._groups.is_known(name):
                return {"group_id": name, "group_state": _DEAD}
            held = await self._groups.find(call, name, AccessRight.DESCRIBE)
        except Refused as exc:
            return {"group_id": name, "error_code": exc.number}
        group = held.group
        members = [
            {
                "member_id": each.id,
                "group_instance_id": each.instance_id,
                "client_id": each.client_id,
                "client_host": f"/{each.host}",
                "member_metadata": each.metadata(group.protocol),
                "member_assignment": each.assignment,
            }
            for each in group.members.values()
        ]
        return {
            "group_id": name,
            "group_state": group.state.value,
            "protocol_type": group.protocol_type,
            "protocol_data": group.protocol if group.state is GroupState.STABLE else "",
            "members": members,
        }

    async def delete(self, call: ClientCall) -> Reply:
        """Delete groups that have no members."""
        results = []
        async for name in call.each(call.body["groups_names"]):
            try:
                await self._delete(call, name)
                number = E.NONE
            except (Error, Refused) as exc:
                number = number_of(exc, apis.DELETE_GROUPS.key)
            results.append({"group_id": name, "error_code": number})
        return {"results": results}

    async def _delete(self, call: ClientCall, name: str) -> None:
        if not call.may(AccessRight.DELETE, resource.group(name)):
            raise Refused(E.GROUP_AUTHORIZATION_FAILED)
        if not await self._broker.run(partial(self._groups.store.is_known, name)):
            raise Refused(E.GROUP_ID_NOT_FOUND)
        held = await self._groups.find(call, name, AccessRight.DELETE)
        if held.group.state is not GroupState.EMPTY:
            raise Refused(E.NON_EMPTY_GROUP)
        self._groups.drop(held)
        await self._broker.run(partial(self._groups.store.delete, held.hold))
        await self._broker.run(partial(self._broker.administration.delete_group, name))
