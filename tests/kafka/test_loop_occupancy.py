"""No request holds the loop of the Kafka port for long, whatever list it brings and whoever sends it.

Counted in the loop itself: the CPU time of its thread in each step, so that a busy machine blurs nothing.
"""

import gc
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.access.audit_trail import AuditTrail
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.broker.process import collect_rarely
from penstock.clock import SYSTEM
from penstock.model.partition import KAFKA, MURMUR3
from penstock.wire.kafka.apis.cluster import API_VERSIONS, FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import DESCRIBE_GROUPS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.layout import Api, Message
from penstock.wire.kafka.record_batch import Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.long_lists import LongRequest, long_requests
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served
from tests.loop_watch import LoopWatch

WIDE = 9_000  # partitions
REQUESTS = list(long_requests())
_REPRODUCED = {(METADATA.name, "topics"), (FIND_COORDINATOR.name, "coordinator_keys"), (DESCRIBE_GROUPS.name, "groups")}


def _watched(folder: Path, url: str) -> Iterator[tuple[Served, LoopWatch]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.sockets.uvloop", None)
        served = Served(url)
        served.store.log.create_topic("orders", partitions=2, partitioner=KAFKA)
        served.store.log.create_topic("wide", partitions=WIDE, partitioner=KAFKA)
        served.store.log.create_topic("keyed", partitions=1, partitioner=MURMUR3)
        watch = LoopWatch(patch, lambda: served.broker.loop)
        served.broker.access.trail = trail = AuditTrail(folder / "audit.jsonl")
        trail.open()
        thresholds = gc.get_threshold()
        collect_rarely()  # as `penstock serve` does
        with served:
            watch.clear()
            yield served, watch
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        trail.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, LoopWatch]]:
    folder = tmp_path_factory.mktemp("occupied")
    yield from _watched(folder, f"sqlite:///{folder}/store.db")


@pytest.fixture(scope="module")
def watched_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, LoopWatch]]:
    folder = tmp_path_factory.mktemp("occupied-files")
    yield from _watched(folder, f"file://{folder}/log")


def _ask(served: Served, asked: LongRequest, count: int) -> bytes:
    with RawClient(served.address, 120) as client:
        body = asked.api.encode_request(asked.message(count), asked.version)
        client.send(frame(asked.api, asked.version, body))
        return client.receive()


OPS_ALONE = AccessPolicy(rules=(parse_rule("allow ops * * *"),))


@pytest.mark.parametrize(
    "asked", [each for each in REQUESTS if (each.api.name, ".".join(each.path)) in _REPRODUCED], ids=str
)
def test_a_list_of_somebody_without_rights_holds_up_nobody(
    watched: tuple[Served, LoopWatch], asked: LongRequest
) -> None:
    served, watch = watched
    served.broker.access.install(OPS_ALONE)
    assert watch.hold(lambda: _ask(served, asked, 10_000))


@pytest.mark.slow
@pytest.mark.parametrize("asked", [each for each in REQUESTS if each.api not in (FETCH, PRODUCE)], ids=str)
@pytest.mark.parametrize("locked", [True, False], ids=["without-rights", "with-all-rights"])
def test_no_list_of_any_request_holds_the_loop(
    watched: tuple[Served, LoopWatch], asked: LongRequest, locked: bool
) -> None:
    served, watch = watched
    if locked:
        served.broker.access.install(OPS_ALONE)
    else:
        served.broker.access.install(AccessPolicy())
    watch.hold(lambda: _ask(served, asked, 8_000 if locked else 1_000))


def _fetch(wait_ms: int = 0, *, topics: int = 1, partitions: int = 1) -> Message:
    return {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "topics": [
            {
                "topic": "wide" if topics == 1 else f"no topic {topic}",
                "partitions": [
                    {"partition": each, "fetch_offset": 0, "partition_max_bytes": 50 << 20}
                    for each in range(partitions)
                ],
            }
            for topic in range(topics)
        ],
    }


def _produce(records: bytes, topic: str = "orders", *, topics: int = 1, partitions: int = 1) -> Message:
    parts = [{"index": each, "records": records} for each in range(partitions)]
    names = [topic] if topics == 1 else [f"no topic {each}" for each in range(topics)]
    return {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": n, "partition_data": parts} for n in names]}


def _batch(count: int = 1, value: bytes = b"v", codec: Compression = Compression.NONE) -> bytes:
    now = SYSTEM.now_ms()
    return bytes(encode_records([KafkaRecord(each, now, None, value, []) for each in range(count)], codec=codec))


def _answers(served: Served, api: Api, version: int, *messages: Message) -> list[bytes]:
    sent = b"".join(frame(api, version, api.encode_request(each, version)) for each in messages)
    with RawClient(served.address, 120) as client:
        sending = Thread(target=client.send, args=(sent,))
        sending.start()
        found = [client.receive() for _ in messages]
        sending.join()
    return found


def _all(served: Served, watch: LoopWatch, api: Api, version: int, *messages: Message) -> list[Message]:
    """Send all at once on one connection, and look how the loop is held; return the answers."""
    found = watch.hold(lambda: _answers(served, api, version, *messages), one_request=len(messages) == 1)
    at = 5 if api.is_flexible(version) else 4
    return [api.decode_answer(each, version, at) for each in found]


@pytest.mark.parametrize("locked", [True, False], ids=["without-rights", "with-all-rights"])
@pytest.mark.parametrize("asked", [{"topics": WIDE}, {"partitions": WIDE}], ids=["topics", "partitions"])
@pytest.mark.parametrize("version", [11, 12])
def test_a_fetch_of_thousands_of_partitions_holds_up_nobody(
    watched: tuple[Served, LoopWatch], version: int, asked: dict[str, int], locked: bool
) -> None:
    served, watch = watched
    served.broker.access.install(OPS_ALONE if locked else AccessPolicy())
    (found,) = _all(served, watch, FETCH, version, _fetch(**asked))
    assert len(found["responses"]) == asked.get("topics", 1)


@pytest.mark.parametrize("locked", [True, False], ids=["without-rights", "with-all-rights"])
@pytest.mark.parametrize("asked", [{"topics": WIDE}, {"partitions": WIDE}], ids=["topics", "partitions"])
def test_a_produce_to_thousands_of_partitions_holds_up_nobody(
    watched: tuple[Served, LoopWatch], asked: dict[str, int], locked: bool
) -> None:
    served, watch = watched
    served.broker.access.install(OPS_ALONE if locked else AccessPolicy())
    (found,) = _all(served, watch, PRODUCE, 7, _produce(_batch(), "wide", **asked))
    assert len(found["responses"]) == asked.get("topics", 1)


def test_a_fetch_that_every_record_wakes_holds_up_nobody(watched: tuple[Served, LoopWatch]) -> None:
    served, watch = watched
    served.broker.access.install(AccessPolicy())
    wanted = FETCH.encode_request(_fetch(2_000, partitions=WIDE) | {"min_bytes": 1 << 20}, 11)

    def wake() -> None:
        with RawClient(served.address, 120) as client:
            client.send(frame(FETCH, 11, wanted))
            _answers(served, PRODUCE, 7, *(_produce(_batch(), "wide") for _ in range(300)))
            client.receive()

    watch.hold(wake, one_request=False)


def test_the_metadata_of_a_topic_of_thousands_of_partitions_holds_up_nobody(watched: tuple[Served, LoopWatch]) -> None:
    served, watch = watched
    served.broker.access.install(AccessPolicy())
    served.broker.topics.version += 1  # so that the topic is encoded again
    (found,) = _all(served, watch, METADATA, 9, {"topics": [{"name": "wide"}]})
    assert len(found["topics"][0]["partitions"]) == WIDE


@pytest.mark.parametrize(
    ("topic", "sent"),
    [
        ("wide", {"records": 1, "partitions": 300}),
        ("orders", {"records": 1, "bytes": 12 << 20}),
        ("keyed", {"records": 50_000}),
        ("keyed", {"records": 1, "bytes": 16 << 20, "codec": Compression.ZSTD}),
    ],
    ids=["partitions-never-opened", "large", "keys", "keys-compressed"],
)
def test_what_goes_into_files_is_checked_without_holding_anybody_up(
    watched_files: tuple[Served, LoopWatch], topic: str, sent: dict[str, Any]
) -> None:
    served, watch = watched_files
    served.broker.access.install(AccessPolicy())
    codec = sent.get("codec", Compression.NONE)
    batch = _batch(sent["records"], bytes(sent.get("bytes", 1)), codec)
    (found,) = _all(served, watch, PRODUCE, 7, _produce(batch, topic, partitions=sent.get("partitions", 1)))
    assert {each["error_code"] for each in found["responses"][0]["partition_responses"]} == {0}


def test_a_large_answer_is_sent_without_holding_anybody_up(watched_files: tuple[Served, LoopWatch]) -> None:
    served, watch = watched_files
    served.broker.access.install(AccessPolicy())
    size = 12 << 20
    _all(served, watch, PRODUCE, 7, _produce(_batch(1, bytes(size)), "orders", partitions=2))
    asked = _fetch()
    asked["topics"][0] |= {"topic": "orders"}
    asked["topics"][0]["partitions"][0] |= {"partition": 1}

    def fetch() -> None:
        with RawClient(served.address, 120) as client:
            client.send(frame(FETCH, 11, FETCH.encode_request(asked, 11)))
            assert len(client.receive()) > size

    for _ in range(2):
        watch.hold(fetch)


@pytest.mark.parametrize("api", [PRODUCE, API_VERSIONS], ids=["produce", "versions"])
def test_thousands_of_small_requests_at_once_hold_up_nobody(
    watched: tuple[Served, LoopWatch], watched_files: tuple[Served, LoopWatch], api: Api
) -> None:
    asked = _produce(_batch()) if api is PRODUCE else {}
    for served, watch in (watched, watched_files):
        served.broker.access.install(AccessPolicy())
        version = 7 if api is PRODUCE else 0
        assert len(_all(served, watch, api, version, *[asked] * 3_000)) == 3_000
