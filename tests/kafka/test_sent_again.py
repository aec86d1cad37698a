"""Clients whose answer is lost send the same bytes again: so repetitions are told from batches of others."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.produce import ProduceBegun, ProduceHandler
from penstock.broker.session import Slot
from penstock.wire.kafka.record_batch import read_header
from tests.kafka.maven import KAFKA, jars
from tests.kafka.served import Served
from tests.services.budget import level_from_environment

RECORDS, SECONDS = 300, 120
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class LostAnswers:
    """Every third answer to Produce is lost with its connection; what was sent is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: Counter[tuple[int, ...]] = Counter()
        self.requests = 0
        done = ProduceHandler._done

        def lost(producing: ProduceHandler, slot: Slot, begun: ProduceBegun, *rest: Any) -> None:
            for each in begun.produced.parts:
                header = read_header(each.records or b"")
                self.sent[each.partition, *header[9:12], header.crc] += 1
            self.requests += 1
            if self.requests % 3 == 1:
                slot.session.close()
            done(producing, slot, begun, *rest)

        monkeypatch.setattr(ProduceHandler, "_done", lost)

    def check(self, served: Served) -> None:
        """Some were sent again; none with other bytes; each is in the log once."""
        assert max(self.sent.values()) > 1, "nothing was sent again"
        sequences = {key[:-1] for key in self.sent}
        assert len(sequences) == len(self.sent), "the same sequence came with other bytes"
        log = served.store.log
        values = [each.data for number in range(2) for each in log.read("orders", number)]
        assert len(values) == len(set(values)) == RECORDS


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> LostAnswers:
    return LostAnswers(monkeypatch)


@pytest.fixture
def orders(kafka_url: str) -> Iterator[Served]:
    with Served(kafka_url, threads=4) as served:
        served.topic("orders", partitions=2)
        yield served


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_sends_the_same_bytes_again(orders: Served, lost: LostAnswers, codec: str) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    said = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 1, "retry.backoff.ms": 10}
    producer = kafka.Producer({"bootstrap.servers": orders.address, **said, "reconnect.backoff.ms": 10})
    for number in range(RECORDS):
        producer.produce("orders", b"value-%d" % number, b"%d" % number)
        if number % 20 == 0:
            producer.poll(0)
    assert producer.flush(SECONDS) == 0
    lost.check(orders)


def test_aiokafka_sends_the_same_bytes_again(orders: Served, lost: LostAnswers) -> None:
    kafka = pytest.importorskip("aiokafka", reason="pip install aiokafka")

    async def send() -> None:
        made = {"enable_idempotence": True, "compression_type": "gzip", "retry_backoff_ms": 10}
        async with kafka.AIOKafkaProducer(bootstrap_servers=orders.address, **made) as producer:
            futures = [await producer.send("orders", b"value-%d" % each, b"%d" % each) for each in range(RECORDS)]
            await asyncio.gather(*futures)

    asyncio.run(send())
    lost.check(orders)


JAVA = """
import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

public class Again {
    public static void main(String[] said) throws Exception {
        for (int codec = 2; codec < said.length; codec++) {
            Map<String, Object> how = Map.of("bootstrap.servers", said[0], "compression.type", said[codec],
                "linger.ms", "1", "retry.backoff.ms", "10", "reconnect.backoff.ms", "10");
            int many = Integer.parseInt(said[1]);
            try (var producer = new KafkaProducer<>(how, new StringSerializer(), new StringSerializer())) {
                for (int n = 0; n < many; n++)
                    producer.send(new ProducerRecord<>("orders", "" + n, said[codec] + n));
                producer.flush();
            }
        }
    }
}
"""


def run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_java_sends_the_same_bytes_again(orders: Served, lost: LostAnswers, tmp_path: Path) -> None:
    if level_from_environment() != "long":
        pytest.skip("Java's producer is run in the long set (./scripts/test --long)")
    lib = jars(f"kafka-clients-{KAFKA}", f"org.apache.kafka:kafka-clients:{KAFKA}")
    (tmp_path / "Again.java").write_text(JAVA)
    each = RECORDS // len(CODECS)
    run(["java", "-cp", f"{lib}/*", "Again.java", orders.address, str(each), *CODECS], tmp_path)
    lost.check(orders)
