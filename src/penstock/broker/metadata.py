"""Answers about versions, brokers, topics, coordinators, and the offsets of partitions."""

import re
from functools import partial
from typing import Any

from penstock.access import resource
from penstock.access.resource import CLUSTER, AccessRight
from penstock.errors import Error
from penstock.log.contract import OffsetRange, Topic
from penstock.model.limits import check_topic
from penstock.model.partition import KAFKA
from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.cluster import API_VERSIONS, DESCRIBE_CLUSTER, FIND_COORDINATOR
from penstock.wire.kafka.apis.records import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.stepwise import encode_element

from .call import ClientCall, Refused, Reply, RequestHandler
from .core import BrokerCore
from .error_codes import number_of
from .fetch import LEADER_EPOCH
from .slices import parts_of

_LATEST, _EARLIEST, _LATEST_TIME = -1, -2, -3
_COORDINATED = {  # by their kind: the resource of a name, and the answer to clients without a right to it
    0: (resource.group, ErrorNumber.GROUP_AUTHORIZATION_FAILED),
    1: (resource.transaction, ErrorNumber.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_NOWHERE: Message = {"offset": -1, "timestamp": -1, "leader_epoch": -1}
_BROKERS, _CONTROLLERS = 1, 2
_FIRST_WITH_SOFTWARE, _FIRST_WITHOUT_NAMES = 3, 12
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ClusterMetadata:
    """Answers requests that change nothing."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self._encoded: dict[tuple[str, int], bytes] = {}
        self._encoded_of = (-1, -1)  # the versions of the topics and of the brokers
        self.handlers: dict[int, RequestHandler] = {
            API_VERSIONS.key: self.api_versions,
            METADATA.key: self.metadata,
            DESCRIBE_CLUSTER.key: self.describe_cluster,
            FIND_COORDINATOR.key: self.find_coordinator,
            LIST_OFFSETS.key: self.list_offsets,
            OFFSET_FOR_LEADER_EPOCH.key: self.offset_for_leader_epoch,
        }

    # -- versions and brokers

    def own_versions(self) -> list[Message]:
        """Return the supported versions."""
        return [
            {"api_key": api.key, "min_version": api.versions[0], "max_version": api.versions[1]}
            for api in APIS.values()
        ]

    def api_versions(self, call: ClientCall) -> Reply:
        """Return the supported versions."""
        names = call.body["client_software_name"], call.body["client_software_version"]
        if call.version >= _FIRST_WITH_SOFTWARE and not all(_SOFTWARE.fullmatch(each) for each in names):
            raise Refused(ErrorNumber.INVALID_REQUEST)
        return {"api_keys": self.own_versions(), "supported_features": ()}

    def _brokers(self, name: str) -> list[Message]:
        return [
            {name: node.id, "host": node.host, "port": node.port, "rack": None} for node in self._broker.cluster.listed
        ]

    def describe_cluster(self, call: ClientCall) -> Reply:
        """Return the brokers."""
        call.check(AccessRight.DESCRIBE, CLUSTER)
        kind = call.body["endpoint_type"]
        if kind != _BROKERS:
            is_known = kind == _CONTROLLERS
            number = ErrorNumber.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorNumber.UNSUPPORTED_ENDPOINT_TYPE
            raise Refused(number, "there are brokers to ask about, and nothing else")
        return {
            "cluster_id": self._broker.topics.cluster_id,
            "controller_id": self._broker.cluster.nodes[0].id,
            "brokers": self._brokers("broker_id"),
        }

    async def find_coordinator(self, call: ClientCall) -> Reply:
        """Return the coordinators of groups or transactional ids."""
        kind = call.body["key_type"]
        if call.version < 4:
            return self._coordinator(call, kind, call.body["key"])
        return {
            "coordinators": [
                self._coordinator(call, kind, each) | {"key": each}
                async for each in call.each(call.body["coordinator_keys"])
            ]
        }

    def _coordinator(self, call: ClientCall, kind: int, name: str) -> Message:
        nowhere: Message = {"error_message": None, "node_id": -1, "host": "", "port": -1}
        if kind not in _COORDINATED:
            message = f"there are no coordinators of kind {kind}"
            return nowhere | {"error_code": ErrorNumber.INVALID_REQUEST, "error_message": message}
        made, refused = _COORDINATED[kind]
        if not call.may(AccessRight.DESCRIBE, made(name)):
            return nowhere | {"error_code": refused}
        node = self._broker.cluster.coordinator(name)
        return {"error_message": None, "node_id": node.id, "host": node.host, "port": node.port}

    # -- topics

    async def metadata(self, call: ClientCall) -> Reply:
        """Return topics with their partitions and leaders."""
        wanted = call.body["topics"]
        topics = self._broker.topics
        if wanted is None or (call.version == 0 and not wanted):
            found = [
                await self._topic(call, each)
                async for each in call.each(topics.by_name.values())
                if call.sees(resource.topic(each.name))
            ]
        else:
            found = await self._named(call, wanted)
        return {
            "brokers": self._brokers("node_id"),
            "cluster_id": topics.cluster_id,
            "controller_id": self._broker.cluster.nodes[0].id,
            "topics": found,
        }

    async def _named(self, call: ClientCall, wanted: list[Message]) -> list[Any]:
        topics = self._broker.topics
        asked: dict[tuple[str | None, bytes], Message] = {}
        missing: list[str] = []
        async for each in call.each(wanted):
            name = each["name"]
            asked[name, each["topic_id"].bytes] = each
            if name is not None and name not in topics.by_name and call.sees(resource.topic(name)):
                missing.append(name)
        if missing:  # only names the caller may know of: others cost no query
            await self._broker.refresh_topics()
            await self._create_missing(call, missing)
        found = []
        async for each in call.each(asked.values()):
            name = each["name"]
            topic = topics.by_uuid.get(each["topic_id"]) if name is None else topics.by_name.get(name)
            if topic is not None and not call.sees(resource.topic(topic.name)):
                topic = None  # answered like a missing one, and an id does not reveal a name
            if topic is None:
                found.append(self._unknown(call, name, each["topic_id"]))
            else:
                found.append(await self._topic(call, topic))
        return found

    async def _create_missing(self, call: ClientCall, names: list[str]) -> None:
        settings, topics = self._broker.settings, self._broker.topics
        if not settings.auto_create or not call.body["allow_auto_topic_creation"]:
            return
        missing = [
            name
            async for name in call.each(names)
            if name not in topics.by_name and call.may(AccessRight.CREATE, resource.topic(name)) and _is_valid(name)
        ]
        if missing:
            create = partial(self._broker.store.log.create_topic, partitions=settings.partitions, partitioner=KAFKA)
            await self._broker.run(lambda: [create(name) for name in missing])
            await self._broker.refresh_topics()

    async def _topic(self, call: ClientCall, topic: Topic) -> Any:
        """Return a topic, encoded; cached until topics or brokers change."""
        if not call.may(AccessRight.DESCRIBE, resource.topic(topic.name)):
            return {"error_code": ErrorNumber.TOPIC_AUTHORIZATION_FAILED, "name": topic.name, "partitions": ()}
        of = (self._broker.topics.version, self._broker.cluster.version)
        if of != self._encoded_of:
            self._encoded, self._encoded_of = {}, of
        known = self._encoded.get((topic.name, call.version))
        if known is None:
            encoded, described = self._encoded, await self._described(call, topic)
            known = await call.slices.run(encode_element(METADATA, "topics", described, call.version))
            encoded[topic.name, call.version] = known  # of the topics and brokers as read above
        return known

    async def _described(self, call: ClientCall, topic: Topic) -> Message:
        leader = self._broker.cluster.leader
        partitions = [
            {
                "partition_index": number,
                "leader_id": (node := leader(topic.id, number)),
                "leader_epoch": LEADER_EPOCH,
                "replica_nodes": (node,),
                "isr_nodes": (node,),
            }
            async for number in call.each(range(topic.partitions))
        ]
        uuid = self._broker.topics.uuid(topic)
        return {"name": topic.name, "topic_id": uuid, "is_internal": False, "partitions": partitions}

    def _unknown(self, call: ClientCall, name: str | None, uuid: Any) -> Message:
        number = ErrorNumber.UNKNOWN_TOPIC_OR_PARTITION
        if name is None:
            number = ErrorNumber.UNKNOWN_TOPIC_ID
        elif not call.may(AccessRight.DESCRIBE, resource.topic(name)):
            number = ErrorNumber.TOPIC_AUTHORIZATION_FAILED
        elif not _is_valid(name):
            number = ErrorNumber.INVALID_TOPIC_EXCEPTION
        shown = None if name is None and call.version >= _FIRST_WITHOUT_NAMES else name or ""
        return {"error_code": number, "name": shown, "topic_id": uuid, "partitions": ()}

    # -- offsets

    async def list_offsets(self, call: ClientCall) -> Reply:
        """Return each partition's start, end, or first offset at or after a time."""
        answers: list[Message] = []
        async for each in call.each(call.body["topics"]):
            found: list[Message] = []
            async for some in call.each(parts_of(each["partitions"])):
                if call.may(AccessRight.DESCRIBE, resource.topic(each["name"])):  # before a thread is used
                    found += await self._broker.run(partial(self._places, call, each["name"], some))
                else:
                    found += _all_failed(some, ErrorNumber.TOPIC_AUTHORIZATION_FAILED)
            answers.append({"name": each["name"], "partitions": found})
        return {"topics": answers}

    def _places(self, call: ClientCall, name: str, asked: list[Message]) -> list[Message]:
        """Return the requested offsets of one topic. In a thread of the pool."""
        try:
            topic = self._broker.topics.get(name)
            bounds = self._broker.store.log.all_bounds(topic)
        except Error as exc:
            return _all_failed(asked, number_of(exc))
        found = []
        for each in asked:
            partition, moment = each["partition_index"], each["timestamp"]
            answer: Message = {"partition_index": partition}
            if partition not in bounds:
                answer["error_code"] = ErrorNumber.UNKNOWN_TOPIC_OR_PARTITION
            elif each["current_leader_epoch"] > LEADER_EPOCH:
                answer["error_code"] = int(ErrorNumber.UNKNOWN_LEADER_EPOCH)
            else:
                start, end = bounds[partition]
                if moment == _LATEST and not (call.body["isolation_level"] or self._broker.batches.holds_back):
                    end = self._broker.batches.end(topic, partition)
                answer |= self._place(topic, OffsetRange(partition, start, end), moment, call.version)
            found.append(answer)
        return found

    def _place(self, topic: Topic, within: OffsetRange, moment: int, version: int) -> Message:
        log, partition = self._broker.store.log, within.partition
        if moment == _LATEST:
            return {"offset": within.high, "timestamp": -1, "leader_epoch": LEADER_EPOCH}
        if moment == _EARLIEST or (moment == -4 and version >= 8):
            return {"offset": within.low, "timestamp": -1, "leader_epoch": LEADER_EPOCH}
        if moment == _LATEST_TIME and version >= 7:
            return self._latest(topic, within)
        if moment == -5 and version >= 9:  # records in remote storage: there are none
            return _NOWHERE
        if moment < 0:
            return {"error_code": int(ErrorNumber.UNSUPPORTED_VERSION)}
        offset = log.offsets_at(topic, moment, [within]).get(partition, within.high)
        return _NOWHERE if offset >= within.high else self._found(topic, partition, offset)

    def _found(self, topic: Topic, partition: int, offset: int) -> Message:
        ranges = [OffsetRange(partition, offset, offset + 1)]
        chunk = self._broker.store.log.read_ranges(topic, ranges, max_bytes=1, bare=True)
        time_ms = chunk.entries[0].timestamp_ms if chunk.entries else -1
        return {"offset": offset, "timestamp": time_ms, "leader_epoch": LEADER_EPOCH}

    def _latest(self, topic: Topic, within: OffsetRange) -> Message:
        """Return the offset of the record with the latest time, found by bisecting the time."""
        if within.low == within.high:
            return _NOWHERE
        log, low, high = self._broker.store.log, 0, 1 << 48
        while high - low > 1:  # a record is at or after `low`, none at or after `high`
            middle = (low + high) // 2
            found = log.offsets_at(topic, middle, [within]).get(within.partition, within.high)
            low, high = (middle, high) if found < within.high else (low, middle)
        return self._found(topic, within.partition, log.offsets_at(topic, low, [within])[within.partition])

    async def offset_for_leader_epoch(self, call: ClientCall) -> Reply:
        """Return the end of an epoch: there is one epoch, which ends where the partition does."""
        answers: list[Message] = []
        async for each in call.each(call.body["topics"]):
            name = each["topic"]
            may = call.may(AccessRight.DESCRIBE, resource.topic(name))
            bounds = await self._broker.run(partial(self._bounds, name)) if may else {}
            partitions = []
            async for asked in call.each(each["partitions"]):
                partition = asked["partition"]
                answer: Message = {"partition": partition}
                if not may:
                    answer["error_code"] = ErrorNumber.TOPIC_AUTHORIZATION_FAILED
                elif partition not in bounds:
                    answer["error_code"] = ErrorNumber.UNKNOWN_TOPIC_OR_PARTITION
                elif asked["current_leader_epoch"] > LEADER_EPOCH:
                    answer["error_code"] = ErrorNumber.UNKNOWN_LEADER_EPOCH
                elif asked["leader_epoch"] == LEADER_EPOCH:
                    answer |= {"leader_epoch": LEADER_EPOCH, "end_offset": bounds[partition].end}
                partitions.append(answer)
            answers.append({"topic": name, "partitions": partitions})
        return {"topics": answers}

    def _bounds(self, name: str) -> Any:
        topic = self._broker.topics.by_name.get(name)
        return {} if topic is None else self._broker.store.log.all_bounds(topic)


def _is_valid(name: str) -> bool:
    try:
        check_topic(name)
    except Error:
        return False
    return True


def _all_failed(asked: list[Message], number: ErrorNumber) -> list[Message]:
    return [{"partition_index": each["partition_index"], "error_code": number} for each in asked]
