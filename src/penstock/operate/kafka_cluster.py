"""A client of a Kafka cluster, ours or another's, for commands: `kafka://host:port`.

The settings `[kafka]`, which pipelines use as well, give encryption and login. aiokafka hides the cause when
its first connection fails, so this module makes a connection of its own first.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from penstock.clock import to_ms
from penstock.database.address import without_password
from penstock.errors import (
    InvalidUrl,
    MissingExtra,
    StoreError,
    StoreUnreachable,
    UnknownPartition,
    UnknownTopic,
    shown,
)
from penstock.log.batches import PARTITIONER
from penstock.log.entry import content_of, key_bytes
from penstock.log.kafka_settings import kafka_settings, tls_refusal
from penstock.model.partition import MURMUR3, partition_of
from penstock.model.record import Record

from .tail import LATEST, StartPlace

SCHEME = "kafka://"
FORM = "kafka://host:port"
T = TypeVar("T")
_ANSWER_MS = 20_000
_POLL_MS = 500
_SILENCE_MS = 10_000  # without progress before the end, until the tail fails
_CLOSE_SECONDS = 1.0
_PROTOCOL = "PENSTOCK_KAFKA_SECURITY_PROTOCOL"


@dataclass(frozen=True, order=True)
class KafkaTopic:
    """A topic of a cluster."""

    name: str
    partitions: int


@dataclass(frozen=True, order=True)
class KafkaGroup:
    """A group of a cluster."""

    name: str
    protocol_type: str


def is_kafka(url: str) -> bool:
    """Return whether a URL names a Kafka cluster."""
    return url.startswith(SCHEME)


class KafkaCluster:
    """A connection to a cluster, for one thread, open within a `with` block."""

    def __init__(self, url: str) -> None:
        """Raises InvalidUrl, InvalidOption, MissingExtra."""
        try:
            import aiokafka
            import aiokafka.admin
            import aiokafka.conn
        except ImportError as exc:
            raise MissingExtra("a Kafka cluster", "kafka") from exc
        from penstock.log import kafka_form  # it needs the same extra

        host, found, port = url.removeprefix(SCHEME).rstrip("/").rpartition(":")
        if not (found and host and port.isdecimal() and 0 < int(port) < 65_536):
            raise InvalidUrl(without_password(url), (), f"it is not {FORM}")
        if "@" in host:  # a client would take it as part of the host name and print it
            remedy = "set the login by PENSTOCK_KAFKA_SASL_USERNAME and PENSTOCK_KAFKA_SASL_PASSWORD"
            raise InvalidUrl(without_password(url), (), f"it contains a login and must be {FORM}; {remedy}")
        self._kafka: Any = aiokafka
        self.form = kafka_form
        self.address, self._place = f"{host}:{port}", (host.strip("[]"), int(port))
        self._settings = kafka_settings({})
        self._security = self._secured()
        self.options = {"bootstrap_servers": self.address, "request_timeout_ms": _ANSWER_MS, **self._security}
        self._loop = asyncio.new_event_loop()
        self._producer: Any = None
        self._kept: dict[str, int | None] = {}

    def _secured(self) -> dict[str, Any]:
        settings = self._settings
        found: dict[str, Any] = {"security_protocol": settings.security_protocol}
        if settings.encrypts:
            found |= {"ssl_context": settings.context()}
        if settings.logs_in:
            found |= {"sasl_mechanism": settings.sasl_mechanism, "sasl_plain_username": settings.sasl_username}
            found |= {"sasl_plain_password": settings.sasl_password}
        return found

    def __enter__(self) -> "KafkaCluster":
        """Raises StoreUnreachable, StoreError."""
        try:
            self._loop.run_until_complete(self._connected())
        except BaseException:
            self._loop.close()
            raise
        return self

    async def _connected(self) -> None:
        """Connect once, and translate the error if that fails."""
        errors = self._kafka.errors
        try:
            await self._connect_once()
        except ssl.SSLError as exc:
            raise tls_refusal(self.address, exc) from exc
        except (errors.KafkaConnectionError, asyncio.IncompleteReadError) as exc:
            raise self._closed(str(exc)) from exc
        except TimeoutError as exc:
            raise self._closed(f"no answer within {_ANSWER_MS // 1000} s") from exc
        except OSError as exc:
            raise StoreUnreachable(self.address, str(exc)) from exc
        except (errors.KafkaError, ValueError) as exc:  # ValueError: in SCRAM, the server does not know the password
            settings = self._settings
            if not settings.logs_in:
                raise self._closed(str(exc)) from exc
            raise StoreError(
                f"the Kafka cluster {self.address} refuses the login of {shown(settings.sasl_username)} by "
                f"{settings.sasl_mechanism}: {exc}"
            ) from exc

    async def _connect_once(self) -> None:
        made = self._kafka.conn.AIOKafkaConnection(*self._place, request_timeout_ms=_ANSWER_MS, **self._security)
        try:
            await made.connect()
        finally:
            ended = made.close()
            if made._protocol is not None:  # it was connected: close it before the loop
                await asyncio.wait([ended], timeout=_CLOSE_SECONDS)

    def _closed(self, why: str) -> StoreUnreachable:
        used = self._settings.security_protocol
        return StoreUnreachable(self.address, f"{why}; the cluster may need another {_PROTOCOL} than {used}")

    def __exit__(self, *_: object) -> None:
        if self._producer is not None:
            self._loop.run_until_complete(self._producer.stop())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for an answer. Raises StoreUnreachable, StoreError."""
        errors = self._kafka.errors
        try:
            return self._loop.run_until_complete(work)
        except errors.KafkaConnectionError as exc:
            raise self._closed(str(exc)) from exc
        except errors.KafkaError as exc:
            raise StoreError(f"the Kafka cluster {self.address} refuses the request: {exc}") from exc

    # -- topics and groups

    def topics(self) -> list[KafkaTopic]:
        """Return the topics by name."""
        found = self.run(self._asked("describe_topics"))
        return sorted(KafkaTopic(each["topic"], len(each["partitions"])) for each in found)

    def groups(self) -> list[KafkaGroup]:
        """Return the groups by name."""
        return sorted(KafkaGroup(*each[:2]) for each in self.run(self._asked("list_consumer_groups")))

    async def _asked(self, question: str, *arguments: Any) -> Any:
        admin = self._kafka.admin.AIOKafkaAdminClient(**self.options)
        try:
            await admin.start()
            return await getattr(admin, question)(*arguments)
        finally:
            await admin.close()

    # -- records

    def check(self, topic: str, partition: int | None) -> int:
        """Return how many partitions a topic has. Raises UnknownTopic, UnknownPartition."""
        count = next((each.partitions for each in self.topics() if each.name == topic), None)
        if count is None:
            raise UnknownTopic(topic)
        if partition is not None and not 0 <= partition < count:
            raise UnknownPartition(topic, partition, count)
        return count

    def tail(self, topic: str, start: StartPlace, *, partition: int | None = None) -> "KafkaTail":
        """Read a topic. Raises UnknownTopic, UnknownPartition."""
        count = self.check(topic, partition)
        return KafkaTail(self, topic, range(count) if partition is None else [partition], start)

    def produce(self, topic: str, records: Sequence[Record], *, partition: int | None = None) -> None:
        """Add records, and return when all are acknowledged by every replica in sync.

        For a topic of ours that names its partitioner, keys are placed by that rule.
        """
        self.run(self._produce(topic, records, partition))

    async def _produce(self, topic: str, records: Sequence[Record], partition: int | None) -> None:
        if self._producer is None:
            self._producer = self._kafka.AIOKafkaProducer(acks="all", enable_idempotence=True, **self.options)
            await self._producer.start()
        keeps = None if partition is not None else await self._partitions_kept(topic)
        sent = [
            await self._producer.send(
                topic,
                each.data,
                key=key_bytes(each.key),
                partition=partition if keeps is None or each.key is None else partition_of(each.key, keeps),
                timestamp_ms=each.timestamp_ms,
                headers=self.form.kafka_headers(content_of(each)),
            )
            for each in records
        ]
        await asyncio.gather(*sent)

    async def _partitions_kept(self, topic: str) -> int | None:
        """Return the partition count of a topic that places keys by our rule; None for other topics."""
        if topic not in self._kept:
            kind = self._kafka.admin.config_resource
            asked = kind.ConfigResource(kind.ConfigResourceType.TOPIC, topic, {PARTITIONER: None})
            (answer,) = await self._asked("describe_configs", [asked])
            configs = {entry[0]: entry[1] for resource in answer.resources for entry in resource[4]}
            places = await self._producer.partitions_for(topic)
            self._kept[topic] = len(places) if configs.get(PARTITIONER) == MURMUR3 else None
        return self._kept[topic]


class KafkaTail:
    """Reads a topic of a cluster; records of aborted transactions are not returned."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: Sequence[int], start: StartPlace) -> None:
        self._cluster, self._kafka = cluster, cluster._kafka
        self._parts = [self._kafka.TopicPartition(topic, each) for each in partitions]
        self._consumer = cluster.run(self._begin(start))

    async def _begin(self, start: StartPlace) -> Any:
        consumer = self._kafka.AIOKafkaConsumer(
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            **self._cluster.options,
        )
        await consumer.start()
        consumer.assign(self._parts)
        firsts = await consumer.beginning_offsets(self._parts)
        ends = await consumer.end_offsets(self._parts)
        at = ends if start == LATEST else firsts
        if isinstance(start, int):
            at = {each: min(max(start, firsts[each]), ends[each]) for each in self._parts}
        elif isinstance(start, datetime):
            found = await consumer.offsets_for_times({each: to_ms(start) for each in self._parts})
            at = {each: ends[each] if place is None else place.offset for each, place in found.items()}
        for each, offset in at.items():
            consumer.seek(each, offset)
        return consumer

    def records(self) -> Iterator[Record]:
        """Yield the records from the current position to the topic's current end.

        Raises StoreError if the cluster has more records and returns none: aiokafka retries for ever and
        hides the error it gets.
        """
        ends = self._cluster.run(self._consumer.end_offsets(self._parts))
        silent_ms = 0
        while behind := self._cluster.run(self._behind(ends)):
            found = self._cluster.run(self._more())
            moved = self._cluster.run(self._behind(ends)) != behind
            silent_ms = 0 if found or moved else silent_ms + _POLL_MS
            for each in found:
                if each.offset < ends[self._kafka.TopicPartition(each.topic, each.partition)]:
                    content = each.timestamp, each.key, each.value, list(each.headers)
                    yield self._cluster.form.record_of_kafka(each.topic, (each.partition, each.offset), *content)
            if silent_ms >= _SILENCE_MS:
                part, offset = next(iter(behind.items()))
                raise StoreError(
                    f"the Kafka cluster {self._cluster.address} gives no record of {part.topic}/{part.partition} from "
                    f"offset {offset} on, though there are more: nothing came for {_SILENCE_MS // 1000} seconds; see "
                    "the broker's log, or run penstock log verify on a log in files; use --partition and --from to "
                    "read around it"
                )

    def wait(self) -> None:
        """Sleep for one poll interval."""
        self._cluster.run(asyncio.sleep(_POLL_MS / 1000))

    def close(self) -> None:
        """Close the consumer."""
        self._cluster.run(self._consumer.stop())

    async def _behind(self, ends: Any) -> dict[Any, int]:
        """Return the next offset of every partition that is not at its end."""
        at = {each: await self._consumer.position(each) for each in self._parts}
        return {each: offset for each, offset in at.items() if offset < ends[each]}

    async def _more(self) -> list[Any]:
        found = await self._consumer.getmany(timeout_ms=_POLL_MS)
        return sorted((one for some in found.values() for one in some), key=lambda one: one.timestamp)
