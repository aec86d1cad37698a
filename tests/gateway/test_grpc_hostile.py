"""Connections and messages that mean no good: each ends in its time, and others are served."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.database.migrations import migrate
from penstock.gateway.grpc import methods
from penstock.gateway.subscription import GroupSubscription
from penstock.log.store import open_store
from tests.crash.waiting import wait_until
from tests.gateway.doors_process import DoorsProcess
from tests.gateway.grpc_client import GrpcClient, GrpcProcess, PublishRequest, ServedGrpc, event, reason
from tests.gateway.http2 import DATA, END, HEADERS, HEADERS_END, PREFACE, Http2Client, frame, head, message

C = grpc.StatusCode
MIB = 1024 * 1024


@pytest.fixture
def served(sqlite_store: str) -> Iterator[ServedGrpc]:
    with ServedGrpc(sqlite_store, body_time=0.3, body_bytes=100_000, connections=20) as made:
        made.store.log.create_topic("orders", partitions=1)
        yield made


def is_served(served: ServedGrpc) -> bool:
    return len(served.client.publish("orders", event("e"))) == 1


def opened(served: ServedGrpc) -> socket.socket:
    return socket.create_connection(address_of(served), timeout=30)


@pytest.mark.parametrize("sent", [b"", PREFACE[:10], PREFACE, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\0" * 5000])
def test_a_connection_that_says_nothing_useful_holds_nobody_up(served: ServedGrpc, sent: bytes) -> None:
    with closing(opened(served)) as slow:
        slow.sendall(sent)
        assert is_served(served)


def test_a_message_that_never_comes_is_given_up(served: ServedGrpc) -> None:
    never = Event()

    def messages() -> Iterator[bytes]:
        never.wait(30)
        yield b""

    call = served.client.channel.stream_unary("/penstock.v1.Topics/Get")
    with pytest.raises(grpc.RpcError) as caught:
        call(messages(), timeout=30)
    never.set()
    assert (caught.value.code(), reason(caught.value)) == (C.DEADLINE_EXCEEDED, "body_late")


def test_more_calls_than_are_admitted_are_refused_and_those_that_run_go_on(served: ServedGrpc) -> None:
    subscribers = [served.client.subscribe("orders", "mailer") for _ in range(15)]  # of 20, for one address
    for each in subscribers:
        each.say(ack={"id": 1, "ranges": [{"partition": 0}]})
        assert next(each.answers).settled.code == "invalid_input"  # it runs
    with pytest.raises(grpc.RpcError) as caught:
        served.client("Topics.Get", name="orders")
    assert caught.value.code() is C.UNAVAILABLE
    assert "as many of 20 calls as one client may (gateway.connections)" in str(caught.value.details())
    for each in subscribers:
        each.answers.cancel()


def test_more_watches_of_the_health_than_are_admitted_are_refused(served: ServedGrpc) -> None:
    stub = HealthStub(served.client.channel)
    watches = [stub.Watch(HealthCheckRequest(), timeout=30) for _ in range(6)]  # of 8, for one address
    for each in watches:
        next(each)
    with pytest.raises(grpc.RpcError) as caught:
        next(stub.Watch(HealthCheckRequest(), timeout=30))
    assert (caught.value.code(), reason(caught.value)) == (C.UNAVAILABLE, "gateway_busy")
    assert "as many of 8 watches as one client may (a quarter of gateway.connections" in str(caught.value.details())
    for each in watches:
        each.cancel()


def test_open_streams_of_the_description_hold_places_as_other_calls_do(served: ServedGrpc) -> None:
    asked = ServerReflectionRequest(list_services="")

    def described(never: Event) -> Any:
        def requests() -> Iterator[Any]:
            yield asked
            never.wait(60)

        return ServerReflectionStub(served.client.channel).ServerReflectionInfo(requests(), timeout=60)

    never = Event()
    streams = [described(never) for _ in range(15)]  # of 20, for one address
    for each in streams:
        assert next(each).list_services_response.service
    with pytest.raises(grpc.RpcError) as caught:
        next(described(never))
    assert (caught.value.code(), reason(caught.value)) == (C.UNAVAILABLE, "gateway_busy")
    for each in streams[:5]:
        each.cancel()
    never.set()
    for each in streams[5:]:
        assert not list(each)
    wait_until(lambda: not served.door.calls.used, "all places are given back")
    assert is_served(served)


def test_a_message_that_is_too_large_is_refused(served: ServedGrpc) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        served.client.publish("orders", event("e", value=b"x" * 200_000))
    assert caught.value.code() is C.RESOURCE_EXHAUSTED
    assert is_served(served)


def test_metadata_that_are_too_long_are_refused(served: ServedGrpc) -> None:
    with GrpcClient(served.listener.address, padding="x" * 60_000) as client, pytest.raises(grpc.RpcError):
        client("Topics.Get", name="orders")
    assert is_served(served)


def test_a_bomb_is_refused_before_it_takes_the_memory(sqlite_store: str) -> None:
    store = open_store(sqlite_store)
    migrate(store.database)
    store.log.create_topic("orders", partitions=1)
    store.close()
    with GrpcProcess(sqlite_store) as gateway, GrpcClient(gateway.address) as client:
        client.publish("orders", event("e-1"))
        before = psutil.Process(gateway.process.pid).memory_info()
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(gateway.address, options) as channel:
            bomb = channel.unary_unary("/penstock.v1.Publishing/Publish")
            with pytest.raises(grpc.RpcError) as caught:
                bomb(bytes(150 * MIB), timeout=60, compression=grpc.Compression.Gzip)
            assert caught.value.code() is C.RESOURCE_EXHAUSTED
        grown = peak(gateway.process.pid) - before.rss
        assert grown < 64 * MIB
        assert client.publish("orders", event("e-2"))


def test_what_is_packed_within_the_bounds_is_unpacked_and_answers_are_packed_for_who_asks(served: ServedGrpc) -> None:
    with GrpcClient(served.listener.address, packed=True) as client:
        ((partition, offset),) = client.publish("orders", event("e", value=b"x" * 50_000))
        (found,) = client("Consuming.Read", topic="orders", partition=partition, offset=offset).records
        assert found.value == b"x" * 50_000


def peak(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    with open(f"/proc/{pid}/status") as status:
        (line,) = [each for each in status if each.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def test_messages_of_all_calls_have_a_bound(sqlite_store: str) -> None:
    with ServedGrpc(sqlite_store, body_bytes=100_000, bodies_bytes=100_000) as served:
        served.store.log.create_topic("orders", partitions=1)
        room = served.door.bodies
        room.admit(None, 99_000)  # others have them in hand
        with pytest.raises(grpc.RpcError) as caught:
            served.client.publish("orders", event("e", value=bytes(2_000)))
        assert (caught.value.code(), reason(caught.value)) == (C.UNAVAILABLE, "gateway_busy")
        asked = PublishRequest(topic="orders", events=[event("f", value=bytes(2_000))])
        answers = served.client.stream("Publishing.PublishStream", iter([asked]))
        assert is_served(served)  # a small one finds room, and the stream waits
        assert not list(served.store.log.read("orders", 0))[1:]
        assert served.listener._loop is not None
        served.listener._loop.call_soon_threadsafe(room.give_back, None, 99_000)
        assert len(next(answers).places) == 1
        assert not list(answers)
        wait_until(lambda: room.used == 0, "all is given back")


def test_what_a_subscription_says_counts_until_it_is_written_down(
    served: ServedGrpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    async def answer(*_: object) -> int:
        used.append(served.door.bodies.used)
        return 1

    monkeypatch.setattr(GroupSubscription, "answer", answer)
    subscriber = served.client.subscribe("orders", "mailer")
    subscriber.say(nack={"id": 1, "reason": "x" * 50_000})
    assert next(subscriber.answers).settled.count == 1
    assert used[0] > 50_000
    wait_until(lambda: served.door.bodies.used == 0, "all is given back")
    subscriber.answers.cancel()


def test_messages_that_are_being_sent_count_from_their_first_byte(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC tells of a message when it is whole: so each that may come has the room of the largest."""
    never = Event()

    def messages() -> Iterator[bytes]:
        never.wait(30)
        yield b""

    monkeypatch.setattr(methods, "_SHORT_SECONDS", 0.3)
    with ServedGrpc(sqlite_store, body_time=600, body_bytes=100_000, bodies_bytes=600_000) as served:
        call = served.client.channel.stream_unary("/penstock.v1.Topics/Get")
        calls = [call.future(messages(), timeout=600) for _ in range(6)]
        wait_until(lambda: served.door.reading.used == 200_000, "two of them are read")
        wait_until(lambda: any(each.done() for each in calls), "little room is left, and none is given up sooner")
        assert {reason(each.exception()) for each in calls if each.done()} == {"body_late"}
        assert served.door.reading.used <= 200_000
        never.set()
        wait_until(lambda: not served.door.reading.used, "all is given back")


def test_of_a_call_that_waits_for_room_no_more_than_a_window_comes(sqlite_store: str) -> None:
    """By its estimate of the line, grpcio received all of a message that nobody had asked it for."""
    size = 4 * MIB
    with ServedGrpc(sqlite_store, body_bytes=size, bodies_bytes=4 * size) as served:
        place = address_of(served)
        room = served.door.reading
        begun = frame(HEADERS, head("Publishing.Publish"), stream=1, flags=HEADERS_END)
        with Http2Client(place) as calls:
            room.count(None, room.most)  # others have all of it
            calls.send(begun)
            assert calls.send_data(message(bytes(size - 5)), patience=0.5) < 256 * 1024
            room.count(None, -room.most)
        with Http2Client(place) as calls:
            calls.send(begun)
            assert calls.send_data(message(bytes(size - 5)), patience=30) == size


def test_connections_that_say_nothing_leave_descriptors_to_the_other_doors(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a connection without a call grpcio tells nobody: they took all descriptors of the process."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (40, 40))
    with ServedGrpc(sqlite_store) as served, ExitStack() as stack:
        served.store.log.create_topic("orders", partitions=1)
        assert is_served(served)
        many = [stack.enter_context(Http2Client(address_of(served))) for _ in range(40)]
        wait_until(lambda: has_ended(many[-1]), "30 are taken")
        assert not has_ended(many[0])
        assert is_served(served)  # on its connection


def address_of(served: ServedGrpc) -> tuple[str, int]:
    return "127.0.0.1", int(served.listener.address.rpartition(":")[2])


def has_ended(client: Http2Client) -> bool:
    """Return whether the other end has closed it, and not said anything in its place."""
    client.socket.setblocking(False)
    try:
        while client.socket.recv(4096):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_stream_of_somebody_without_any_right_is_not_read(sqlite_store: str) -> None:
    with ServedGrpc(sqlite_store) as served:
        served.door.access.install(AccessPolicy(rules=(parse_rule("allow ops * * *"),)))
        for method in ("Publishing/PublishStream", "Consuming/Subscribe"):
            stream = served.client.channel.stream_stream(f"/penstock.v1.{method}")
            never = Event()
            with pytest.raises(grpc.RpcError) as caught:
                next(stream((never.wait(30) and b"" for _ in range(1)), timeout=20))
            never.set()
            assert caught.value.code() is C.PERMISSION_DENIED


def test_a_head_that_is_no_text_ends_its_call_and_nothing_else(tmp_path: Path) -> None:
    """One such path ended the loop of grpcio that takes all calls, and with it the door."""
    with DoorsProcess(tmp_path, doors=("grpc",)) as served:
        for given, sent in [(b".Topics", b".\xb2opics"), (b"content-type", b"content\xb2type")] * 2:
            with Http2Client(served.place("grpc")) as raw:
                odd = head("Topics.List").replace(given, sent)
                raw.send(frame(HEADERS, odd, stream=1, flags=HEADERS_END))
                raw.send(frame(DATA, message(b""), stream=1, flags=END))
                assert raw.until(HEADERS).stream == 1
        with GrpcClient(served.addresses["grpc"]) as client:
            assert client.publish("orders", event("e"))
            with pytest.raises(grpc.RpcError) as caught:
                client.channel.unary_unary("/penstock.v1.Nobody/Knows")(b"", timeout=30)
            assert caught.value.code() is C.UNIMPLEMENTED
        assert served.stop() == 0
        assert served.complaints == []
