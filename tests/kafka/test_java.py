"""Apache Kafka's own tools and clients in Java, from the jars that Maven has; the page's snippet is in CI."""

import subprocess
from pathlib import Path

import pytest

from tests.kafka.maven import kafka_jars
from tests.kafka.served import Served
from tests.services.budget import level_from_environment

pytestmark = pytest.mark.slow
SECONDS = 120

TRANSACTIONS = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.*;

public class Transactions {
    static KafkaProducer<String, String> producer(String address) {
        Map<String, Object> said = Map.of("bootstrap.servers", address, "transactional.id", "java");
        var made = new KafkaProducer<>(said, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static KafkaConsumer<String, String> consumer(Map<String, Object> said) {
        return new KafkaConsumer<>(said, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        Map<String, Object> reading = Map.of("bootstrap.servers", address, "group.id", "java",
            "auto.offset.reset", "earliest", "isolation.level", "read_committed",
            "enable.auto.commit", "false");
        try (var admin = Admin.create(Map.of("bootstrap.servers", address))) {
            var topics = List.of(new NewTopic("in", 1, (short) 1), new NewTopic("out", 1, (short) 1));
            admin.createTopics(topics).all().get();
        }
        var first = producer(address);
        first.beginTransaction();
        for (int n = 0; n < 10; n++) first.send(new ProducerRecord<>("in", "k", "v" + n));
        first.commitTransaction();
        first.beginTransaction();
        first.send(new ProducerRecord<>("in", "k", "taken back"));
        first.flush();
        first.abortTransaction();
        var second = producer(address);
        try {
            first.beginTransaction();
            first.send(new ProducerRecord<>("in", "k", "fenced"));
            first.commitTransaction();
            System.out.println("> not fenced");
        } catch (ProducerFencedException expected) {
            System.out.println("> fenced");
        }
        try (var consumer = consumer(reading)) {
            consumer.subscribe(List.of("in"));
            int copied = 0;
            while (copied < 10) {
                var some = consumer.poll(Duration.ofSeconds(1));
                if (some.isEmpty()) continue;
                second.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> places = new HashMap<>();
                for (var each : some) {
                    second.send(new ProducerRecord<>("out", each.key(), each.value()));
                    places.put(new TopicPartition("in", 0), new OffsetAndMetadata(each.offset() + 1));
                    copied++;
                }
                second.sendOffsetsToTransaction(places, consumer.groupMetadata());
                second.commitTransaction();
            }
        }
        try (var admin = Admin.create(Map.of("bootstrap.servers", address))) {
            var at = admin.listConsumerGroupOffsets("java").partitionsToOffsetAndMetadata().get();
            System.out.println("> at " + at.get(new TopicPartition("in", 0)).offset());
            System.out.println("> groups " + admin.listGroups().all().get().size());
            var configs = admin.describeTopics(List.of("in", "out")).allTopicNames().get();
            System.out.println("> topics " + configs.size());
        }
        try (var consumer = consumer(reading)) {
            var place = new TopicPartition("out", 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            List<String> found = new ArrayList<>();
            while (found.size() < 10)
                consumer.poll(Duration.ofSeconds(1)).forEach(each -> found.add(each.value()));
            System.out.println("> " + String.join(",", found));
        }
        second.close();
    }
}
"""


def _java(*arguments: str, given: str = "", folder: Path | None = None) -> str:
    command = ["java", "-Xmx256m", "-cp", f"{kafka_jars()}/*", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-500:]
    return done.stdout


@pytest.fixture
def long_set() -> None:
    """Skip what starts Java many times but in the long set."""
    if level_from_environment() != "long":
        pytest.skip("Java's tools in full are run in the long set (./scripts/test --long)")


def test_java_transacts_is_fenced_and_copies_exactly_once(long_set: None, served: Served, tmp_path: Path) -> None:
    (tmp_path / "Transactions.java").write_text(TRANSACTIONS)
    said = _java("Transactions.java", served.address, folder=tmp_path).splitlines()
    values = ",".join(f"v{number}" for number in range(10))
    results = [line[2:] for line in said if line.startswith("> ")]  # the fenced producer logs between them
    assert results == ["fenced", "at 10", "groups 1", "topics 2", values]


def test_the_console_tools_produce_consume_and_administer(long_set: None, served: Served) -> None:
    at = ["--bootstrap-server", served.address]
    topics = "org.apache.kafka.tools.TopicCommand"
    _java(topics, *at, "--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=1000000")
    assert _java(topics, *at, "--list").split() == ["t"]
    described = _java(topics, *at, "--describe", "--topic", "t")
    assert "PartitionCount: 2" in described
    assert "retention.ms=1000000" in described
    lines = "".join(f"k{number}:v{number}\n" for number in range(20))
    produce = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    _java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "t", *produce, given=lines)
    consume = ["--topic", "t", "--group", "console", "--from-beginning", "--max-messages", "20"]
    found = _java("org.apache.kafka.tools.consumer.ConsoleConsumer", *at, *consume).split()
    assert sorted(found) == sorted(f"v{number}" for number in range(20))
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    shown = _java(groups, *at, "--describe", "--group", "console")
    assert sum(int(line.split()[3]) for line in shown.splitlines() if line.startswith("console")) == 20
    reset = ["--reset-offsets", "--group", "console", "--topic", "t", "--to-earliest", "--execute"]
    _java(groups, *at, *reset)
    offsets = _java("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", "t").split()
    assert sum(int(each.split(":")[2]) for each in offsets) == 20
    _java(groups, *at, "--delete", "--group", "console")
    _java(topics, *at, "--delete", "--topic", "t")
    assert _java(topics, *at, "--list").split() == []
