"""The offsets of groups: committed by their members, or by any client while a group has none."""

from collections.abc import Mapping
from functools import partial

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.delivery.client_cursors import ClientCommit, ClientPlace
from penstock.errors import Error
from penstock.wire.kafka.apis import groups as apis
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import ClientCall, Refused, Reply, RequestHandler
from .coordinator import Coordinator, HeldGroup, checked
from .core import BrokerCore
from .error_codes import number_of
from .group import GroupState

METADATA_CHARACTERS = 4096
_FIRST_WITH_GROUPS = 8
_NOWHERE = -1
_NOTHING = ClientCommit(_NOWHERE, None, -1)


class GroupOffsets:
    """Answers requests to commit and fetch offsets. Lives in the loop's thread."""

    def __init__(self, broker: BrokerCore, groups: Coordinator) -> None:
        self._broker, self._groups = broker, groups
        self.handlers: dict[int, RequestHandler] = {
            apis.OFFSET_COMMIT.key: self.commit,
            apis.OFFSET_FETCH.key: self.fetch,
            apis.OFFSET_DELETE.key: self.delete,
        }

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
            may = call.may(AccessRight.READ, resource.topic(name))
            async for one in call.each(each["partitions"]):
                partition, metadata = one["partition_index"], one["committed_metadata"]
                if metadata is not None:  # Confluent's Python client sends a trailing zero byte
                    metadata = metadata.removesuffix("\0")
                topic = self._broker.topics.having(name, partition)
                if not may:
                    numbers[name, partition] = E.TOPIC_AUTHORIZATION_FAILED
                elif topic is None:
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
        group, generation = held.group, body["generation_id_or_member_epoch"]
        if generation < 0 and group.state is GroupState.EMPTY:
            return
        member = checked(group, body["member_id"], body["group_instance_id"], generation)
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

    async def fetch(self, call: ClientCall) -> Reply:
        """Return the offsets of groups."""
        body, stable = call.body, call.body["require_stable"]
        if call.version < _FIRST_WITH_GROUPS:
            return await self._fetch(call, body["group_id"], body["topics"], stable)
        groups = []
        async for each in call.each(body["groups"]):
            found = await self._fetch(call, each["group_id"], each["topics"], stable)
            groups.append({"group_id": each["group_id"], **found})
        return {"groups": groups}

    async def _fetch(self, call: ClientCall, name: str, wanted: list[Message] | None, stable: bool) -> Message:
        try:
            self._groups.check(call, name, AccessRight.DESCRIBE)
            known, open_places = await self._broker.run(partial(self._groups.store.committed, name))
            return {"topics": await self._places(call, wanted, known, open_places if stable else set())}
        except (Error, Refused) as exc:
            number = number_of(exc, apis.OFFSET_FETCH.key)
        return {"error_code": number, "topics": await _all_failed(call, wanted, number)}

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
                offset, metadata, leader_epoch = known.get(place, _NOTHING)
                answer: Message = {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": leader_epoch,
                    "metadata": metadata or "",
                }
                if place in unstable:
                    answer |= {"error_code": int(E.UNSTABLE_OFFSET_COMMIT), "committed_offset": _NOWHERE}
                partitions.append(answer)
            found.append({"name": name, "partitions": partitions})
        return found

    async def delete(self, call: ClientCall) -> Reply:
        """Delete the offsets of a group without members in some partitions."""
        body = call.body
        self._groups.check(call, body["group_id"], AccessRight.DELETE)
        if not await self._broker.run(partial(self._groups.store.is_known, body["group_id"])):
            raise Refused(E.GROUP_ID_NOT_FOUND)
        held = await self._groups.find(call, body["group_id"], AccessRight.DELETE)
        is_used = held.group.state is not GroupState.EMPTY
        numbers: dict[tuple[str, int], E] = {}
        places = []
        async for each in call.each(body["topics"]):
            name, topic = each["name"], self._broker.topics.by_name.get(each["name"])
            may = call.may(AccessRight.READ, resource.topic(name))
            async for one in call.each(each["partitions"]):
                partition = one["partition_index"]
                if not may:
                    numbers[name, partition] = E.TOPIC_AUTHORIZATION_FAILED
                elif topic is None:
                    numbers[name, partition] = E.UNKNOWN_TOPIC_OR_PARTITION
                elif not is_used:
                    places.append(ClientPlace(topic.id, partition))
        if not await self._broker.run(partial(self._groups.store.forget, held.hold, places)):
            self._groups.drop(held)
            raise Refused(E.NOT_COORDINATOR)
        return {"topics": await answered(call, numbers, E.GROUP_SUBSCRIBED_TO_TOPIC if is_used else E.NONE)}


async def answered(call: ClientCall, numbers: Mapping[tuple[str, int], E], rest: E) -> list[Message]:
    """Return a number for every partition that a request names."""
    topics = []
    async for each in call.each(call.body["topics"]):
        name = each["name"]
        partitions = [
            {"partition_index": (at := one["partition_index"]), "error_code": numbers.get((name, at), rest)}
            async for one in call.each(each["partitions"])
        ]
        topics.append({"name": name, "partitions": partitions})
    return topics


async def _all_failed(call: ClientCall, wanted: list[Message] | None, number: E) -> list[Message]:
    failed = {"committed_offset": _NOWHERE, "metadata": "", "error_code": number}
    topics = []
    async for each in call.each(wanted or ()):
        partitions = [{"partition_index": at, **failed} async for at in call.each(each["partition_indexes"])]
        topics.append({"name": each["name"], "partitions": partitions})
    return topics
