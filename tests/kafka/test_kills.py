"""The broker is killed under load: nothing acknowledged is lost or doubled, no transaction is half."""

import random
import time
from threading import Event, Thread
from typing import Any

import pytest

from penstock.log.store import open_store
from tests.kafka.served import Served, ServedProcess
from tests.services.budget import Budget, level_from_environment

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import KafkaException, Producer  # noqa: E402

pytestmark = pytest.mark.slow

PARTITIONS, PARTS = 4, 5


class IdempotentLoad(Thread):
    """Produces numbers and keeps what was acknowledged: value to (partition, offset)."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.errors: list[Any] = []
        self.stopping = Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 4000,
                "request.timeout.ms": 4000,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for _ in range(20):
                self._producer.produce("plain", str(number), partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.01)
        self._producer.flush(90)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[int(message.value())] = message.partition(), message.offset()


class TransactionalLoad(Thread):
    """Commits transactions of several records and keeps the numbers of those that were acknowledged."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.stopping = Event()

    def run(self) -> None:
        number, producer = 0, None
        while not self.stopping.is_set():
            try:
                producer = producer or self._made()
                producer.begin_transaction()
                for part in range(PARTS):
                    producer.produce("tx", f"{number}-{part}", partition=part % PARTITIONS)
                if number % 7 == 3:
                    producer.abort_transaction(30)
                    self.aborted.add(number)
                else:
                    self._commit(producer)
                    self.committed.add(number)
            except (KafkaException, BufferError) as exc:
                producer = self._recovered(producer, exc)
            number += 1

    def _made(self) -> Any:
        config = {
            "bootstrap.servers": self._address,
            "transactional.id": "load",
            "transaction.timeout.ms": 60_000,
            "message.timeout.ms": 30_000,
            "reconnect.backoff.max.ms": 200,
            "socket.timeout.ms": 4000,
        }
        made = Producer(config)
        made.init_transactions(60)
        return made

    def _commit(self, producer: Any) -> None:
        while True:
            try:
                producer.commit_transaction(60)
                return
            except KafkaException as exc:
                if not exc.args[0].retriable():
                    raise

    def _recovered(self, producer: Any, exc: Exception) -> Any:
        error = exc.args[0]
        if producer is not None and isinstance(exc, KafkaException) and error.txn_requires_abort():
            try:
                producer.abort_transaction(60)
                return producer
            except KafkaException:
                return None
        return None


def test_killed_again_and_again_under_load(kafka_url: str, budget: Budget) -> None:
    if kafka_url.startswith("sqlite:") and level_from_environment() != "long":
        pytest.skip("of the databases PostgreSQL is killed; SQLite in the long set (./scripts/test --long)")
    with Served(kafka_url) as made:
        made.topic("plain", PARTITIONS)
        made.topic("tx", PARTITIONS)
    served = ServedProcess(kafka_url)
    port = served.port
    loads = IdempotentLoad(served.address), TransactionalLoad(served.address)
    for each in loads:
        each.start()
    kills = 0
    try:
        for turn in budget("kafka.kills"):
            draw = random.Random(turn.seed)
            before = len(loads[0].acknowledged), len(loads[1].committed)
            end = time.monotonic() + 60
            while time.monotonic() < end and not _has_gone_on(loads, before):
                time.sleep(draw.uniform(0.05, 0.3))
            assert _has_gone_on(loads, before), "clients did not go on after a kill"
            served.kill()
            kills += 1
            served = ServedProcess(kafka_url, port=port)
    finally:
        for each in loads:
            each.stopping.set()
        for each in loads:
            each.join(120)
        served.stop()
    assert kills
    plain, transactional = loads
    assert not plain.errors
    store = open_store(kafka_url)
    try:
        _check_plain(store.log, plain)
        _check_transactions(store.log, transactional)
    finally:
        store.close()


def _has_gone_on(loads: tuple[IdempotentLoad, TransactionalLoad], before: tuple[int, int]) -> bool:
    return len(loads[0].acknowledged) > before[0] + 100 and len(loads[1].committed) > before[1] + 2


def _all(log: Any, topic: str) -> list[tuple[int, int, bytes]]:
    found = []
    for partition in range(PARTITIONS):
        start, end = log.bounds(topic, partition)
        at = start
        while at < end:
            some = log.read(topic, partition, at, 5000)
            if not some:
                break
            found += [(partition, each.offset, each.data) for each in some]
            at = some[-1].offset + 1
    return found


def _check_plain(log: Any, load: IdempotentLoad) -> None:
    places = {}
    for partition, offset, value in _all(log, "plain"):
        assert int(value) not in places, f"{value!r} is there twice"
        places[int(value)] = partition, offset
    lost = load.acknowledged.keys() - places.keys()
    assert not lost, f"{len(lost)} acknowledged records are lost"
    moved = [number for number, place in load.acknowledged.items() if places[number] != place]
    assert not moved
    for partition in range(PARTITIONS):
        own = [number for number, place in sorted(places.items(), key=lambda pair: pair[1]) if place[0] == partition]
        assert own == sorted(own), "order is not kept"


def _check_transactions(log: Any, load: TransactionalLoad) -> None:
    seen: dict[int, list[int]] = {}
    for _, _, value in _all(log, "tx"):
        name, _, part = value.decode().partition("-")
        seen.setdefault(int(name), []).append(int(part))
    for number, parts in seen.items():
        assert sorted(parts) == list(range(PARTS)), f"transaction {number} is there as {parts}"
    assert load.committed <= seen.keys(), "a committed transaction is lost"
    assert not load.aborted & seen.keys(), "an aborted transaction is there"
