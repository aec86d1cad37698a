"""Topics created, deleted, grown, set and trimmed by clients; each change is visible before its answer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from penstock.access import resource
from penstock.access.resource import CLUSTER, AccessRight
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import Error, InvalidConfig, OffsetOutOfRange
from penstock.log.contract import Keep, Topic
from penstock.log.topics import check_growth
from penstock.model.limits import check_topic
from penstock.model.partition import check_partitions
from penstock.wire.kafka.apis import topics as apis
from penstock.wire.kafka.apis.records import DELETE_RECORDS
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from . import topic_configs
from .call import ClientCall, Refused, Reply, RequestHandler
from .core import BrokerCore
from .error_codes import error_fields
from .topic_configs import CLEANUP, Setting, TopicConfig, compaction_of, is_kept_whole, read_configs

_TOPIC, _BROKER = 2, 4  # kinds of resources that have configs
_OF_TOPIC, _DEFAULT = 1, 5  # sources of a config
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3  # kinds of an incremental change
_BY_HAND = "partitions are not assigned to brokers by hand"
_FIRST_WITH_IDS = 6  # of DeleteTopics
_TWICE: Message = {"error_code": E.INVALID_REQUEST, "error_message": "it is named twice"}
ReadConfigs = Callable[[Message, Mapping[str, str | None]], dict[str, str | None]]


class TopicAdmin:
    """Answers requests that change topics. Lives in the loop's thread."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self.handlers: dict[int, RequestHandler] = {
            apis.CREATE_TOPICS.key: self.create,
            apis.DELETE_TOPICS.key: self.delete,
            apis.CREATE_PARTITIONS.key: self.grow,
            DELETE_RECORDS.key: self.trim,
            apis.DESCRIBE_CONFIGS.key: self.describe,
            apis.ALTER_CONFIGS.key: partial(self._alter, _all),
            apis.INCREMENTAL_ALTER_CONFIGS.key: partial(self._alter, _some),
        }

    async def _done(self, call: ClientCall, right: AccessRight, name: str, work: Callable[[], Any]) -> Message:
        """Change a topic, if that is allowed; return the error fields of its answer."""
        try:
            call.check(right, resource.topic(name))  # before a thread is used
            await self._broker.run(work)
        except (Error, Refused) as exc:
            return error_fields(exc)
        return {"error_code": 0, "error_message": None}

    # -- topics

    async def create(self, call: ClientCall) -> Reply:
        """Create topics."""
        asked, topics = await _once(call, call.body["topics"])
        async for each in call.each(asked):
            answer = await self._done(call, AccessRight.CREATE, each["name"], partial(self._create, call, each))
            if not answer["error_code"]:
                await self._broker.refresh_topics()
            topics.append({"name": each["name"], **answer, **self._created(call, each, answer)})
        return {"topics": topics}

    def _create(self, call: ClientCall, asked: Message) -> None:
        name = asked["name"]
        if asked["assignments"]:
            raise Refused(E.INVALID_REPLICA_ASSIGNMENT, _BY_HAND)
        if asked["replication_factor"] not in (-1, 1):
            raise Refused(E.INVALID_REPLICATION_FACTOR, "the store replicates, topics do not: use 1 or -1")
        given = {each["name"]: each["value"] for each in asked["configs"]}
        for key, value in given.items():
            if value is None:
                raise Refused(E.INVALID_CONFIG, f"{key} has no value")
        setting = read_configs(given, self._broker.settings.batch_bytes)
        self._check_compaction(setting)
        self._broker.topics.refresh()
        if name in self._broker.topics.by_name:
            raise Refused(E.TOPIC_ALREADY_EXISTS, f"topic {name!r} is there already")
        partitions = self._partitions(asked)
        if call.body["validate_only"]:
            check_topic(name)
            check_partitions(partitions)
            return
        configs = {key: value for key, value in setting.configs.items() if value is not None}
        keep, compaction = topic_configs.kept_of(setting.keep, configs), compaction_of(configs)
        self._broker.administration.create_topic(name, partitions, setting.partitioner, keep, configs, compaction)

    def _partitions(self, asked: Message) -> int:
        return self._broker.settings.partitions if asked["num_partitions"] == -1 else int(asked["num_partitions"])

    def _check_compaction(self, setting: Setting) -> None:
        if setting.policy and "compact" in setting.policy and not self._broker.store.log.compacts:
            wanted = "delete: only a log in files compacts by key, penstock serve --url ./data"
            raise InvalidConfig("cleanup.policy", ",".join(sorted(setting.policy)), wanted)

    def _created(self, call: ClientCall, asked: Message, answer: Message) -> Message:
        topic = self._broker.topics.by_name.get(asked["name"])
        if answer["error_code"]:
            return {}
        if topic is None:  # the request only wants it checked
            return {"num_partitions": self._partitions(asked), "replication_factor": 1}
        return {
            "topic_id": self._broker.topics.uuid(topic),
            "num_partitions": topic.partitions,
            "replication_factor": 1,
            "configs": [_config(each) for each in self._shown(topic, self._stored(topic))],
        }

    async def delete(self, call: ClientCall) -> Reply:
        """Delete topics."""
        known = self._broker.topics
        asked = call.body["topics"] or [
            {"name": name, "topic_id": None} async for name in call.each(call.body["topic_names"])
        ]
        nameless = [each async for each in call.each(asked) if each["name"] is None]
        named, responses = await _once(call, asked)
        async for each in call.each([*named, *nameless]):
            if call.version >= _FIRST_WITH_IDS and (each["name"] is None) != bool(each["topic_id"].int):
                responses.append(each | {"error_code": E.INVALID_REQUEST, "error_message": "either a name or an id"})
                continue
            by_id = known.by_uuid.get(each["topic_id"]) if each["name"] is None else None
            name = each["name"] if by_id is None else by_id.name
            may_know = name is not None and call.sees(resource.topic(name))
            if name is None or (each["name"] is None and not may_know):  # an id must not reveal a name
                responses.append({"name": None, "topic_id": each["topic_id"], "error_code": E.UNKNOWN_TOPIC_ID})
                continue
            uuid = {"topic_id": known.uuid(known.by_name[name])} if may_know and name in known.by_name else {}
            answer = await self._done(
                call, AccessRight.DELETE, name, partial(self._broker.administration.delete_topic, name)
            )
            responses.append({"name": name, **uuid, **answer})
        await self._broker.refresh_topics()
        return {"responses": responses}

    async def grow(self, call: ClientCall) -> Reply:
        """Give topics more partitions."""
        asked, results = await _once(call, call.body["topics"])
        async for each in call.each(asked):
            answer = await self._done(call, AccessRight.ALTER, each["name"], partial(self._grow, call, each))
            results.append({"name": each["name"], **answer})
        await self._broker.refresh_topics()
        return {"results": results}

    def _grow(self, call: ClientCall, asked: Message) -> None:
        topic = self._broker.topics.get(asked["name"])
        if asked["assignments"]:
            raise Refused(E.INVALID_REPLICA_ASSIGNMENT, _BY_HAND)
        if asked["count"] <= topic.partitions:
            raise Refused(E.INVALID_PARTITIONS, f"it has {topic.partitions} partitions already")
        check_growth(topic, asked["count"])
        if not call.body["validate_only"]:
            self._broker.administration.grow_topic(topic.name, asked["count"])

    # -- records

    async def trim(self, call: ClientCall) -> Reply:
        """Delete the oldest records."""
        topics = []
        async for each in call.each(call.body["topics"]):
            partitions = []
            async for one in call.each(each["partitions"]):
                number = one["partition_index"]
                try:
                    call.check(AccessRight.DELETE, resource.topic(each["name"]))
                    low = await self._broker.run(partial(self._trim, each["name"], number, one["offset"]))
                    answer = {"low_watermark": low}
                except (Error, Refused) as exc:
                    answer = {"low_watermark": -1, **error_fields(exc)}
                partitions.append({"partition_index": number, **answer})
            topics.append({"name": each["name"], "partitions": partitions})
        return {"topics": topics}

    def _trim(self, name: str, partition: int, offset: int) -> int:
        topic = self._broker.topics.get(name)
        start, end = self._broker.store.log.bounds(name, partition)
        before = end if offset == -1 else offset
        if not 0 <= before <= end:
            raise OffsetOutOfRange(name, partition, offset, start, end)
        if before > start:
            self._broker.administration.trim_topic(topic, partition, before)
        return max(start, before)

    # -- configs

    async def describe(self, call: ClientCall) -> Reply:
        """Return the configs of topics and brokers."""
        results = []
        async for each in call.each(call.body["resources"]):
            kind, name, keys = each["resource_type"], each["resource_name"], each["configuration_keys"]
            answer: Message = {"resource_type": kind, "resource_name": name, "error_message": None}
            try:
                if kind == _TOPIC:
                    call.check(AccessRight.DESCRIBE, resource.topic(name))
                elif kind == _BROKER:
                    call.check(AccessRight.DESCRIBE, CLUSTER)
                found = await self._broker.run(partial(self._configs, kind, name))
                shown = [_config(one, call) for one in found if keys is None or one.name in keys]
                results.append(answer | {"configs": shown})
            except (Error, Refused) as exc:
                results.append(answer | error_fields(exc))
        return {"results": results}

    def _configs(self, kind: int, name: str) -> list[TopicConfig]:
        if kind == _TOPIC:
            check_topic(name)
            topic = self._broker.topics.get(name)
            return self._shown(topic, self._stored(topic))
        if kind == _BROKER:
            if name and name not in {str(node.id) for node in self._broker.cluster.nodes}:
                raise Refused(E.INVALID_REQUEST, f"there is no broker {name!r}")
            settings = self._broker.settings
            shown = {
                "num.partitions": settings.partitions,
                "auto.create.topics.enable": settings.auto_create,
                "message.max.bytes": settings.batch_bytes,
                "socket.request.max.bytes": settings.frame_bytes,
            }
            return [TopicConfig(name, str(value).lower(), read_only=True) for name, value in shown.items()]
        raise Refused(E.INVALID_REQUEST, f"nothing of kind {kind} has configs here")

    def _stored(self, topic: Topic) -> dict[str, str]:
        rows = self._broker.store.database.look(lambda tx: tx.rows("log", "topic_configs", topics=[topic.id]))
        return {name: value for _, name, value in rows}

    def _shown(self, topic: Topic, stored: dict[str, str]) -> list[TopicConfig]:
        default_ms = int(RetentionSettings.load().age.total_seconds() * 1000)
        compaction = self._broker.store.log.compaction(topic)
        return topic_configs.shown_configs(topic, stored, compaction, default_ms, self._broker.settings.batch_bytes)

    async def _alter(self, read: ReadConfigs, call: ClientCall) -> Reply:
        """Set configs of topics; `read` tells which, of those that a request names."""
        responses = []
        async for each in call.each(call.body["resources"]):
            kind, name = each["resource_type"], each["resource_name"]
            if kind == _TOPIC:
                answer = await self._done(call, AccessRight.ALTER, name, partial(self._set, call, each, read))
            else:
                words = "only topics are set here; brokers have settings of their own"
                answer = error_fields(Refused(E.INVALID_REQUEST, words))
            responses.append({"resource_type": kind, "resource_name": name, **answer})
        await self._broker.refresh_topics()
        return {"responses": responses}

    def _set(self, call: ClientCall, asked: Message, read: ReadConfigs) -> None:
        topic = self._broker.topics.get(asked["resource_name"])
        stored = self._stored(topic)
        given = read(asked, {each.name: each.value for each in self._shown(topic, stored)})
        setting = read_configs(given, self._broker.settings.batch_bytes)
        self._check_compaction(setting)
        if "penstock.partitioner" in given and setting.partitioner != topic.partitioner:
            raise Refused(E.INVALID_CONFIG, "a topic keeps the partitioner it was made with")
        if not call.body["validate_only"]:
            configs = stored | setting.configs
            former = Keep() if is_kept_whole(stored) else topic.keep
            keep = former._replace(**{field: getattr(setting.keep, field) for field in setting.given})
            compaction = compaction_of(configs)
            if CLEANUP not in configs:  # `penstock topics set` has set it
                compaction = self._broker.store.log.compaction(topic)
            keep = topic_configs.kept_of(keep, configs)
            self._broker.administration.set_topic(topic, keep, setting.configs, compaction)


def _all(asked: Message, current: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return all configs: those that are not named go back to their defaults."""
    return dict.fromkeys(topic_configs.RESET) | {each["name"]: each["value"] for each in asked["configs"]}


def _some(asked: Message, current: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the configs that are named; the others stay."""
    given: dict[str, str | None] = {}
    for each in asked["configs"]:
        name, act, value = each["name"], each["config_operation"], each["value"]
        if name in given:
            raise Refused(E.INVALID_REQUEST, f"{name} is named twice")
        if act == _SET and value is None:
            raise Refused(E.INVALID_REQUEST, f"{name} has no value")
        if act in (_APPEND, _SUBTRACT) and name in topic_configs.LISTS:
            elements, now = (value or "").split(","), (current[name] or "").split(",")
            changed = [*now, *elements] if act == _APPEND else [one for one in now if one not in elements]
            given[name] = ",".join(dict.fromkeys(changed))
        elif act in (_SET, _DELETE):
            given[name] = None if act == _DELETE else value
        else:
            raise Refused(E.INVALID_CONFIG, f"{name} is no list")
    return given


async def _once(call: ClientCall, asked: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the items named once, and answers for the names that occur more often: those are not acted upon."""
    first: dict[str, Message] = {}
    twice: dict[str, None] = {}
    async for each in call.each(asked):
        name = each["name"]
        if name in first:
            twice[name] = None
        elif name is not None:
            first[name] = each
    named = [each async for each in call.each(first.values()) if each["name"] not in twice]
    return named, [{"name": name, **_TWICE} async for name in call.each(twice)]


def _config(config: TopicConfig, call: ClientCall | None = None) -> Message:
    source = _DEFAULT if config.is_default else _OF_TOPIC
    shown: Message = {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": source,
        "is_sensitive": False,
    }
    if call is not None:
        synonym = {"name": config.name, "value": config.value, "source": source}
        shown |= {
            "synonyms": [synonym] if call.body["include_synonyms"] else (),
            "config_type": config.kind,
            "documentation": config.help if call.body["include_documentation"] else None,
        }
    return shown
