"""The database is away for a while: clients wait for their coordinator, and what they had begun goes on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from penstock.database.database import Database
from penstock.errors import StoreUnreachable
from penstock.wire.kafka.apis.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from penstock.wire.kafka.apis.records import LIST_OFFSETS
from penstock.wire.kafka.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
)
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Api, Message
from tests.crash.test_outage import a_server_of_its_own
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

SECONDS = 30
_PRODUCER = {"producer_id": 1, "producer_epoch": 0}
_MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
_COMMIT = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}

# What each request of a coordinator's is answered while its store is away, as all clients wait after it:
# Java's producer without a transactional id, and older Java consumers that ask where a group is, do so
# after COORDINATOR_LOAD_IN_PROGRESS only.
ASKED: list[tuple[Api, int, Message, E]] = [
    (INIT_PRODUCER_ID, 1, {"transactional_id": "x", "transaction_timeout_ms": 1000}, E.COORDINATOR_LOAD_IN_PROGRESS),
    (INIT_PRODUCER_ID, 1, {"transactional_id": None, "transaction_timeout_ms": 1000}, E.COORDINATOR_LOAD_IN_PROGRESS),
    (
        ADD_PARTITIONS_TO_TXN,
        2,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
        },
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (ADD_OFFSETS_TO_TXN, 2, {"transactional_id": "x", **_PRODUCER, "group_id": "g"}, E.COORDINATOR_NOT_AVAILABLE),
    (
        TXN_OFFSET_COMMIT,
        2,
        {"transactional_id": "x", **_PRODUCER, "group_id": "g", "topics": [{"name": "t", "partitions": [_COMMIT]}]},
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (END_TXN, 2, {"transactional_id": "x", **_PRODUCER, "committed": True}, E.COORDINATOR_NOT_AVAILABLE),
    (LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []}, E.COORDINATOR_LOAD_IN_PROGRESS),
    (
        JOIN_GROUP,
        5,
        {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (SYNC_GROUP, 3, {**_MEMBER, "assignments": []}, E.COORDINATOR_NOT_AVAILABLE),
    (HEARTBEAT, 3, _MEMBER, E.COORDINATOR_NOT_AVAILABLE),
    (
        LEAVE_GROUP,
        3,
        {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}]},
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (
        OFFSET_COMMIT,
        6,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "t", "partitions": [_COMMIT]}],
        },
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (
        OFFSET_FETCH,
        5,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        E.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    (
        OFFSET_FETCH,
        8,
        {"groups": [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}], "require_stable": False},
        E.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    (
        OFFSET_DELETE,
        0,
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
        E.COORDINATOR_NOT_AVAILABLE,
    ),
    (LIST_GROUPS, 2, {}, E.COORDINATOR_NOT_AVAILABLE),
    (DESCRIBE_GROUPS, 3, {"groups": ["g"], "include_authorized_operations": False}, E.COORDINATOR_NOT_AVAILABLE),
    (DELETE_GROUPS, 1, {"groups_names": ["g"]}, E.COORDINATOR_NOT_AVAILABLE),
    (
        LIST_OFFSETS,
        2,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        E.KAFKA_STORAGE_ERROR,
    ),
]


class Away:
    """A database that can be taken away, before what it is asked or after."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.before, self.after = Event(), Event()
        repeat = Database._repeat

        def repeated(database: Database, opened: Any, work: Callable[[Any], Any]) -> Any:
            if self.before.is_set():
                raise StoreUnreachable("shop", "the test has taken it away")
            done = repeat(database, opened, work)
            if self.after.is_set() and "TransactionStore.end" in getattr(work, "__qualname__", ""):
                self.after.clear()
                raise StoreUnreachable("shop", "the test has taken it away before the answer")
            return done

        patch.setattr(Database, "_repeat", repeated)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    """Give the switch of a database."""
    return Away(monkeypatch)


@pytest.fixture
def shop(away: Away, tmp_path: Path) -> Iterator[Served]:
    """Give a broker with a topic."""
    with Served(f"sqlite:///{tmp_path}/shop.db", threads=4) as served:
        served.topic("t")
        yield served
        away.before.clear()


def _numbers(answer: Any) -> set[int]:
    """Return all numbers of errors in an answer."""
    if isinstance(answer, list):
        return {number for each in answer for number in _numbers(each)}
    if not isinstance(answer, dict):
        return set()
    own = {value for name, value in answer.items() if name.endswith("error_code")}
    return own | {number for each in answer.values() for number in _numbers(each)}


@pytest.mark.parametrize(
    ("api", "version", "request_body", "number"), ASKED, ids=lambda each: getattr(each, "name", None)
)
def test_a_coordinator_whose_store_is_away_asks_clients_to_wait(
    shop: Served, away: Away, api: Api, version: int, request_body: Message, number: E
) -> None:
    with RawClient(shop.address) as client:
        away.before.set()
        answer = client.ask(api, request_body, version)
    assert _numbers(answer) - {0} == {number}


def _producer(served: Served, name: str = "x") -> Any:
    made = Producer({"bootstrap.servers": served.address, "transactional.id": name})
    made.init_transactions(SECONDS)
    return made


def _values(served: Served) -> list[bytes]:
    reader = Consumer(
        {
            "bootstrap.servers": served.address,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        reader.assign([TopicPartition("t", 0, 0)])
        found = []
        while (message := reader.poll(SECONDS)) is not None and message.error() is None:
            found.append(message.value())
        return found
    finally:
        reader.close()


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
def test_a_transaction_ends_once_the_store_is_back(shop: Served, away: Away, committed: bool) -> None:
    producer = _producer(shop)
    producer.begin_transaction()
    producer.produce("t", value=b"1")
    producer.flush(SECONDS)
    away.before.set()
    back = Timer(1, away.before.clear)
    back.start()
    producer.commit_transaction(SECONDS) if committed else producer.abort_transaction(SECONDS)
    back.join()
    assert _values(shop) == ([b"1"] if committed else [])


def test_a_commit_whose_answer_was_lost_is_told_to_be_done(shop: Served, away: Away) -> None:
    producer = _producer(shop)
    producer.begin_transaction()
    producer.produce("t", value=b"1")
    producer.flush(SECONDS)
    away.after.set()
    producer.commit_transaction(SECONDS)
    assert not away.after.is_set()
    producer.begin_transaction()
    producer.produce("t", value=b"2")
    producer.commit_transaction(SECONDS)
    assert _values(shop) == [b"1", b"2"]


def test_an_abort_after_a_commit_that_took_place_is_refused_as_apache_kafka_does(shop: Served) -> None:
    with RawClient(shop.address) as client:
        begun = client.ask(INIT_PRODUCER_ID, {"transactional_id": "x", "transaction_timeout_ms": 1000}, 1)
        who = {"transactional_id": "x", "producer_id": begun["producer_id"], "producer_epoch": 0}
        client.ask(
            ADD_PARTITIONS_TO_TXN,
            {
                **{f"v3_and_below_{name}": value for name, value in who.items()},
                "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
            },
            2,
        )
        ends = [client.ask(END_TXN, {**who, "committed": each}, 2) for each in (True, True, False)]
    assert [each["error_code"] for each in ends] == [E.NONE, E.NONE, E.INVALID_TXN_STATE]


@pytest.mark.slow
def test_producers_and_groups_go_on_after_a_restart_of_postgresql() -> None:
    with a_server_of_its_own() as server, Served(server.create_database(), threads=4) as served:
        served.topic("t")

        def restarted(work: Callable[[], object]) -> None:
            server.stop()
            back = Timer(2, server.start)
            back.start()
            work()
            back.join()

        producer = _producer(served)
        producer.begin_transaction()
        producer.produce("t", value=b"1")
        producer.flush(SECONDS)
        restarted(lambda: producer.commit_transaction(SECONDS))
        producer.begin_transaction()
        reader = Consumer({"bootstrap.servers": served.address, "group.id": "g"})
        try:
            restarted(
                lambda: producer.send_offsets_to_transaction(
                    [TopicPartition("t", 0, 1)], reader.consumer_group_metadata(), SECONDS
                )
            )
            restarted(lambda: producer.commit_transaction(SECONDS))
            found: list[Any] = []
            restarted(lambda: found.extend(reader.committed([TopicPartition("t", 0)], SECONDS)))
            assert [each.offset for each in found] == [1]
        finally:
            reader.close()
        restarted(lambda: _producer(served, "y"))
        assert _values(served) == [b"1"]
