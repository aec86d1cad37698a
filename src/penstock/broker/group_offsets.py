"""The offsets of groups: committed by their members, or by any client while a group has none."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.delivery.client_cursors import ClientCommit, ClientPlace
from penstock.errors import Error
from penstock.wire.kafka.apis.groups import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Refused, Reply, RequestHandler
from .coordinator import Coordinator, HeldGroup, checked
from .error_codes import number_of
from .group import GroupState

if TYPE_CHECKING:
    from .broker import Broker

METADATA_CHARACTERS = 4096
_FIRST_WITH_GROUPS = 8
_NOWHERE = -1


class GroupOffsets:
    """Answers requests to commit and fetch offsets. Lives in the loop's thread."""

    def __init__(self, broker: "Broker", groups: Coordinator) -> None:
        self._broker, self._groups = broker, groups

    def handlers(self) -> dict[int, RequestHandler]:
        """Return the handler of each request."""
        return {OFFSET_COMMIT.key: self.commit, OFFSET_FETCH.key: self.fetch, OFFSET_DELETE.key: self.delete}

    # -- committing

    async def commit(self, call: ClientCall) -> Reply:
        """Store the offsets of a group."""
        body = call.body
        commits, numbers = await self.sort_out(call)
        try:
            if commits and body["generation_id_or_member_epoch"] < 0:
                held = await self._groups.find(call, body["group_id"])
            else:  # from a member, or without a valid offset: no reason to create a group
                held = await self._groups.find_known(call, body["group_id"])
            self._check_member(held, body)
            number = await self._store(held, commits) if commits else E.NONE
        except Refused as exc:
            number = exc.number
        return {"topics": await answered(call, numbers, number)}

    async def sort_out(self, call: ClientCall) -> tuple[dict[ClientPlace, ClientCommit], dict[tuple[str, int], E]]:
        """Return the valid commits, and the error numbers of the others."""
        commits: dict[ClientPlace, ClientCommit] = {}
        numbers: dict[tuple[str, int], E] = {}
        async for each in call.each(call.body["topics"]):
            name = each["name"]
            topic = self._broker.topics.by_name.get(name)
            may = call.may(AccessRight.READ, resource.topic(name))
            async for one in call.each(each["partitions"]):
                partition, metadata = one["partition_index"], _text(one["committed_metadata"])
                if not may:
                    numbers[name, partition] = E.TOPIC_AUTHORIZATION_FAILED
                elif topic is None or not 0 <= partition < topic.partitions:
                    numbers[name, partition] = E.UNKNOWN_TOPIC_OR_PARTITION
                elif metadata is not None and len(metadata) > METADATA_CHARACTERS:
                    numbers[name, partition] = E.OFFSET_METADATA_TOO_LARGE
                elif one["committed_offset"] < 0 or "\0" in (metadata or ""):
                    numbers[name, partition] = E.INVALID_REQUEST
                else:
                    commit = ClientCommit(one["committed_offset"], metadata, one["committed_leader_epoch"])
                    commits[ClientPlace(topic.id, partition)] = commit
        return commits, numbers

    def _check_member(self, held: HeldGroup, body: Message) -> None:
        """Raise Refused unless the client belongs to the group, or the group has no members."""
        group, id = held.group, body["member_id"]
        generation = body["generation_id_or_member_epoch"]
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        member = checked(group, id, body["group_instance_id"], generation)
        if group.state is GroupState.COMPLETING:
            raise Refused(E.REBALANCE_IN_PROGRESS)
        member.deadline = self._broker.clock.monotonic() + member.session_ms / 1000

    async def _store(self, held: HeldGroup, commits: Mapping[ClientPlace, ClientCommit]) -> E:
        try:
            if await self._broker.run(partial(self._groups.store.commit, held.hold, commits)):
                return E.NONE
        except Error:
            return E.COORDINATOR_NOT_AVAILABLE
        self._groups.drop(held)
        return E.NOT_COORDINATOR

    # -- fetching

    async def fetch(self, call: ClientCall) -> Reply:
        """Return the offsets of groups."""
        body = call.body
        stable = body["require_stable"]
        if call.version < _FIRST_WITH_GROUPS:
            return await self._fetch(call, body["group_id"], body["topics"], stable)
        groups = []
        async for each in call.each(body["groups"]):
            found = await self._fetch(call, each["group_id"], each["topics"], stable)
            groups.append({"group_id": each["group_id"], **found})
        return {"groups": groups}

    async def _fetch(self, call: ClientCall, name: str, wanted: list[Message] | None, stable: bool) -> Message:
        number = E.NONE
        if not name:
            number = E.INVALID_GROUP_ID
        elif not call.may(AccessRight.DESCRIBE, resource.group(name)):
            number = E.GROUP_AUTHORIZATION_FAILED
        elif self._broker.is_stopping or not self._broker.cluster.is_mine(name):
            number = E.NOT_COORDINATOR
        else:
            try:
                known, open_places = await self._broker.run(partial(self._groups.store.committed, name))
                unstable = open_places if stable else set()
                return {"topics": await self._places(call, wanted, known, unstable)}
            except Error as exc:
                number = number_of(exc, OFFSET_FETCH.key)
        return {"error_code": int(number), "topics": await _all_failed(call, wanted, number)}

    async def _places(
        self,
        call: ClientCall,
        wanted: list[Message] | None,
        known: Mapping[ClientPlace, ClientCommit],
        unstable: set[ClientPlace],
    ) -> list[Message]:
        topics = self._broker.topics
        if wanted is None:
            by_topic: dict[str, list[int]] = {}
            async for topic_id, partition in call.each(sorted(known)):
                topic = topics.by_id.get(topic_id)
                if topic is not None and call.sees(resource.topic(topic.name)):
                    by_topic.setdefault(topic.name, []).append(partition)
            wanted = [{"name": name, "partition_indexes": some} for name, some in by_topic.items()]
        found = []
        async for each in call.each(wanted):
            name, topic = each["name"], topics.by_name.get(each["name"])
            if not call.may(AccessRight.DESCRIBE, resource.topic(name)):
                found += await _all_failed(call, [each], E.TOPIC_AUTHORIZATION_FAILED)
                continue
            partitions = []
            async for partition in call.each(each["partition_indexes"]):
                place = ClientPlace(-1 if topic is None else topic.id, partition)
                commit = known.get(place)
                answer: Message = {
                    "partition_index": partition,
                    "committed_offset": _NOWHERE if commit is None else commit.offset,
                    "committed_leader_epoch": -1 if commit is None else commit.leader_epoch,
                    "metadata": "" if commit is None else commit.metadata or "",
                }
                if place in unstable:
                    answer |= {"error_code": int(E.UNSTABLE_OFFSET_COMMIT), "committed_offset": _NOWHERE}
                partitions.append(answer)
            found.append({"name": name, "partitions": partitions})
        return found

    # -- deleting

    async def delete(self, call: ClientCall) -> Reply:
        """Delete the offsets of a group without members in some partitions."""
        body = call.body
        try:
            self._groups.check(call, body["group_id"], AccessRight.DELETE)
            if not await self._broker.run(partial(self._groups.store.is_known, body["group_id"])):
                raise Refused(E.GROUP_ID_NOT_FOUND)
            held = await self._groups.find(call, body["group_id"], AccessRight.DELETE)
        except Refused as exc:
            return {"error_code": int(exc.number)}
        is_used = held.group.state is not GroupState.EMPTY
        topics, places = [], []
        async for each in call.each(body["topics"]):
            topic = self._broker.topics.by_name.get(each["name"])
            number = E.GROUP_SUBSCRIBED_TO_TOPIC if is_used else E.NONE
            if not call.may(AccessRight.READ, resource.topic(each["name"])):
                number = E.TOPIC_AUTHORIZATION_FAILED
            elif topic is None:
                number = E.UNKNOWN_TOPIC_OR_PARTITION
            elif not is_used:
                places += [ClientPlace(topic.id, one["partition_index"]) async for one in call.each(each["partitions"])]
            partitions = [
                {"partition_index": one["partition_index"], "error_code": int(number)}
                async for one in call.each(each["partitions"])
            ]
            topics.append({"name": each["name"], "partitions": partitions})
        if not await self._broker.run(partial(self._groups.store.forget, held.hold, places)):
            self._groups.drop(held)
            return {"error_code": int(E.NOT_COORDINATOR)}
        return {"topics": topics}


def _text(metadata: str | None) -> str | None:
    """Return a client's metadata without a trailing zero byte: Confluent's Python client sends one."""
    return None if metadata is None else metadata.removesuffix("\0")


async def answered(call: ClientCall, numbers: Mapping[tuple[str, int], E], rest: E) -> list[Message]:
    """Return a number for every partition that a request names."""
    return [
        {
            "name": each["name"],
            "partitions": [
                {
                    "partition_index": one["partition_index"],
                    "error_code": int(numbers.get((each["name"], one["partition_index"]), rest)),
                }
                async for one in call.each(each["partitions"])
            ],
        }
        async for each in call.each(call.body["topics"])
    ]


async def _all_failed(call: ClientCall, wanted: list[Message] | None, number: E) -> list[Message]:
    return [
        {
            "name": each["name"],
            "partitions": [
                {"partition_index": partition, "committed_offset": _NOWHERE, "metadata": "", "error_code": int(number)}
                async for partition in call.each(each["partition_indexes"])
            ],
        }
        async for each in call.each(wanted or ())
    ]
