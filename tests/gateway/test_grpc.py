"""gRPC over every kind of store: publishing, reading, consuming, topics and groups, errors."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.gateway.grpc_client import GrpcClient, PublishRequest, ServedGrpc, event, info, reason

pytestmark = pytest.mark.usefixtures("brisk")
C = grpc.StatusCode


@pytest.fixture
def served(store_url: str) -> Iterator[ServedGrpc]:
    """Give a gRPC door with a topic `orders` of four partitions."""
    with ServedGrpc(store_url, threads=4) as made:
        made.store.log.create_topic("orders", partitions=4)
        yield made


@pytest.fixture
def client(served: ServedGrpc) -> GrpcClient:
    return served.client


def read_all(client: GrpcClient, partitions: int = 4) -> list[str]:
    found = [client("Consuming.Read", topic="orders", partition=each) for each in range(partitions)]
    return [record.id for answer in found for record in answer.records]


def test_what_is_published_is_read_with_everything_it_had(client: GrpcClient) -> None:
    sent = event("e-1", "o-1", b'{"total": 42}', headers=[{"name": "tenant", "value": b"\xff"}, {"name": "n"}])
    ((partition, offset),) = client.publish("orders", sent)
    answer = client("Consuming.Read", topic="orders", partition=partition, offset=offset)
    (found,) = answer.records
    assert (found.id, found.key, found.value, found.type) == ("e-1", "o-1", b'{"total": 42}', "order.placed")
    assert (found.topic, found.partition, found.offset) == ("orders", partition, offset)
    assert found.content_type == "application/json"
    assert [(each.name, each.value, each.HasField("value")) for each in found.headers] == [
        ("tenant", b"\xff", True),
        ("n", b"", False),
    ]
    assert (answer.start, answer.end, answer.next_offset) == (0, 1, 1)
    assert not found.HasField("key_bytes")


def test_a_tombstone_is_not_empty_bytes(client: GrpcClient) -> None:
    from penstock.gateway.grpc.messages import message

    wanted = message("Event")
    client.publish("orders", wanted(key="a"), wanted(key="a", value=b""))
    partition = client.publish("orders", wanted(key="a"))[0][0]
    found = client("Consuming.Read", topic="orders", partition=partition).records
    assert [each.HasField("value") for each in found] == [False, True, False]


def test_a_token_adds_once_and_other_events_with_it_are_refused(client: GrpcClient) -> None:
    events = [event(f"e-{number}", f"k-{number}") for number in range(5)]
    first = client.publish("orders", *events, token="t-1")
    assert client.publish("orders", *events, token="t-1") == first
    assert sorted(read_all(client)) == [f"e-{number}" for number in range(5)]
    with pytest.raises(grpc.RpcError) as caught:
        client.publish("orders", event("e-9"), token="t-1")
    assert caught.value.code() is C.FAILED_PRECONDITION
    assert reason(caught.value) == "token_reused"


def test_a_stream_is_answered_in_order_and_keeps_the_order_of_keys(client: GrpcClient) -> None:
    requests = [
        PublishRequest(topic="orders", events=[event(f"{number:03}", "k"), event(f"{number:03}b", "k")])
        for number in range(200)
    ]
    requests[50].token = "once"
    answers = list(client.stream("Publishing.PublishStream", iter(requests)))
    places = [(place.partition, place.offset) for answer in answers for place in answer.places]
    assert [place.id for answer in answers for place in answer.places] == [
        each.id for request in requests for each in request.events
    ]
    assert places == [(places[0][0], number) for number in range(400)]
    assert sum(answer.requests for answer in answers) == 200
    found = client("Consuming.Read", topic="orders", partition=places[0][0], limit=1000).records
    assert [each.id for each in found] == [each.id for request in requests for each in request.events]


def test_a_stream_ends_with_the_first_that_is_refused_and_what_was_before_it_is_answered(client: GrpcClient) -> None:
    requests = [PublishRequest(topic="orders", events=[event(f"{number}", "k")]) for number in range(10)]
    requests[6].events[0].key = "x" * 300
    answers = client.stream("Publishing.PublishStream", iter(requests))
    answered: list[str] = []
    while len(answered) < 6:
        answered += [place.id for place in next(answers).places]
    assert answered == [f"{number}" for number in range(6)]
    with pytest.raises(grpc.RpcError) as caught:
        next(answers)
    assert caught.value.code() is C.INVALID_ARGUMENT
    assert reason(caught.value) == "invalid_key"
    assert sorted(read_all(client)) == [f"{number}" for number in range(6)]


def test_a_group_is_given_records_within_its_credits_and_what_is_acknowledged_does_not_come_again(
    client: GrpcClient,
) -> None:
    client.publish("orders", *(event(f"e-{number}", f"k-{number}") for number in range(6)))
    subscriber = client.subscribe("orders", "mailer", credits=4)
    first = subscriber.records(4)
    assert len(first) == 4
    assert {(each.attempt, each.redelivered) for each in first} == {(1, False)}
    settled = subscriber.ack(*first, id=7)
    assert (settled.id, settled.count, settled.code) == (7, 4, "")
    subscriber.end()
    again = client.subscribe("orders", "mailer")
    rest = again.records(2)
    assert {each.id for each in (*first, *rest)} == {f"e-{number}" for number in range(6)}
    assert again.ack(*rest).count == 2
    again.end()
    assert client("Groups.Get", name="mailer").lag == 0


def test_what_a_client_that_goes_had_in_hand_comes_again_marked(client: GrpcClient) -> None:
    client.publish("orders", event("e-1", "a"))
    first = client.subscribe("orders", "mailer", lease_seconds=3600)
    assert first.records(1)[0].redelivered is False
    first.answers.cancel()
    (again,) = client.subscribe("orders", "mailer").records(1)
    assert (again.id, again.redelivered, again.attempt) == ("e-1", True, 1)


def test_a_nack_is_an_attempt_or_a_dead_letter_and_holds_its_key(client: GrpcClient) -> None:
    client.publish("orders", event("a-1", "a"), event("a-2", "a"), event("b-1", "b"))
    subscriber = client.subscribe("orders", "mailer")
    found = {each.id: each for each in subscriber.records(2)}
    assert found.keys() == {"a-1", "b-1"}
    assert subscriber.ack(found["a-1"], kind="nack", reason="later", after_seconds=0).count == 1
    (again,) = subscriber.records(1)
    assert (again.id, again.attempt, again.redelivered) == ("a-1", 2, True)
    assert subscriber.ack(again, kind="nack", dead=True, reason="broken").count == 1
    (following,) = subscriber.records(1)
    assert following.id == "a-2"
    assert subscriber.ack(following, found["b-1"]).count == 2
    group = client("Groups.Get", name="mailer")
    assert (group.lag, group.dead) == (0, 1)


def test_what_is_not_in_hand_cannot_be_acknowledged_and_the_stream_goes_on(client: GrpcClient) -> None:
    client.publish("orders", event("e-1", "a"))
    subscriber = client.subscribe("orders", "mailer", credits=1)
    (found,) = subscriber.records(1)
    assert subscriber.ack(found).count == 1
    refused = subscriber.ack(found, id=9)
    assert (refused.id, refused.count, refused.code) == (9, 0, "invalid_input")
    assert "in hand" in refused.detail
    client.publish("orders", event("e-2", "a"))
    subscriber.say(credits={"credits": 5})
    assert subscriber.records(1)[0].id == "e-2"


def test_topics_and_groups_are_made_listed_shown_paused_and_deleted(client: GrpcClient) -> None:
    made = client("Topics.Create", name="bills", partitions=2)
    assert (made.name, made.partitions, made.records) == ("bills", 2, 0)
    assert client("Topics.Create", name="bills", partitions=2) == made
    page = client("Topics.List", limit=1)
    assert [each.name for each in page.topics] == ["bills"]
    assert [each.name for each in client("Topics.List", after=page.after).topics] == ["orders"]
    assert client("Groups.Create", name="mailer", topic="bills").topics == ["bills"]
    assert [each.name for each in client("Groups.List").groups] == ["mailer"]
    assert client("Groups.Pause", name="mailer").changed
    assert client("Groups.Get", name="mailer").paused
    assert client("Groups.Resume", name="mailer").changed
    assert client("Groups.Delete", name="mailer").cursors == 2
    assert client("Topics.Delete", name="bills").records == 0
    with pytest.raises(grpc.RpcError) as caught:
        client("Topics.Get", name="bills")
    assert caught.value.code() is C.NOT_FOUND


@pytest.mark.parametrize(
    ("method", "fields", "code", "named"),
    [
        ("Publishing.Publish", {"topic": "none", "events": [event("e")]}, C.NOT_FOUND, "unknown_topic"),
        ("Publishing.Publish", {"topic": "../x"}, C.INVALID_ARGUMENT, "invalid_topic"),
        ("Consuming.Read", {"topic": "orders", "partition": 9}, C.NOT_FOUND, "unknown_partition"),
        ("Consuming.Read", {"topic": "orders", "offset": 5}, C.OUT_OF_RANGE, "offset_out_of_range"),
        ("Consuming.Read", {"topic": "orders", "offset": -1}, C.INVALID_ARGUMENT, "invalid_input"),
        ("Topics.Create", {"name": "orders", "partitions": 5}, C.FAILED_PRECONDITION, "partitions_differ"),
        ("Topics.List", {"after": "?"}, C.INVALID_ARGUMENT, "invalid_page"),
        ("Groups.Get", {"name": "nobody"}, C.NOT_FOUND, "unknown_group"),
    ],
)
def test_errors_have_a_status_and_name_their_code(
    method: str, fields: dict[str, object], code: grpc.StatusCode, named: str, client: GrpcClient
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client(method, **fields)
    assert (caught.value.code(), reason(caught.value)) == (code, named)
    assert info(caught.value).domain == "penstock"
    assert info(caught.value).metadata["retryable"] == "false"
    assert len(caught.value.details()) > 10


def test_nonsense_is_refused_and_nobody_else_notices(client: GrpcClient) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.channel.unary_unary("/penstock.v1.Topics/Get")(b"\xff\xff\xff", timeout=30)
    assert (caught.value.code(), reason(caught.value)) == (C.INVALID_ARGUMENT, "invalid_input")
    with pytest.raises(grpc.RpcError) as caught:
        client.channel.unary_unary("/penstock.v1.Topics/Nothing")(b"", timeout=30)
    assert caught.value.code() is C.UNIMPLEMENTED
    subscriber = client.subscribe("orders", "mailer")
    subscriber.say(begin={"topic": "orders", "group": "mailer"})
    with pytest.raises(grpc.RpcError) as caught:
        next(subscriber.answers)
    assert caught.value.code() is C.INVALID_ARGUMENT
    assert client("Topics.Get", name="orders").partitions == 4


def test_probes_are_told_whether_the_store_answers(client: GrpcClient) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    for name in ("", "penstock.v1.Publishing"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    watching = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
    assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
    watching.cancel()


def test_the_trace_of_a_call_is_that_of_its_events(served: ServedGrpc) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with GrpcClient(served.listener.address, traceparent=trace) as client:
        ((partition, _),) = client.publish("orders", event("e-1", "a"))
    (record,) = served.store.log.read("orders", partition)
    assert record.trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_a_port_that_is_taken_is_refused(served: ServedGrpc) -> None:
    from penstock.errors import AddressRefused
    from penstock.gateway.grpc.door import GrpcDoor
    from penstock.gateway.grpc.listener import GrpcListener

    port = int(served.listener.address.rpartition(":")[2])
    other = GrpcListener(GrpcDoor(served.store), "127.0.0.1", port)
    with pytest.raises(AddressRefused):
        other.start()
    other.stop()
