"""Two brokers over one PostgreSQL: one goes, clients go on at the other; a stale one writes nothing."""

import time
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest

from penstock.log.store import open_store
from tests.kafka.served import Served, ServedProcess
from tests.kafka.test_confluent import SECONDS, until
from tests.kafka.test_kills import (
    PARTITIONS,
    IdempotentLoad,
    TransactionalLoad,
    _check_plain,
    _check_transactions,
    _has_gone_on,
)

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import Consumer, KafkaException, Producer  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402

pytestmark = pytest.mark.slow

QUICK = {"PENSTOCK_CLUSTER_LEASE_TTL": "3", "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.5"}


@pytest.fixture
def brokers(postgres_store: str) -> Iterator[tuple[str, list[ServedProcess]]]:
    """Give a store and two brokers that serve it."""
    with Served(postgres_store) as made:
        made.topic("plain", PARTITIONS)
        made.topic("tx", PARTITIONS)
    served = [ServedProcess(postgres_store, env=QUICK) for _ in range(2)]
    _wait_for_nodes(",".join(each.address for each in served), 2)
    yield postgres_store, served
    for each in served:
        if each.process.poll() is None:
            each.process.kill()
            each._ended()


def _wait_for_nodes(addresses: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": addresses})
    end = time.monotonic() + SECONDS
    while len(admin.list_topics(timeout=SECONDS).brokers) != count:
        assert time.monotonic() < end
        time.sleep(0.1)


def _wait_for_leader(address: str) -> None:
    """Wait until the broker at an address leads all partitions."""
    admin = AdminClient({"bootstrap.servers": address})
    end = time.monotonic() + SECONDS
    while True:
        found = admin.list_topics(timeout=SECONDS)
        leaders = {each.leader for topic in found.topics.values() for each in topic.partitions.values()}
        if {f"{found.brokers[id].host}:{found.brokers[id].port}" for id in leaders} == {address}:
            return
        assert time.monotonic() < end
        time.sleep(0.1)


def _listed(address: str) -> set[str]:
    """Return the addresses that a broker tells clients of."""
    found = AdminClient({"bootstrap.servers": address}).list_topics(timeout=SECONDS)
    return {f"{each.host}:{each.port}" for each in found.brokers.values()}


def _reader(addresses: str) -> Any:
    reader = Consumer(
        {
            "bootstrap.servers": addresses,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            "isolation.level": "read_committed",
            "socket.timeout.ms": 4000,
        }
    )
    reader.subscribe(["plain"])
    return reader


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_clients_go_on_when_a_broker_goes(brokers: tuple[str, list[ServedProcess]], how: str) -> None:
    url, served = brokers
    addresses = ",".join(each.address for each in served)
    loads = IdempotentLoad(addresses), TransactionalLoad(addresses)
    with closing(_reader(addresses)) as reader:
        for each in loads:
            each.start()
        try:
            seen: set[int] = set()

            def reads_on() -> bool:
                known = len(seen)
                seen.update(int(each.value()) for each in reader.consume(500, 0.2) if each.error() is None)
                return len(seen) > known

            until(reads_on)
            until(lambda: _has_gone_on(loads, (0, 0)))
            gone = served[0]
            gone.kill() if how == "kill" else gone.pause()
            before = len(loads[0].acknowledged), len(loads[1].committed)
            end = time.monotonic() + 90
            while not _has_gone_on(loads, before):
                assert time.monotonic() < end, "producers did not go on"
                reader.consume(100, 0.1)
            known = len(seen)
            while len(seen) < known + 200:
                assert time.monotonic() < end, "the group did not go on"
                reads_on()
            _wait_for_leader(served[1].address)  # its lease is over
            if how == "pause":  # it comes back, and what it had begun is refused or repeated
                gone.resume()
                before = len(loads[0].acknowledged), len(loads[1].committed)
                until(lambda: _has_gone_on(loads, before))
        finally:
            for each in loads:
                each.stopping.set()
            for each in loads:
                each.join(120)
    plain, transactional = loads
    assert not plain.errors
    store = open_store(url)
    try:
        _check_plain(store.log, plain)
        _check_transactions(store.log, transactional)
    finally:
        store.close()


class Copier(Thread):
    """Copies from one topic to another, in transactions that hold its place."""

    def __init__(self, addresses: str) -> None:
        super().__init__(daemon=True)
        self.reader = _reader(addresses)
        self.producer = Producer({"bootstrap.servers": addresses, "transactional.id": "copier"})
        self.copied, self.stopping = 0, Event()

    def run(self) -> None:
        """Copy until it is told to stop."""
        self.producer.init_transactions(SECONDS)
        while not self.stopping.is_set():
            found = [each for each in self.reader.consume(20, 0.2) if each.error() is None]
            if not found:
                continue
            try:
                self.producer.begin_transaction()
                for each in found:
                    self.producer.produce("tx", each.value())
                places = self.reader.position(self.reader.assignment())
                self.producer.send_offsets_to_transaction(places, self.reader.consumer_group_metadata(), SECONDS)
                self.producer.commit_transaction(SECONDS)
                self.copied += len(found)
            except KafkaException as exc:
                if not exc.args[0].txn_requires_abort():
                    raise
                self.producer.abort_transaction(SECONDS)


def test_a_copier_in_transactions_goes_on_when_one_of_two_brokers_dies(
    brokers: tuple[str, list[ServedProcess]],
) -> None:
    _, served = brokers
    addresses = ",".join(each.address for each in served)
    load, copier = IdempotentLoad(addresses), Copier(addresses)
    load.start()
    copier.start()
    try:
        until(lambda: copier.copied > 100)
        served[0].kill()
        copied = copier.copied
        end = time.monotonic() + 60
        while copier.copied < copied + 200:
            assert copier.is_alive(), "it has failed"
            assert time.monotonic() < end, "it hangs"
            time.sleep(0.05)
    finally:
        copier.stopping.set()
        load.stopping.set()
        copier.join(SECONDS)
        load.join(SECONDS)


def test_a_dead_broker_is_listed_for_a_while_and_a_stopped_one_is_not(brokers: tuple[str, list[ServedProcess]]) -> None:
    """Clients that come meanwhile, and try the dead address, write and read all the same."""
    url, (dead, left) = brokers
    with ServedProcess(url, env=QUICK) as stopped:
        _wait_for_nodes(left.address, 3)
        assert stopped.stop() == 0
        _wait_for_nodes(left.address, 2)
    dead.kill()
    _wait_for_leader(left.address)
    assert _listed(left.address) == {dead.address, left.address}
    addresses = f"{dead.address},{left.address}"
    producer = Producer({"bootstrap.servers": addresses, "transactional.id": "after"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for number in range(10):
        producer.produce("plain", b"%d" % number)
    producer.commit_transaction(SECONDS)
    seen: set[int] = set()
    with closing(_reader(addresses)) as reader:

        def reads_all() -> bool:
            seen.update(int(each.value()) for each in reader.consume(10, 0.2) if each.error() is None)
            return seen == set(range(10))

        until(reads_all)
    with ServedProcess(url, env=QUICK) as joined:  # which does not take the dead one away
        _wait_for_nodes(left.address, 3)
        assert _listed(joined.address) == {dead.address, left.address, joined.address}


def test_a_coordinator_that_was_replaced_writes_nothing(postgres_store: str) -> None:
    from penstock.broker.group import ClientGroupStore, generation_row
    from penstock.clock import SYSTEM
    from penstock.delivery.client_cursors import ClientCommit, ClientPlace

    with Served(postgres_store) as served:
        served.topic("t", 1)
        topic = served.store.log.topic("t")
        older, newer = (ClientGroupStore(served.store, SYSTEM, owner) for owner in ("older", "newer"))
        held, group = older.take("g")
        taken, _ = newer.take("g")
        place = ClientPlace(topic.id, 0)
        assert not older.commit(held, {place: ClientCommit(5)})
        assert not older.write(held, generation_row(group))
        assert newer.commit(taken, {place: ClientCommit(3)})
        assert newer.committed("g")[0] == {place: ClientCommit(3, None)}
        again, _ = older.take("g")  # the same broker: its former hold is over all the same
        assert not older.commit(held, {place: ClientCommit(5)})
        assert not older.write(held, generation_row(group))
        assert older.write(again, generation_row(group))
        assert older.committed("g")[0] == {place: ClientCommit(3, None)}
