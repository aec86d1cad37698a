"""Groups that clients name and leave: what is kept in memory of them is bounded."""

import pytest

from penstock.broker import coordinator
from penstock.broker.coordinator import Coordinator
from penstock.wire.kafka.apis.groups import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from penstock.wire.kafka.apis.transactions import INIT_PRODUCER_ID, LIST_TRANSACTIONS, TXN_OFFSET_COMMIT
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Message
from tests.kafka.raw import RawClient
from tests.kafka.served import Served


def commit(client: RawClient, group: str, offset: int, topic: str = "t", generation: int = -1, member: str = "") -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    asked = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    answer = client.ask(OFFSET_COMMIT, asked, 7)
    number: int = answer["topics"][0]["partitions"][0]["error_code"]
    return number


def committed(client: RawClient, group: str) -> int:
    asked = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}
    offset: int = client.ask(OFFSET_FETCH, asked, 7)["topics"][0]["partitions"][0]["committed_offset"]
    return offset


def join(client: RawClient, group: str, metadata: bytes = b"", version: int = 3, **other: object) -> Message:
    asked = {
        "group_id": group,
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
        **other,
    }
    return client.ask(JOIN_GROUP, asked, version)


def dropped_idle(served: Served, groups: Coordinator) -> int:
    """Let the broker look for groups that nobody uses, in its own thread; return how many it still holds."""
    from concurrent.futures import Future

    done: Future[int] = Future()

    def look() -> None:
        groups._drop_idle(served.broker.clock.monotonic())
        done.set_result(len(groups.held))

    served.broker.call_soon(look)
    return done.result(30)


def test_groups_without_members_leave_memory_and_keep_their_place(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_MOST_IDLE", 5)
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        served.topic("t")
        assert [commit(client, f"g{number}", number) for number in range(20)] == [0] * 20
        assert dropped_idle(served, served.broker.groups) == 5
        assert [committed(client, f"g{number}") for number in range(20)] == list(range(20))
        assert commit(client, "g0", 100) == 0
        assert committed(client, "g0") == 100
        monkeypatch.setattr(coordinator, "_IDLE_SECONDS", -1.0)
        assert dropped_idle(served, served.broker.groups) == 0


def test_a_group_with_a_member_or_a_promised_one_stays(sqlite_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_IDLE_SECONDS", -1.0)
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        assert join(client, "promised", version=5)["error_code"] == 79
        assert join(client, "joined")["error_code"] == 0
        assert dropped_idle(served, served.broker.groups) == 2


def test_a_name_that_nobody_has_joined_makes_no_group(sqlite_store: str) -> None:
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        asked = {"group_id": "ghost", "generation_id": 1, "member_id": "m"}
        assert client.ask(HEARTBEAT, asked, 3)["error_code"] == 25
        assert client.ask(SYNC_GROUP, {**asked, "assignments": []}, 3)["error_code"] == 25
        left = client.ask(LEAVE_GROUP, {"group_id": "ghost", "members": [{"member_id": "m"}]}, 3)
        assert (left["error_code"], left["members"][0]["error_code"]) == (0, 25)
        assert client.ask(LIST_GROUPS, {}, 3)["groups"] == []
        assert served.broker.groups.held == {}


def test_a_request_that_is_refused_makes_no_group(sqlite_store: str) -> None:
    """Names cost nothing: each would be a row that stays for weeks, and a line in every list of groups."""
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        served.topic("t")
        assert join(client, "ghost", member_id="m")["error_code"] == 25
        assert join(client, "ghost", member_id="m", group_instance_id="i", version=5)["error_code"] == 25
        assert join(client, "ghost", protocols=[])["error_code"] == 23
        assert join(client, "ghost", protocol_type="")["error_code"] == 23
        assert join(client, "")["error_code"] == 24
        assert commit(client, "ghost", 1, generation=3, member="m") == 25
        assert commit(client, "ghost", 1, topic="unknown") == 3
        place = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
        held_back = {"group_id": "ghost", "topics": [{"name": "t", "partitions": [place]}]}
        nobody = {"transactional_id": "tx", "producer_id": 7, "producer_epoch": 0}
        (topic,) = client.ask(TXN_OFFSET_COMMIT, nobody | held_back, 2)["topics"]
        assert topic["partitions"][0]["error_code"] == 49
        member = {"member_id": "m", "generation_id": 1}
        (topic,) = client.ask(TXN_OFFSET_COMMIT, nobody | held_back | member, 3)["topics"]
        assert topic["partitions"][0]["error_code"] == 25
        assert client.ask(LIST_GROUPS, {}, 3)["groups"] == []
        assert served.broker.groups.held == {}
        assert commit(client, "ghost", 1) == 0
        assert join(client, "joined")["error_code"] == 0
        assert {each["group_id"] for each in client.ask(LIST_GROUPS, {}, 3)["groups"]} == {"ghost", "joined"}


def test_members_take_no_more_memory_than_they_may(sqlite_store: str) -> None:
    with Served(sqlite_store, groups_bytes=100_000) as served, RawClient(served.address) as client:
        numbers = [join(client, f"g{number}", b"\0" * 30_000)["error_code"] for number in range(5)]
        assert numbers == [0, 0, 0, 81, 81]
        with RawClient(served.address) as other:
            assert join(other, "small")["error_code"] == 0


def test_a_name_longer_than_any_is_refused_and_stored_nowhere(kafka_url: str) -> None:
    with Served(kafka_url) as served, RawClient(served.address) as client:
        served.topic("t")
        for size, refused in ((255, False), (256, True), (30_000, True)):
            group, transaction = "g" * size, "t" * size
            number = ErrorNumber.INVALID_GROUP_ID if refused else ErrorNumber.NONE
            assert commit(client, group, 1) == number
            assert join(client, group, member_id="")["error_code"] == number
            begun = {"transactional_id": transaction, "transaction_timeout_ms": 1000}
            number = ErrorNumber.INVALID_REQUEST if refused else ErrorNumber.NONE
            assert client.ask(INIT_PRODUCER_ID, begun, 2)["error_code"] == number
        told = join(client, "static", version=5, group_instance_id="i" * 256)
        assert told["error_code"] == ErrorNumber.INVALID_REQUEST
        assert {each["group_id"] for each in client.ask(LIST_GROUPS, {}, 2)["groups"]} == {"g" * 255}
        found = client.ask(LIST_TRANSACTIONS, {"state_filters": [], "producer_id_filters": []}, 0)
        assert [len(each["transactional_id"]) for each in found["transaction_states"]] == [255]
