"""Lists leave out what who asks may not know of."""

from penstock.wire.kafka.apis.groups import OFFSET_COMMIT, OFFSET_FETCH
from penstock.wire.kafka.apis.topics import METADATA
from tests.access.doors import KafkaDoor, TlsClient
from tests.access.house import PASSWORD, House

GROUP = "orders-mixed"


def connected(house: House, name: str) -> TlsClient:
    client = KafkaDoor().connect(house)
    assert client.sasl("PLAIN", f"\0{name}\0{PASSWORD}".encode()) == 0
    return client


def places(client: TlsClient) -> list[str]:
    """Return the topics that a group has places in, as far as they are shown."""
    answer = client.ask(OFFSET_FETCH, {"group_id": GROUP, "topics": None, "require_stable": False}, 7)
    return [each["name"] for each in answer["topics"]]


def test_all_places_of_a_group_are_those_of_topics_that_may_be_seen(house: House) -> None:
    part = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [part]} for name in ("orders", "payroll")]
    asked = {"group_id": GROUP, "generation_id": -1, "member_id": "", "topics": topics}
    with connected(house, "ops") as ops, connected(house, "ana") as ana:
        answer = ops.ask(OFFSET_COMMIT, asked, 2)
        assert {one["error_code"] for each in answer["topics"] for one in each["partitions"]} == {0}
        assert places(ops) == ["orders", "payroll"]
        assert places(ana) == ["orders"]


def test_all_topics_are_those_that_may_be_seen(house: House) -> None:
    with connected(house, "ana") as ana:
        found = ana.ask(METADATA, {"topics": None, "allow_auto_topic_creation": False}, 4)["topics"]
    assert sorted(each["name"] for each in found) == ["orders", "orders-secret"]
