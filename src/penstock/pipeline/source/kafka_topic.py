"""A topic of a Kafka cluster, ours or Apache's, as a pipeline reads it: batches of committed records.

Read over our own connections (`kafka_connection.py`), with the message layouts of our broker. Batches stay
bytes until they become Arrow (`fetch/batch_columns.py`). The identity of the log is the cluster's id and
the topic's id. A Kafka cluster has no incarnation: rewound history (an election that lost records, a refilled
topic) shows in the end, or in the mark of the last record, which is made from the record's whole content.
"""

import ssl
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from penstock.errors import Damaged, InvalidBatch, StoreError, StoreUnreachable, UnknownTopic
from penstock.log.contract import Bounds, LogIdentity, Position, Topic
from penstock.log.entry import Entry
from penstock.log.kafka_form import entries_of
from penstock.log.kafka_settings import KafkaSettings, kafka_settings
from penstock.model.partition import KAFKA
from penstock.wire.kafka.apis.records import FETCH, LIST_OFFSETS
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.record_batch import BatchHeader, check_batch, headers_in

from ..address import kafka_address
from ..offsets import Piece
from .kafka_connection import BrokerConnection

INCARNATION = 0
_WAIT_MS = 500
_SILENT_TIMES = 40
FETCH_BYTES = 8 << 20
_EARLIEST, _LATEST, _COMMITTED = -2, -1, 1
_NO_UUID = UUID(int=0)
_PASSES = {E.LEADER_NOT_AVAILABLE, E.NOT_LEADER_OR_FOLLOWER, E.REQUEST_TIMED_OUT}


@dataclass(frozen=True, slots=True)
class _KnownTopic:
    identity: LogIdentity
    topic: Topic
    leaders: Mapping[int, tuple[str, int]]


class FetchedBatch(NamedTuple):
    """A batch of records as the cluster has it; records before `low` were not requested, or are removed."""

    low: int
    header: BatchHeader
    data: memoryview


class KafkaTopicReader:
    """One topic of one cluster, for one thread; no settings: this process's. Raises InvalidUrl, InvalidOption."""

    def __init__(self, url: str, name: str, settings: KafkaSettings | None = None) -> None:
        self._first, self._name = kafka_address(url), name
        self._settings = kafka_settings({}) if settings is None else settings
        self._tls: ssl.SSLContext | None = self._settings.context() if self._settings.encrypts else None
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._found: _KnownTopic | None = None

    def close(self) -> None:
        """Close the connections."""
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    def known(self) -> _KnownTopic:
        """Return log and topic, requested once. Raises UnknownTopic, StoreUnreachable, StoreError."""
        if self._found is None:
            self._found = self._asked()
        return self._found

    def _asked(self) -> _KnownTopic:
        message = {"topics": [{"topic_id": _NO_UUID, "name": self._name}], "allow_auto_topic_creation": False}
        answer = self._connection(self._first).ask(METADATA, message)
        topic = self._only(answer["topics"])
        self._check(topic["error_code"])
        brokers = {each["node_id"]: (each["host"], each["port"]) for each in answer["brokers"]}
        parts = sorted(topic["partitions"], key=lambda each: each["partition_index"])
        if not parts or [each["partition_index"] for each in parts] != list(range(len(parts))):
            raise self._odd("its partitions are not numbered from 0 on")
        missing = [each["partition_index"] for each in parts if each["leader_id"] not in brokers]
        if missing:
            raise StoreUnreachable(self._where, f"partition {missing[0]} of {self._name} has no leader now")
        cluster = answer["cluster_id"] or self._where
        named = self._name if topic["topic_id"] == _NO_UUID else str(topic["topic_id"])
        number = int.from_bytes(blake2b(f"{cluster}/{named}".encode(), digest_size=4).digest(), "big") >> 1
        return _KnownTopic(
            LogIdentity(f"kafka-{cluster}", INCARNATION),
            Topic(number, self._name, len(parts), KAFKA),
            {each["partition_index"]: brokers[each["leader_id"]] for each in parts},
        )

    @property
    def _where(self) -> str:
        host, port = self._first
        return f"{host}:{port}"

    def bounds(self) -> dict[int, Bounds]:
        """Return the bounds of the committed records in every partition."""
        starts, ends = self._offsets(_EARLIEST), self._offsets(_LATEST)
        return {number: Bounds(starts[number], ends[number]) for number in sorted(ends)}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        """Return the first offset at or after a moment in each partition; its end where there is none."""
        found, ends = self._offsets(timestamp_ms), self._offsets(_LATEST)
        return {number: ends[number] if at < 0 else min(at, ends[number]) for number, at in found.items()}

    def _offsets(self, moment: int) -> dict[int, int]:
        leaders, found = self.known().leaders, dict[int, int]()
        for address in sorted(set(leaders.values())):
            mine = [number for number, leader in leaders.items() if leader == address]
            asked = [{"partition_index": number, "timestamp": moment} for number in sorted(mine)]
            topics = [{"name": self._name, "partitions": asked}]
            message = {"replica_id": -1, "isolation_level": _COMMITTED, "topics": topics}
            answer = self._connection(address).ask(LIST_OFFSETS, message)
            for each in self._only(answer["topics"])["partitions"]:
                self._check(each["error_code"])
                found[each["partition_index"]] = each["offset"]
        if found.keys() != leaders.keys():
            raise self._odd("it does not give the offsets of each partition")
        return found

    def entries_at(self, places: Collection[Position]) -> dict[Position, Entry]:
        """Return the records at some positions, as far as they exist."""
        topic, found = self.known().topic, dict[Position, Entry]()
        for place in places:
            for low, _, batch in self.batches(place.partition, place.offset, place.offset + 1, max_bytes=1):
                for each in entries_of(batch, topic.id, place.partition):
                    if each.offset == place.offset == low:
                        found[place] = each
        return found

    def batches(
        self,
        partition: int,
        low: int,
        high: int,
        *,
        max_bytes: int = FETCH_BYTES,
        removed: Callable[[Piece], None] = lambda _: None,
    ) -> Iterator[FetchedBatch]:
        """Yield the batches of a range with committed records. Raises Damaged, StoreError.

        Where retention was faster, it goes on with the remaining records, and calls `removed` with the piece
        that is gone.
        """
        at, silent = low, 0
        while at < high:
            part = self._fetched(partition, at, max_bytes)
            if part is None:
                kept = min(self._kept(partition, at, high), high)
                removed(Piece(partition, at, kept))
                low = at = kept
                continue
            following = yield from _counting(part, partition, low, at, high)
            silent = silent + 1 if following == at else 0
            if silent == _SILENT_TIMES:
                raise StoreError(
                    f"the Kafka cluster {self._where} gives nothing of {self._name}/{partition} from offset "
                    f"{at} on, and said that it goes to {high}"
                )
            at = following

    def _kept(self, partition: int, at: int, high: int) -> int:
        """Return the start of a partition that lacks an offset. Raises StoreError if it ends too early."""
        start, end = self.bounds()[partition]
        if start <= at:
            raise StoreError(
                f"the Kafka cluster {self._where} ends {self._name}/{partition} at offset {end}, and said "
                f"that it goes to {high}: records were lost there"
            )
        return start

    def _fetched(self, partition: int, offset: int, max_bytes: int) -> Message | None:
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
        message = {"max_wait_ms": _WAIT_MS, "min_bytes": 1, "max_bytes": max(max_bytes, 1), "rack_id": ""}
        message |= {"isolation_level": _COMMITTED, "session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        message |= {"topics": [{"topic": self._name, "partitions": [wanted]}]}
        answer = self._connection(self.known().leaders[partition]).ask(FETCH, message)
        self._check(answer["error_code"])
        part = self._only(self._only(answer["responses"])["partitions"])
        if part["error_code"] == E.OFFSET_OUT_OF_RANGE:
            return None
        self._check(part["error_code"])
        return part

    def _connection(self, address: tuple[str, int]) -> BrokerConnection:
        found = self._connections.get(address)
        if found is not None and found.fresh:
            return found
        if found is not None:
            found.close()
            del self._connections[address]
        made = self._connections[address] = BrokerConnection(*address, self._settings, self._tls)
        return made

    def _only(self, answers: Sequence[Message]) -> Message:
        if len(answers) != 1:
            raise self._odd(f"it answers {len(answers)} times what was asked once")
        return answers[0]

    def _odd(self, why: str) -> StoreError:
        return StoreError(f"the Kafka cluster {self._where} says of topic {self._name} what cannot be: {why}")

    def _check(self, number: int) -> None:
        if number == E.NONE:
            return
        if number == E.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(self._name)
        name = E(number).name if number in E._value2member_map_ else f"error {number}"
        if number in _PASSES:
            self._found = None
            raise StoreUnreachable(self._where, name)
        raise StoreError(f"the Kafka cluster {self._where} refuses to give topic {self._name}: {name}")


def _counting(part: Message, partition: int, low: int, at: int, high: int) -> Generator[FetchedBatch, None, int]:
    """Yield an answer's batches without markers and aborted ones; return the offset to go on from."""
    records: Any = part["records"]
    view = memoryview(records if records is not None else b"")
    aborted = sorted((each["first_offset"], each["producer_id"]) for each in part["aborted_transactions"] or ())
    taken_back = set[int]()
    for position, header in headers_in(view):
        if header.base_offset >= high:
            return high  # nothing is left in between, as in a compacted topic
        try:
            check_batch(view, position)
        except InvalidBatch as exc:
            raise Damaged(f"partition {partition}", 0, header.base_offset, exc.why) from exc
        at = max(at, header.next_offset)
        while aborted and aborted[0][0] <= header.last_offset:
            taken_back.add(aborted.pop(0)[1])
        if header.is_control:
            taken_back.discard(header.producer_id)
        elif header.record_count and not (header.is_transactional and header.producer_id in taken_back):
            yield FetchedBatch(low, header, view[position : position + header.size])
    return at
