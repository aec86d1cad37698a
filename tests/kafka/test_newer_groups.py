"""The newer group protocol (KIP-848) is not served: who asks for it hears so at once."""

import pytest

from penstock.wire.kafka.apis.groups import CONSUMER_GROUP_HEARTBEAT
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

UNSUPPORTED_VERSION = 35
SECONDS = 30


def test_a_member_of_the_newer_protocol_is_told_the_remedy(served: Served) -> None:
    with RawClient(served.address) as client:
        for version in (0, 1):
            answer = client.ask(CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "member_id": "m"}, version)
            assert answer["error_code"] == UNSUPPORTED_VERSION
            assert "group.protocol=classic" in answer["error_message"]
    assert not served.broker.groups.held


def test_librdkafka_reports_it_as_fatal(served: Served) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    served.topic("t")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": served.address, "group.id": "g", "group.protocol": "consumer"}
    )
    consumer.subscribe(["t"])
    message = consumer.poll(SECONDS)
    consumer.close()
    assert message is not None
    assert message.error().code() == confluent_kafka.KafkaError._FATAL
