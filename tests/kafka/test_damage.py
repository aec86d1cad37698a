"""Damage that Kafka clients meet: they are told a number and do not spin; people are told where it is."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock import metrics
from penstock.cli import group
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.errors import InvalidRequest
from penstock.log.store import open_store
from penstock.model.partition import KAFKA
from penstock.operate import kafka_cluster
from penstock.operate.doctor import PartState
from penstock.operate.log_files import examine_files
from penstock.wire.kafka.apis.records import FETCH
from penstock.wire.kafka.error_numbers import ErrorNumber
from tests.kafka.raw import RawClient
from tests.kafka.served import Served
from tests.suites.records import a_record

SECONDS = 60
_DAMAGED = range(6)  # offsets from the start that reach the damage


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a log whose topic `t` is damaged in the middle of its first segment; `whole` is not."""
    url = f"file://{tmp_path}/log"
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    store = open_store(url)
    migrate(store.database)
    for name in ("t", "whole"):
        store.log.create_topic(name, partitions=1, partitioner=KAFKA)
    for number in range(30):
        now = SYSTEM.now_ms()  # else retention takes it away
        store.log.append("t", [a_record(data=b"%03d" % number * 200, timestamp_ms=now)])
    store.close()
    first = first_segment(url)
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    return url


def first_segment(url: str) -> Path:
    return min(Path(url.removeprefix("file://")).rglob("*.log"))


def fetched(client: RawClient, *places: tuple[str, int], wait_ms: int = 0) -> dict[str, dict[str, Any]]:
    """Ask for some topics from offsets on; return what was said of each."""
    part = {"partition": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    asked = {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20}
    topics = [{"topic": name, "partitions": [part | {"fetch_offset": offset}]} for name, offset in places]
    answer = client.ask(FETCH, {**asked, "isolation_level": 0, "topics": topics}, 4)
    return {each["topic"]: each["partitions"][0] for each in answer["responses"]}


def first_damaged(client: RawClient) -> int:
    """Return the first offset that nothing is served for."""
    return next(at for at in _DAMAGED if fetched(client, ("t", at))["t"]["error_code"])


def test_damage_is_logged_once_and_counted_however_often_clients_ask(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = metrics.KAFKA_DAMAGED.values().get(("t",), 0)
    with (
        caplog.at_level(logging.ERROR, logger="penstock.broker"),
        Served(damaged) as served,
        RawClient(served.address) as client,
    ):
        numbers = [fetched(client, ("t", at))["t"]["error_code"] for at in (*_DAMAGED, *_DAMAGED)]
    assert numbers[0] == ErrorNumber.NONE  # what stands before it is served
    assert set(numbers) == {ErrorNumber.NONE, ErrorNumber.CORRUPT_MESSAGE}
    (line,) = [each.getMessage() for each in caplog.records if "is damaged at byte" in each.getMessage()]
    assert first_segment(damaged).stem in line
    counted = metrics.KAFKA_DAMAGED.values()[("t",)] - before
    assert counted >= numbers.count(ErrorNumber.CORRUPT_MESSAGE) >= 2


def test_a_fetch_that_meets_nothing_but_damage_takes_its_time(damaged: str) -> None:
    with Served(damaged) as served, RawClient(served.address) as client:
        at = first_damaged(client)
        begun = time.monotonic()
        assert fetched(client, ("t", at), wait_ms=400)["t"]["error_code"] == ErrorNumber.CORRUPT_MESSAGE
        assert time.monotonic() - begun >= 0.35


def test_what_other_partitions_have_does_not_wait_for_it(damaged: str) -> None:
    with Served(damaged) as served, RawClient(served.address) as client:
        at = first_damaged(client)
        served.store.log.append("whole", [a_record(data=b"here", timestamp_ms=SYSTEM.now_ms())])
        found = fetched(client, ("t", at), ("whole", 0), wait_ms=3_600_000)  # would end long after the test
        assert found["t"]["error_code"] == ErrorNumber.CORRUPT_MESSAGE
        assert found["whole"]["records"]


def test_confluents_application_is_told(damaged: str) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    with Served(damaged) as served:
        said = {"bootstrap.servers": served.address, "group.id": "g"}
        consumer = kafka.Consumer(said)
        consumer.assign([kafka.TopicPartition("t", 0, 0)])
        numbers = set[int]()
        end = time.monotonic() + SECONDS
        while ErrorNumber.CORRUPT_MESSAGE not in numbers and time.monotonic() < end:
            message = consumer.poll(1)
            if message is not None and message.error() is not None:
                numbers.add(message.error().code())
        consumer.close()
    assert numbers == {ErrorNumber.CORRUPT_MESSAGE}


def test_aiokafka_asks_no_oftener_than_it_would_wait(damaged: str) -> None:
    """It has no back-off of its own: twice in half a second, where it was some thousand times."""
    aiokafka = pytest.importorskip("aiokafka", reason="pip install aiokafka")

    async def read(address: str) -> None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, fetch_max_wait_ms=250)
        await consumer.start()
        consumer.assign([part := aiokafka.TopicPartition("t", 0)])
        consumer.seek(part, 0)
        await asyncio.wait_for(consumer.getone(), SECONDS)
        await consumer.getmany(timeout_ms=1_000, max_records=1_000)
        await consumer.getmany(timeout_ms=500, max_records=1_000)
        await consumer.stop()

    with Served(damaged) as served:
        before = metrics.KAFKA_DAMAGED.values().get(("t",), 0)
        begun = time.monotonic()
        asyncio.run(read(served.address))
        took = time.monotonic() - begun
    reads = metrics.KAFKA_DAMAGED.values()[("t",)] - before
    assert 0 < reads <= 2 * (took / 0.25 + 3)  # each fetch looks twice: when it comes, and when it ends


def test_a_read_that_fails_unexpectedly_ends_its_connection_and_leaves_nothing(
    damaged: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("a defect")

    with Served(damaged) as served:
        for name in ("fetch", "fetch_at_once"):
            with monkeypatch.context() as broken, RawClient(served.address) as client:
                broken.setattr(served.batches, name, fails)
                with pytest.raises(InvalidRequest):  # there is no answer
                    fetched(client, ("t", 0), wait_ms=3_600_000)
        assert served.broker.fetches.waiters.all() == set()
        assert served.broker.flow.answers.used == 0
        with RawClient(served.address) as client:
            assert fetched(client, ("t", 0))["t"]["records"]
    assert "a defect" in caplog.text


@pytest.mark.parametrize("door", ["files", "kafka"])
def test_tail_ends_with_what_it_met(damaged: str, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "_SILENCE_MS", 1_000)

    def tail(url: str) -> Any:
        return CliRunner().invoke(group, ["tail", "t", "--url", url, "--no-follow"])

    if door == "files":
        done = tail(damaged)
    else:
        with Served(damaged) as served:
            done = tail(f"kafka://{served.address}")
    assert done.exit_code == 1
    assert "t/0/0" in done.stdout  # what stands before it is shown
    said = "is damaged at byte" if door == "files" else "gives no record of t/0 from offset"
    assert said in f"{done.output}{done.exception}"


def test_the_doctor_tells_of_it(damaged: str) -> None:
    store = open_store(damaged)
    try:
        (found,) = examine_files(store)
        assert found.state is PartState.BROKEN
        assert found.found.startswith("t/0 is damaged: ")
        (bounded,) = examine_files(store, most_bytes=200)
        assert bounded.state is PartState.OK
        assert bounded.found.endswith(" of 1; the rest: penstock log verify")
    finally:
        store.close()
    done = CliRunner().invoke(group, ["doctor", "--url", damaged])
    assert done.exit_code == 1
