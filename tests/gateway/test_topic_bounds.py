"""A topic's own `max.message.bytes` is heeded at the doors beside Kafka's, too."""

from __future__ import annotations

import grpc
import pytest

from penstock.clock import SYSTEM
from penstock.errors import ValueTooLarge
from penstock.log.contract import Keep
from penstock.log.store import Store
from penstock.log.topics import MESSAGE_BYTES
from penstock.operate.ports import KafkaAdministration
from penstock.operate.producer import RecordWanted, produce, publish_by_hand
from tests.gateway.grpc_client import ServedGrpc, event, reason
from tests.gateway.served import ServedRest
from tests.gateway.test_tinyq import ServedTinyq
from tests.gateway.tinyq_client import OldClient

pytestmark = pytest.mark.usefixtures("brisk")
FITS, TOO_LARGE = b"x" * 100, b"x" * 300


def bound(store: Store, value: str | None) -> None:
    """Set the bound as the Kafka port does; it knows of it at once."""
    topic = store.log.create_topic("little", partitions=1)
    KafkaAdministration(store).set_topic(topic, Keep(), {MESSAGE_BYTES: value}, None)
    store.bounds.refresh(SYSTEM.monotonic())


def held(store: Store) -> list[bytes | None]:
    return [each.data for each in store.log.read("little", 0)]


def test_rest_answers_413(rest: ServedRest) -> None:
    bound(rest.store, "200")
    statuses = []
    for value in (FITS, TOO_LARGE, FITS):  # in a thread, in the loop
        answer = rest.client.post("/topics/little/records", content=value)
        statuses.append((answer.status_code, answer.json().get("code")))
    assert statuses == [(201, None), (413, "value_too_large"), (201, None)]
    assert (
        "raise max.message.bytes of the topic"
        in rest.client.post("/topics/little/records", content=TOO_LARGE, headers={"idempotency-key": "a"}).text
    )
    assert held(rest.store) == [FITS, FITS]
    bound(rest.store, None)
    assert rest.client.post("/topics/little/records", content=TOO_LARGE).status_code == 201


def test_grpc_answers_as_to_a_value_too_large(store_url: str) -> None:
    with ServedGrpc(store_url, threads=4) as served:
        bound(served.store, "200")
        served.client.publish("little", event("e-1", "k", FITS))
        with pytest.raises(grpc.RpcError) as refused:
            served.client.publish("little", event("e-2", "k", TOO_LARGE))
        assert reason(refused.value) == "value_too_large"
        assert held(served.store) == [FITS]


def test_tinyq_answers_that_the_size_is_wrong(store_url: str) -> None:
    with ServedTinyq(store_url) as served:
        bound(served.store, "200")
        with OldClient(served.port) as client:
            client.send(3, b"little " + FITS)
            assert client.read(1) == b"\0"
            client.send(3, b"little " + TOO_LARGE)
            assert client.ends_with(21)
        assert held(served.store) == [FITS]


def test_it_is_heeded_by_hand_and_key_and_headers_count(rest: ServedRest) -> None:
    bound(rest.store, "200")
    with pytest.raises(ValueTooLarge, match="topic little has 300 bytes, and the limit is 200"):
        publish_by_hand(rest.store, "little", RecordWanted(TOO_LARGE), token="t", dry_run=True)
    for wanted in (RecordWanted(FITS, key="k" * 101), RecordWanted(FITS, headers=(("name", b"x" * 97),))):
        with pytest.raises(ValueTooLarge, match="has 201 bytes"):
            produce(rest.store, "little", [RecordWanted(b"1"), wanted])
    assert held(rest.store) == []
