"""Apache Kafka as a source: the same columns, each record once, and what only a real one has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.access.dev_certificates import DevCertificates
from penstock.errors import StoreError, UnknownTopic
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.options import read_options
from tests.crash.waiting import wait_until
from tests.kafka.apache import ApacheKafka, LockedListener, only_in_the_long_set
from tests.pipeline.conftest import Command
from tests.pipeline.test_continue import Driver, places
from tests.pipeline.test_kafka_source import PARTITIONS, KafkaStore
from tests.pipeline.test_source import read_all

PASSWORD = "canary-21c4-password"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Give one real Kafka to all tests here, with a second port behind TLS and a password."""
    only_in_the_long_set()
    folder = tmp_path_factory.mktemp("apache")
    DevCertificates(folder / "tls").make([])
    tls = folder / "tls"
    broker = ApacheKafka(folder, LockedListener("ana", PASSWORD, tls / "server.pem", tls / "server.key"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


class ApacheStore(KafkaStore):
    """A topic of a real Kafka."""

    def __init__(self, broker: ApacheKafka, topic: str, **config: str) -> None:
        super().__init__(broker)  # type: ignore[arg-type]  # of what is served only the address is used
        self.topic = topic
        admin = AdminClient({"bootstrap.servers": broker.address})
        made = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])
        made[topic].result(60)

    def options(self, **given: str) -> Any:
        return super().options(**{"topic": self.topic, **given})

    def fill(self, many: int, topic: str = "", **settings: Any) -> None:
        super().fill(many, topic or self.topic, **settings)

    def consumed(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Return what librdkafka reads of the topic, as it is committed."""
        settings = {"group.id": "g", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.served.address, **settings})
        consumer.assign([TopicPartition(self.topic, each, 0) for each in range(PARTITIONS)])
        found, ended = [], 0
        while ended < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, "nothing comes"
            if message.error():
                ended += 1
                continue
            found.append((message.partition(), message.offset(), message.key(), message.value()))
        consumer.close()
        return sorted(found, key=lambda each: each[:2])


def seen(rows: list[dict[str, Any]]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    told = [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows]
    return sorted(told, key=lambda each: each[:2])


def lake_of(store: ApacheStore, to: Path, checkpoint: Path) -> Driver:
    """Return a query as the command makes it: records without a type go to a table of the topic's name."""
    driver = Driver(store, to, checkpoint, topic=store.topic)  # type: ignore[arg-type]
    driver.sink.options["tableOtherwise"] = "topic"
    return driver


def sent_in_transactions(store: ApacheStore, commits: bool, name: str) -> None:
    producer = Producer({"bootstrap.servers": store.served.address, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(30):
        producer.produce(store.topic, f"{name}-{n}", f"k-{n}")
    producer.flush(60)
    (producer.commit_transaction if commits else producer.abort_transaction)(60)


@pytest.mark.parametrize("codec", CODECS)
def test_columns_are_what_another_client_reads(apache: ApacheKafka, codec: str) -> None:
    store = ApacheStore(apache, f"codec-{codec}")
    settings: dict[str, Any] = {"compression.type": codec, "linger.ms": 50}
    store.fill(500, **settings)
    rows = store.rows()
    assert seen(rows) == store.consumed()
    assert len(rows) == 500
    (one,) = [row for row in rows if row["value"] == b"v-4"]
    assert (one["type"], one["headers"], one["topic"]) == ("placed", [], store.topic)
    assert one["timestamp"] == 1_004_000
    (other,) = [row for row in rows if row["value"] == b"v-3"]
    assert other["headers"] == [{"key": "h", "value": b"1"}]


def test_what_was_taken_back_is_in_no_table(apache: ApacheKafka, tmp_path: Path) -> None:
    store = ApacheStore(apache, "transactions")
    store.fill(50)
    for number, commits in enumerate((False, True, False, True)):
        sent_in_transactions(store, commits, f"t{number}")
    rows = store.rows()
    assert len(rows) == 50 + 2 * 30
    assert seen(rows) == store.consumed()
    driver = lake_of(store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    sent_in_transactions(store, False, "t4")
    sent_in_transactions(store, True, "t5")
    driver.step()
    again = lake_of(store, tmp_path / "lake", tmp_path / "two")
    sent_in_transactions(store, True, "t6")
    again.step()
    assert places(tmp_path / "lake") == [each[:2] for each in store.consumed()]
    assert len(places(tmp_path / "lake")) == 50 + 4 * 30


def test_records_of_an_open_transaction_come_when_it_ends(apache: ApacheKafka, tmp_path: Path) -> None:
    store = ApacheStore(apache, "open")
    store.fill(20)
    producer = Producer({"bootstrap.servers": apache.address, "transactional.id": "open"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for n in range(5):
        producer.produce("open", f"open-{n}", "k")
    producer.flush(60)
    store.fill(20)
    driver = lake_of(store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    assert len(places(tmp_path / "lake")) < 45
    producer.commit_transaction(60)
    driver.step()
    assert places(tmp_path / "lake") == [each[:2] for each in store.consumed()]
    assert len(places(tmp_path / "lake")) == 45


def test_what_compaction_left_is_read_and_gaps_do_not_stop(apache: ApacheKafka, tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}
    store = ApacheStore(apache, "compacted", **config)
    producer = Producer({"bootstrap.servers": apache.address})
    now = 1_700_000_000_000

    def write(rounds: int) -> None:
        nonlocal now
        for _ in range(rounds):
            for n in range(40):
                producer.produce("compacted", f"v-{now}", f"k-{n}", timestamp=now)
            producer.flush(60)
            now += 1_000  # so the next record begins a segment, and this one may be compacted

    write(10)
    wait_until(lambda: len(store.rows()) < 200, "the cleaner has been there", seconds=120)
    rows = store.rows()
    assert seen(rows) == store.consumed()
    assert {row["key"] for row in rows} == {f"k-{n}".encode() for n in range(40)}
    driver = lake_of(store, tmp_path / "lake", tmp_path / "one")
    driver.step()
    write(3)
    driver.step()
    found = places(tmp_path / "lake")
    assert len(found) == len(set(found))
    assert set(found) >= {each[:2] for each in store.consumed()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_over_tls_reads(apache: ApacheKafka, mechanism: str) -> None:
    store = ApacheStore(apache, f"locked-{mechanism}")
    store.fill(60)
    given = {
        "url": f"kafka://{apache.locked_address}",
        "topic": store.topic,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": "ana",
        "kafka.sasl.password": PASSWORD,
        "kafka.ssl.ca.location": str(apache.folder / "tls" / "ca.pem"),
    }

    def read(**others: str) -> list[dict[str, Any]]:
        reader = BatchReader(read_options(given | others))
        return read_all(reader, reader.partitions())

    assert seen(read()) == store.consumed()
    with pytest.raises(StoreError, match="refuses the login of 'ana'") as refused:
        read(**{"kafka.sasl.password": "wrong"})
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreError, match=r"kafka\.security\.protocol"):
        read(**{"kafka.security.protocol": "PLAINTEXT"})
    with pytest.raises(UnknownTopic, match="nowhere"):
        read(topic="nowhere")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_command_fills_a_lake_from_it_and_goes_on(apache: ApacheKafka, command: Command, tmp_path: Path) -> None:
    store = ApacheStore(apache, "command")
    store.fill(300, **{"compression.type": "lz4"})
    sent_in_transactions(store, False, "c0")
    sent_in_transactions(store, True, "c1")  # they say no type
    where = ["--url", store.url, "--topic", "command", "--to", str(tmp_path / "lake"), "--once"]
    for _ in range(2):
        done = command("pipeline", "lake", *where)
        assert done.code == 0, done.err
        assert places(tmp_path / "lake") == [each[:2] for each in store.consumed()]
        store.fill(100)
    assert len(places(tmp_path / "lake")) == 430
    assert {each.name for each in tables_in(tmp_path / "lake")} == {"placed", "paid", "command"}
