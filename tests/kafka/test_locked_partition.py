"""One partition of PostgreSQL is locked: its own writers wait, and nobody else, at every door."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest

from penstock.gateway.door import Door
from penstock.gateway.settings import GatewaySettings
from penstock.operate.producer import RecordWanted
from tests.kafka.served import Served
from tests.kafka.test_confluent import SECONDS, until

psycopg = pytest.importorskip("psycopg", reason="pip install psycopg")
confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import Producer  # noqa: E402

WRITERS = 12  # more than the broker has threads


@pytest.fixture
def served(postgres_store: str) -> Iterator[Served]:
    """Give a broker over PostgreSQL with a busy topic and a calm one."""
    with Served(postgres_store, threads=4) as made:
        made.topic("busy", 4)
        made.topic("calm")
        yield made


@contextmanager
def locked_heads(served: Served, name: str, partitions: int = 1) -> Iterator[None]:
    """Hold the lock of a topic's first heads, as a transaction does that adds to them."""
    topic = served.store.log.topic(name)
    heads = served.store.database.names.table("head")
    with closing(served.store.database.dialect.connect()) as conn:
        conn.execute("BEGIN")
        text = f"SELECT 1 FROM {heads} WHERE topic_id = %s AND partition < %s FOR UPDATE"
        assert len(conn.execute(text, (topic.id, partitions)).fetchall()) == partitions
        yield
        conn.execute("ROLLBACK")


class Sending:
    """A producer, and the offsets that it was told."""

    def __init__(self, served: Served, **settings: Any) -> None:
        own = {"bootstrap.servers": served.address, "linger.ms": 0, "enable.idempotence": True}
        self.producer, self.offsets = Producer(own | settings), list[int]()

    def send(self, topic: str, partition: int = 0, count: int = 1) -> None:
        """Send records, and let them go."""
        for number in range(count):
            self.producer.produce(topic, b"%d" % number, partition=partition, on_delivery=self._heard)
        self.producer.poll(0)

    def flush(self) -> int:
        """Wait until all is acknowledged; return how many are not."""
        left: int = self.producer.flush(SECONDS)
        return left

    def _heard(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.offsets.append(message.offset())


def _wait_until_handed_over(served: Served, count: int) -> None:
    """Wait until requests to the locked partition have come to the broker."""
    until(lambda: sum(each.pending for each in tuple(served.broker.sessions)) >= count)


def test_a_locked_partition_keeps_no_other_waiting(served: Served) -> None:
    waiting, other = Sending(served), Sending(served)
    with locked_heads(served, "busy"):
        waiting.send("busy", count=3)
        _wait_until_handed_over(served, 1)
        other.send("calm", count=3)
        other.send("busy", partition=1, count=3)
        assert other.flush() == 0
        assert not waiting.offsets
    assert waiting.flush() == 0
    assert waiting.offsets == [0, 1, 2]
    assert sorted(other.offsets) == [0, 0, 1, 1, 2, 2]


def test_more_locked_partitions_than_sessions_keep_no_other_waiting(served: Served) -> None:
    served.topic("wide", WRITERS)
    waiting = [Sending(served) for _ in range(WRITERS)]
    other = Sending(served)
    with locked_heads(served, "wide", WRITERS):
        for partition, each in enumerate(waiting):
            each.send("wide", partition)
        _wait_until_handed_over(served, WRITERS)
        for _ in range(3):
            other.send("calm")
            assert other.flush() == 0
    assert [each.flush() for each in waiting] == [0] * WRITERS
    assert [each.offsets for each in waiting] == [[0]] * WRITERS


def transacting(served: Served, name: str) -> Sending:
    """Return a producer with a transaction open that has sent nothing yet."""
    made = Sending(served, **{"transactional.id": name})
    made.producer.init_transactions(SECONDS)
    made.producer.begin_transaction()
    return made


def test_transactions_that_end_in_a_locked_partition_keep_no_other_waiting(served: Served) -> None:
    waiting, other = [transacting(served, f"w{n}") for n in range(6)], transacting(served, "other")
    for each in waiting:
        each.send("busy")
        assert each.flush() == 0
    with ThreadPoolExecutor(len(waiting)) as threads:
        with locked_heads(served, "busy"):
            ends = [threads.submit(each.producer.commit_transaction, SECONDS) for each in waiting]
            _wait_until_handed_over(served, len(waiting))
            other.send("calm")
            other.producer.commit_transaction(SECONDS)
            assert not any(each.done() for each in ends)
        for end in ends:
            end.result(SECONDS)
    assert served.store.log.bounds("busy", 0).end == len(waiting)


def test_a_producer_in_a_transaction_waits_for_its_own_partitions_only(served: Served) -> None:
    waiting, other = transacting(served, "waiting"), transacting(served, "other")
    waiting.send("busy")
    assert waiting.flush() == 0  # its transaction has the partition now
    with locked_heads(served, "busy"):
        waiting.send("busy")
        _wait_until_handed_over(served, 1)
        other.send("calm")
        other.producer.commit_transaction(SECONDS)
    waiting.producer.commit_transaction(SECONDS)


def test_who_publishes_by_http_grpc_or_tinyq_waits_for_its_own_partition_only(served: Served) -> None:
    """All three add through `Door`, in its threads."""

    async def publish() -> None:
        door = Door("few", served.store, settings=GatewaySettings.load(threads=2))

        def add(topic: str) -> Any:
            return asyncio.ensure_future(door.add(topic, [RecordWanted(b"v")], partition=0))

        with locked_heads(served, "busy"):
            waiting = [add("busy") for _ in range(6)]
            async with asyncio.timeout(SECONDS):
                await add("calm")
                await asyncio.sleep(0)
                await add("calm")
            assert not any(each.done() for each in waiting)
        found = await asyncio.gather(*waiting)
        assert sorted(each[0].offset for each in found) == list(range(6))
        door.close()

    asyncio.run(publish())
