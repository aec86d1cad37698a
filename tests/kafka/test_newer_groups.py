"""The newer group protocol (KIP-848) is not served, so it is not offered: clients that choose go by that."""

from penstock.wire.kafka.apis.cluster import API_VERSIONS
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

CONSUMER_GROUP_HEARTBEAT = 68


def test_the_newer_group_protocol_is_not_offered(served: Served) -> None:
    with RawClient(served.address) as client:
        asked = {"client_software_name": "raw", "client_software_version": "1"}
        offered = {each["api_key"] for each in client.ask(API_VERSIONS, asked, 3)["api_keys"]}
    assert 11 in offered
    assert CONSUMER_GROUP_HEARTBEAT not in offered
