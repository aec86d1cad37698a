"""Requests of Kafka clients that touch two things at once, or none by name: each needs its right."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.principal import Principal
from penstock.access.rate_limits import RateLimit, RateLimiter
from penstock.broker.broker import Broker
from penstock.errors import Unauthenticated
from penstock.testing.clock import FakeClock
from penstock.wire.kafka.apis.groups import OFFSET_COMMIT, OFFSET_DELETE
from penstock.wire.kafka.apis.records import LIST_OFFSETS
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.apis.topics import DELETE_TOPICS
from penstock.wire.kafka.apis.transactions import INIT_PRODUCER_ID
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from tests.access.doors import KafkaDoor, TlsClient
from tests.access.house import PASSWORD, House
from tests.kafka.raw import frame


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Give a house that nobody changes."""
    folder: Path = tmp_path_factory.mktemp("rights")
    with House(folder) as made:
        yield made


def connected(house: House, name: str) -> TlsClient:
    client = KafkaDoor().connect(house)
    assert client.sasl("PLAIN", f"\0{name}\0{PASSWORD}".encode()) is E.NONE
    return client


def test_where_a_group_is_in_a_topic_is_forgotten_by_who_may_read_the_topic(house: House) -> None:
    place = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
    topics = [{"name": "payroll", "partitions": [place]}]
    said = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    with connected(house, "ops") as ops:
        ops.ask(OFFSET_COMMIT, {"group_id": "orders-1", **said, "topics": topics}, 7)
    asked = {"topics": [{"name": "payroll", "partitions": [{"partition_index": 0}]}]}
    with connected(house, "ana") as ana:
        answer = ana.ask(OFFSET_DELETE, {"group_id": "orders-1", **asked}, 0)
        (partition,) = answer["topics"][0]["partitions"]
        assert (answer["error_code"], E(partition["error_code"])) == (0, E.TOPIC_AUTHORIZATION_FAILED)
        foreign = ana.ask(OFFSET_DELETE, {"group_id": "nobodys", **asked}, 0)
        assert E(foreign["error_code"]) is E.GROUP_AUTHORIZATION_FAILED  # whether it is there or not


def test_an_id_does_not_tell_a_name_to_who_may_not_know_it(house: House) -> None:
    topics = house.broker.topics
    uuid = topics.uuid(topics.get("payroll"))
    with connected(house, "ana") as ana:
        asked = {"topics": [{"name": None, "topic_id": uuid}], "timeout_ms": 1000}
        (answer,) = ana.ask(DELETE_TOPICS, asked, 6)["responses"]
        assert (answer["name"], E(answer["error_code"])) == (None, E.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize(("name", "number"), [("ana", E.NONE), ("ben", E.CLUSTER_AUTHORIZATION_FAILED)])
def test_who_may_write_nothing_is_given_no_producer_id(house: House, name: str, number: E) -> None:
    asked = {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
    with connected(house, name) as client:
        assert E(client.ask(INIT_PRODUCER_ID, asked, 4)["error_code"]) is number


def test_names_of_no_topic_do_not_refill_a_bucket() -> None:
    limits = (RateLimit("ana", "*", bytes_per_second=100),)
    access, ana = Access(AccessPolicy(limits=limits), clock=FakeClock()), Principal("ana")
    topics, measures = SimpleNamespace(by_name={"orders": None}), SimpleNamespace(throttled_ms=0)
    broker = cast(Any, SimpleNamespace(access=access, topics=topics, measures=measures))
    slot = cast(Any, SimpleNamespace(request=SimpleNamespace(client_id=""), session=SimpleNamespace(principal=ana)))
    charge = partial(Broker.charge, broker, slot, RateLimiter((), FakeClock()), 0)
    assert charge({"orders": 1000}) > 0
    charge({f"no-{each}": 1 for each in range(20_000)})
    assert charge({"orders": 1}) > 0


def test_logins_that_take_long_hold_up_nobody_who_is_in(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes may ask for a hash, which costs; the threads that ask the store are for others."""
    free = Event()
    secret = {"auth_bytes": f"\0ben\0{PASSWORD}".encode()}

    def slow(*_: object) -> Principal:
        free.wait(60)
        raise Unauthenticated("it took too long")

    said = frame(SASL_AUTHENTICATE, 2, SASL_AUTHENTICATE.encode_request(secret, 2))
    with ExitStack() as stack:
        ops = stack.enter_context(connected(house, "ops"))
        stack.callback(free.set)
        monkeypatch.setattr(house.lock.access, "authenticate_basic", slow)
        for _ in range(8):
            client = stack.enter_context(KafkaDoor().connect(house))
            client.ask(SASL_HANDSHAKE, {"mechanism": "PLAIN"}, 1)
            client.send(said)
        ops.socket.settimeout(10)
        partitions = [{"partition_index": 0, "timestamp": -1}]
        asked = {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions}]}
        (topic,) = ops.ask(LIST_OFFSETS, asked, 5)["topics"]
        assert topic["partitions"][0]["error_code"] == 0
