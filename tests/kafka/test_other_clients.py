"""aiokafka, kafka-python, kcat and kafkajs, unmodified: a smoke of each."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kafka.served import Served
from tests.kafka.test_page import node_client

SECONDS = 60


@pytest.fixture
def topic(served: Served) -> str:
    return served.topic("t", 2)


def test_aiokafka_produces_in_a_transaction_and_a_group_reads_it(served: Served, topic: str) -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="pip install aiokafka")

    async def talk() -> list[bytes]:
        sender = aiokafka.AIOKafkaProducer(
            bootstrap_servers=served.address, transactional_id="aio", compression_type="zstd"
        )
        await sender.start()
        async with sender.transaction():
            for number in range(50):
                await sender.send(topic, str(number).encode(), key=b"k", headers=[("h", b"1")])
        await sender.stop()
        plain = aiokafka.AIOKafkaProducer(bootstrap_servers=served.address, enable_idempotence=True)
        await plain.start()
        placed = await plain.send_and_wait(topic, b"last", key=b"k")
        await plain.stop()
        assert placed.offset >= 50
        reader = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=served.address,
            group_id="aio",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await reader.start()
        found = [(await asyncio.wait_for(reader.getone(), SECONDS)) for _ in range(51)]
        await reader.commit()
        await reader.stop()
        assert found[0].headers == (("h", b"1"),)
        return [each.value for each in found]

    assert asyncio.run(talk()) == [str(number).encode() for number in range(50)] + [b"last"]


def test_kafka_python_produces_reads_as_a_group_and_asks(served: Served, topic: str) -> None:
    kafka = pytest.importorskip("kafka", reason="pip install kafka-python")
    sender = kafka.KafkaProducer(bootstrap_servers=served.address, compression_type="gzip")
    for number in range(100):
        sender.send(topic, str(number).encode(), key=str(number % 7).encode())
    sender.flush(SECONDS)
    sender.close()
    reader = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=served.address,
        group_id="kp",
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
    )
    found = [next(reader).value for _ in range(100)]
    reader.commit()
    assert sorted(map(int, found)) == list(range(100))
    places = [kafka.TopicPartition(topic, each) for each in range(2)]
    assert sum(reader.committed(each) or 0 for each in places) == 100
    reader.close()


def test_kcat_produces_consumes_and_lists(served: Served, topic: str) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")

    def run(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [kcat, "-b", served.address, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        return done.stdout

    for codec in ("none", "gzip", "snappy", "lz4"):
        run("-P", "-t", topic, "-p", "0", "-z", codec, given="".join(f"{codec}{n}\n" for n in range(20)))
    found = run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q").split()
    assert found == [f"{codec}{n}" for codec in ("none", "gzip", "snappy", "lz4") for n in range(20)]
    listed = json.loads(run("-L", "-J"))
    assert [each["topic"] for each in listed["topics"]] == [topic]
    assert run("-Q", "-t", f"{topic}:0:-1").strip().endswith("offset 80")


SCRIPT = """
const { Kafka, logLevel } = require('kafkajs')
const kafka = new Kafka({ clientId: 'js', brokers: [process.argv[2]], logLevel: logLevel.ERROR })
async function main() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, transactionalId: 'js' })
  await producer.connect()
  const tx = await producer.transaction()
  const messages = Array.from({ length: 30 }, (_, n) => ({ key: 'k', value: String(n) }))
  await tx.send({ topic: 't', messages })
  await tx.commit()
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: 'js' })
  await consumer.connect()
  await consumer.subscribe({ topics: ['t'], fromBeginning: true })
  const found = []
  await new Promise(done => consumer.run({ eachMessage: async ({ message }) => {
    found.push(message.value.toString())
    if (found.length === 30) done()
  } }))
  await consumer.disconnect()
  console.log(JSON.stringify(found))
}
main().catch(error => { console.error(error); process.exit(1) })
"""


def test_kafkajs_commits_a_transaction_and_a_group_reads_it(served: Served, topic: str, tmp_path: Path) -> None:
    modules = node_client()
    (tmp_path / "talk.js").write_text(SCRIPT)
    done = subprocess.run(
        ["node", str(tmp_path / "talk.js"), served.address],
        env={**os.environ, "NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [str(number) for number in range(30)]
