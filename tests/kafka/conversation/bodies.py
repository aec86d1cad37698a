"""The requests of the conversation, in a few words each."""

from collections.abc import Sequence
from typing import Any

from penstock.wire.kafka.apis.cluster import FIND_COORDINATOR
from penstock.wire.kafka.apis.records import LIST_OFFSETS
from penstock.wire.kafka.apis.topics import CREATE_TOPICS
from penstock.wire.kafka.layout import Message
from penstock.wire.kafka.record_batch import Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records

from .talk import Talk, numbers

LATEST, EARLIEST = -1, -2


def new_topic(name: str, partitions: int = 1, *, replicas: int = 1, **configs: str | None) -> Message:
    """Return a topic to be made; a dot in a config's name is written as an underscore."""
    said = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": said,
    }


def create(*topics: Message, validate_only: bool = False) -> Message:
    return {"topics": list(topics), "timeout_ms": 30_000, "validate_only": validate_only}


def batch(
    talk: Talk,
    *values: str | None,
    keys: Sequence[str | None] = (),
    times: Sequence[int] = (),
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    codec: Compression = Compression.NONE,
) -> bytes:
    """Return records as a batch; times count from the beginning of the talk, in milliseconds."""
    records = [
        KafkaRecord(
            number,
            talk.begin_ms + (times[number] if times else number),
            keys[number].encode() if keys and keys[number] is not None else None,  # type: ignore[union-attr]
            None if value is None else value.encode(),
            [("h", b"1")] if number == 0 else [],
        )
        for number, value in enumerate(values)
    ]
    return bytes(
        encode_records(
            records,
            codec=codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def produce(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, transaction: str | None = None
) -> Message:
    part = {"index": partition, "records": records}
    return {
        "transactional_id": transaction,
        "acks": acks,
        "timeout_ms": 10_000,
        "topic_data": [{"name": topic, "partition_data": [part]}],
    }


def fetch(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    committed: bool = False,
    epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    max_bytes: int = 1 << 20,
    wait_ms: int = 0,
) -> Message:
    part = {
        "partition": partition,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
    }
    return {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "isolation_level": int(committed),
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{"topic": topic, "partitions": [part]}],
        "rack_id": "",
    }


def offsets(topic: str, *moments: int, partition: int = 0, epoch: int = -1, committed: bool = False) -> Message:
    """Ask for places in one partition, or in one after another for several moments."""
    asked = [
        {"partition_index": partition + number, "current_leader_epoch": epoch, "timestamp": moment}
        for number, moment in enumerate(moments)
    ]
    return {"replica_id": -1, "isolation_level": int(committed), "topics": [{"name": topic, "partitions": asked}]}


def made(talk: Talk, name: str, partitions: int = 1, **configs: str | None) -> str:
    """Make a topic without a word, and wait until it can be used."""
    talk.quietly(CREATE_TOPICS, 5, create(new_topic(name, partitions, replicas=1, **configs)))
    visible(talk, name, partitions)
    return name


def visible(talk: Talk, name: str, partitions: int = 1) -> None:
    """Wait until all partitions of a topic are there."""
    asked = offsets(name, *[EARLIEST] * partitions)
    talk.until(LIST_OFFSETS, 5, asked, lambda answer: not any(numbers(answer)))


def coordinated(talk: Talk, key: str, kind: int = 0) -> None:
    """Wait until a group or a transactional id has its coordinator."""
    talk.quietly(FIND_COORDINATOR, 2, {"key": key, "key_type": kind})


def place_of(message: Message) -> Any:
    """Return the base offset that a Produce answer tells."""
    return message["responses"][0]["partition_responses"][0]["base_offset"]
