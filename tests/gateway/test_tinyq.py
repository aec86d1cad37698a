"""The TinyQ port on every kind of store: the old protocol byte for byte, and negotiated frames."""

from __future__ import annotations

import hashlib
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import cramjam
import pytest

from penstock.access.access import Access
from penstock.access.password import token_digest
from penstock.access.policy import AccessPolicy
from penstock.access.rate_limits import RateLimit
from penstock.access.rule import parse_rule
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.errors import InvalidInput
from penstock.gateway.lease import LeasedGroup
from penstock.gateway.settings import GatewaySettings, TinyqSettings
from penstock.gateway.tinyq.door import BUILT_IN, TinyqDoor
from penstock.gateway.tinyq.listener import TinyqListener
from penstock.gateway.tinyq.negotiated import NegotiatedSession
from penstock.log.store import open_store
from penstock.model.limits import LimitsSettings
from penstock.model.record import Record
from penstock.operate import dead, groups
from penstock.wire.tinyq.frames import TinyqCode
from penstock.wire.tinyq.frames import TinyqCommand as C
from penstock.wire.tinyq.messages import BY_POLICY, SNAPPY, ZSTD
from tests.crash.waiting import wait_until
from tests.gateway.tinyq_client import NewClient, OldClient

PASSWORD = hashlib.sha256(b"secret").hexdigest()
pytestmark = pytest.mark.usefixtures("brisk")


class ServedTinyq:
    """A TinyQ port in this process."""

    def __init__(self, url: str, access: Access | None = None, **settings: Any) -> None:
        self.store = open_store(url)
        migrate(self.store.database)
        settings = {"password_sha256": PASSWORD, **settings}
        self.door = TinyqDoor(
            self.store, access=access, settings=TinyqSettings.load(**settings), gateway=GatewaySettings.load(threads=4)
        )
        self.listener = TinyqListener(self.door, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        return int(self.listener.address.rpartition(":")[2])

    def __enter__(self) -> ServedTinyq:
        self.listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.stop()
        self.store.close()


@pytest.fixture
def tinyq(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedTinyq]:
    monkeypatch.setenv("PENSTOCK_RETRY_POLICY", "fixed")
    monkeypatch.setenv("PENSTOCK_RETRY_FIXED_DELAY", "0.05")
    monkeypatch.setenv("PENSTOCK_RETRY_MAX_RETRIES", "1")
    with ServedTinyq(store_url) as served:
        yield served


@pytest.fixture
def light(sqlite_store: str) -> Iterator[ServedTinyq]:
    with ServedTinyq(sqlite_store, max_connections=4) as served:
        yield served


@pytest.fixture(scope="module")
def light_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTinyq]:
    """Give one port for the requests that are refused."""
    with ServedTinyq(f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db") as served:
        yield served


@pytest.fixture
def hasty(sqlite_store: str) -> Iterator[ServedTinyq]:
    """Give a port that waits a moment for a frame."""
    with ServedTinyq(sqlite_store, frame_time=0.3) as served:
        yield served


def lag(tinyq: ServedTinyq, group: str = "tinyq") -> int:
    found = groups.show(tinyq.store, group).group
    return found.lag + found.waiting


def test_publish_subscribe_receive_clear_and_delete_on_one_connection(tinyq: ServedTinyq) -> None:
    """One handshake for all commands, the topic without its space, one map for all."""
    with OldClient(tinyq.port) as client:
        assert client.ask(1, b"a") == 0
        assert client.ask(1, b"a") == 0
        assert client.ask(3, b"a b c") == 0
        assert client.ask(3, b"a \x00\xff ") == 0
        client.send(4, b"a")
        assert [client.message(), client.message()] == [b"b c", b"\x00\xff "]
        wait_until(lambda: lag(tinyq) == 0, "what was sent is settled")
        assert [each.name for each in tinyq.store.log.topics()] == ["a"]
        with OldClient(tinyq.port) as other:
            assert other.ask(2, b"a") == 31
        assert client.ask(200, b"a") == 0
        assert client.ask(201, b"a") == 0
        assert tinyq.store.log.topics() == []


def test_a_message_goes_to_one_of_those_who_consume(tinyq: ServedTinyq) -> None:
    with OldClient(tinyq.port) as publisher:
        for number in range(200):
            assert publisher.ask(3, b"jobs %d" % number) == 0
        seen: list[bytes] = []
        with OldClient(tinyq.port) as one, OldClient(tinyq.port) as two:
            for each in (one, two):
                each.send(4, b"jobs")
            both = {one.socket: one, two.socket: two}
            while len(seen) < 200:
                ready, _, _ = select.select(list(both), [], [], 30)
                assert ready
                seen += [both[each].message() for each in ready]
            assert sorted(map(int, seen)) == list(range(200))
            assert not select.select(list(both), [], [], 0.2)[0]


def test_a_message_goes_to_each_of_those_who_listen(tinyq: ServedTinyq) -> None:
    with OldClient(tinyq.port) as publisher:
        assert publisher.ask(2, b"news") == 0
        assert publisher.ask(3, b"news before") == 0
        with NewClient(tinyq.port) as one, NewClient(tinyq.port) as two:
            for each in (one, two):
                each.subscribe("news")
            assert publisher.ask(3, b"news after") == 0
            assert [each.receive()["payload"] for each in (one, two)] == [b"after"] * 2
        with OldClient(tinyq.port) as other:
            assert other.ask(1, b"news") == 31


def test_nothing_is_dropped_while_a_reader_is_slow(tinyq: ServedTinyq) -> None:
    """The seed kept 1024 messages and dropped the oldest."""
    with NewClient(tinyq.port) as publisher, OldClient(tinyq.port) as reader:
        reader.send(4, b"many")
        for number in range(1500):
            publisher.publish("many", b"%d" % number)
        assert [int(reader.message()) for _ in range(1500)] == list(range(1500))


def test_frames_may_come_in_pieces_of_every_size(light: ServedTinyq) -> None:
    """A body of the largest size in pieces, and every frame split at every byte."""
    body = b"big " + bytes(10_240_000 - 4)
    with OldClient(light.port) as client:
        frame = struct.pack(">BI", 3, len(body)) + body
        sizes = Random(7)
        at = 0
        while at < len(frame):
            size = sizes.choice((1, 10, 1000, 65536))
            client.socket.sendall(frame[at : at + size])
            at += size
        assert client.code() == 0
        small = struct.pack(">BI", 3, 7) + b"small x"
        for cut in range(1, len(small)):
            client.socket.sendall(small[:cut])
            client.socket.sendall(small[cut:])
            assert client.code() == 0
    (record,) = light.store.log.read("big", 0)
    assert record.data == body[4:]
    assert len(light.store.log.read("small", 0)) == len(small) - 1


@pytest.mark.parametrize(
    ("code", "frame", "ends"),
    [
        (10, b"", True),
        (11, struct.pack(">BI", 99, 2) + b"ab", False),
        (11, struct.pack(">BI", 6, 0), False),
        (20, b"\x03\x00", True),
        (21, struct.pack(">BI", 3, 10_240_001), False),
        (30, struct.pack(">BI", 3, 9) + b"abc", True),
        (31, struct.pack(">BI", 3, 3) + b"abc", False),
        (31, struct.pack(">BI", 1, 2) + b"\xff\xfe", False),
        (31, struct.pack(">BI", 1, 9) + b"../../etc", False),
        (31, struct.pack(">BI", 200, 4) + b"none", False),
        (31, struct.pack(">BI", 254, 2) + b"ab", False),
        (31, struct.pack(">BI", 254, 7) + b"\x07\x09\0\0\0\0\0", False),
    ],
)
def test_every_error_is_one_byte_and_the_end(light_once: ServedTinyq, code: int, frame: bytes, ends: bool) -> None:
    with OldClient(light_once.port) as client:
        client.socket.sendall(frame)
        if ends:
            client.socket.shutdown(socket.SHUT_WR)
        assert client.ends_with(code)


def test_what_is_sent_ahead_is_carried_out_in_order_and_answered_one_by_one(tinyq: ServedTinyq) -> None:
    def frame(command: int, body: bytes) -> bytes:
        return struct.pack(">BI", command, len(body)) + body

    sent = [frame(1, b"a"), *(frame(3, b"a %d" % number) for number in range(300))]
    sent += [frame(3, b"b x"), frame(1, b"c"), frame(3, b"a last"), frame(3, b"c y"), frame(3, b"no-space")]
    with OldClient(tinyq.port) as client:
        client.socket.sendall(b"".join(sent))
        assert client.read(len(sent) - 1) == bytes(len(sent) - 1)
        assert client.ends_with(31)
    log = tinyq.store.log
    held = [each.data for each in log.read("a", 0, limit=1000)]
    assert held == [*(b"%d" % number for number in range(300)), b"last"]
    assert [each.data for each in log.read("b", 0)] == [b"x"]
    assert [each.data for each in log.read("c", 0)] == [b"y"]


def test_one_that_is_refused_among_those_sent_ahead_ends_them_and_what_was_before_it_is_kept(
    light: ServedTinyq,
) -> None:
    def frame(body: bytes) -> bytes:
        return struct.pack(">BI", 3, len(body)) + body

    light.door.limits = LimitsSettings.load(event_bytes=1000)
    with OldClient(light.port) as client:
        client.socket.sendall(b"".join([frame(b"a 1"), frame(b"a 2"), frame(b"a " + b"x" * 2000), frame(b"a 3")]))
        assert client.read(2) == bytes(2)
        assert client.ends_with(21)
    assert [each.data for each in light.store.log.read("a", 0)] == [b"1", b"2"]


def test_an_internal_error_is_50(light: ServedTinyq) -> None:
    with OldClient(light.port) as client:
        light.door.add = lambda *_, **__: 1 // 0  # type: ignore[assignment, method-assign]
        client.send(3, b"a b")
        assert client.ends_with(50)


@pytest.mark.parametrize("shown", [hashlib.sha256(b"other").hexdigest(), BUILT_IN, "z" * 64])
def test_a_wrong_password_is_40(light_once: ServedTinyq, shown: str) -> None:
    with OldClient(light_once.port, None) as client:
        assert client.code() == 100
        client.socket.sendall(shown.encode())
        assert client.ends_with(40)


@pytest.mark.parametrize("said", [b"", b"  \r\n", PASSWORD.encode()[:63]])
def test_silence_is_41(sqlite_store: str, said: bytes) -> None:
    with ServedTinyq(sqlite_store, auth_timeout=0.3) as served, OldClient(served.port, None) as client:
        assert client.code() == 100
        client.socket.sendall(said)
        assert client.ends_with(41)


def test_white_space_around_the_password_is_ignored(light_once: ServedTinyq) -> None:
    with OldClient(light_once.port, None) as client:
        assert client.code() == 100
        client.socket.sendall(b" \t" + PASSWORD.upper().encode() + b"\r\n")
        assert client.code() == 0
        assert client.ask(1, b"a") == 0


def test_a_frame_that_never_ends_is_closed(hasty: ServedTinyq) -> None:
    with OldClient(hasty.port) as client:
        client.socket.sendall(b"\x03\x00\x00")
        assert client.code() == -1


def test_one_too_many_of_an_address_is_told_51_and_silent_ones_take_no_place(light: ServedTinyq) -> None:
    """Of four places an address gets three; and there are eight for those who have yet to say a password."""
    held = [OldClient(light.port) for _ in range(3)]
    held += [OldClient(light.port, None) for _ in range(40)]
    try:
        with OldClient(light.port, None) as late:
            assert late.code() == 100
            late.socket.sendall(PASSWORD.encode())
            assert late.ends_with(51)
    finally:
        for each in held:
            each.close()

    def is_admitted() -> bool:
        with OldClient(light.port, None) as again:
            return again.code() == 100

    wait_until(is_admitted, "there is room again")


@pytest.mark.parametrize("password", [BUILT_IN, "abc", ""])
def test_a_port_that_would_admit_everybody_or_nobody_does_not_start(sqlite_store: str, password: str) -> None:
    with closing(open_store(sqlite_store)) as store, pytest.raises(InvalidInput, match="password"):
        TinyqDoor(store, settings=TinyqSettings.load(password_sha256=password))


def test_a_token_is_published_once_and_given_the_same_place(tinyq: ServedTinyq) -> None:
    with NewClient(tinyq.port) as client:
        token = bytes(range(16))
        first = client.publish("orders", b"1", token=token, key="k", type="order.placed", tag=1)
        again = client.publish("orders", b"1", token=token, key="k", type="order.placed", tag=1)
        assert (first["code"], again["partition"], again["offset"]) == (0, first["partition"], first["offset"])
        assert client.publish("orders", b"2", token=token, key="k", type="order.placed", tag=1)["code"] == 31
        (record,) = tinyq.store.log.read("orders", 0)
        assert (record.key, record.type, record.value) == ("k", "order.placed", 1)


def test_what_is_acknowledged_is_settled_and_what_is_refused_comes_again(tinyq: ServedTinyq) -> None:
    with NewClient(tinyq.port) as client:
        for number in range(3):
            client.publish("jobs", b"%d" % number, key=f"k{number}")
        number = client.subscribe("jobs", "workers", credits=2)
        first, second = client.receive(), client.receive()
        assert {first["payload"], second["payload"]} <= {b"0", b"1", b"2"}
        done = [(first["partition"], first["offset"], first["offset"])]
        refused = [(second["partition"], second["offset"], second["offset"])]
        assert client.call(C.ACK, subscription=number, ranges=done)["count"] == 1
        assert client.call(C.NACK, subscription=number, after_ms=BY_POLICY, ranges=refused)["count"] == 1
        assert client.call(C.ACK, subscription=number, ranges=done)["code"] == 31
        third, again = sorted((client.receive(), client.receive()), key=lambda each: each["redelivered"])
        assert (third["attempt"], again["attempt"], again["redelivered"]) == (1, 2, 1)
        assert again["payload"] == second["payload"]
        client.call(
            C.NACK, subscription=number, after_ms=0, ranges=[(again["partition"], again["offset"], again["offset"])]
        )
        client.call(C.ACK, subscription=number, ranges=[(third["partition"], third["offset"], third["offset"])])
        assert [each.failures for each in dead.dead_letters(tinyq.store, group="workers").items] == [2]


def test_an_acknowledgement_that_is_not_written_down_in_time_is_no_failure_of_the_server(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeasedGroup, "_tell_settled", lambda *_: None)  # as if the store did not answer
    monkeypatch.setenv("PENSTOCK_GATEWAY_SETTLE_WAIT", "0.2")
    with ServedTinyq(sqlite_store) as served, NewClient(served.port) as client:
        client.publish("jobs", b"1")
        number = client.subscribe("jobs", "workers")
        place = client.receive()
        ranges = [(place["partition"], place["offset"], place["offset"])]
        assert client.call(C.ACK, subscription=number, ranges=ranges)["code"] == TinyqCode.BUSY


def test_nobody_has_more_in_hand_than_credits_and_what_a_gone_client_had_comes_again(tinyq: ServedTinyq) -> None:
    with NewClient(tinyq.port) as publisher:
        for number in range(4):
            publisher.publish("jobs", b"%d" % number)
    with NewClient(tinyq.port) as gone:
        number = gone.subscribe("jobs", "workers", credits=1, lease_ms=3_600_000)  # it does not lapse here
        first = gone.receive()
        gone.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            gone.receive()
        gone.socket.settimeout(60)
        gone.call(C.CREDIT, subscription=number, credits=2)
        second = gone.receive()
        assert first["offset"] != second["offset"]
    with NewClient(tinyq.port) as client:
        number = client.subscribe("jobs", "workers", credits=10)
        seen = [client.receive() for _ in range(4)]
        assert sorted(each["payload"] for each in seen) == [b"0", b"1", b"2", b"3"]
        assert {each["payload"] for each in seen if each["redelivered"]} >= {first["payload"], second["payload"]}
        ranges = [(each["partition"], each["offset"], each["offset"]) for each in seen]
        assert client.call(C.ACK, subscription=number, ranges=ranges)["count"] == 4
        assert lag(tinyq, "workers") == 0


@pytest.mark.parametrize("codec", [SNAPPY, ZSTD])
def test_payloads_are_packed_by_the_codec_that_was_agreed_on(light: ServedTinyq, codec: int) -> None:
    text = b"again and " * 1000
    pack = cramjam.snappy.compress_raw if codec == SNAPPY else cramjam.zstd.compress
    with NewClient(light.port, codecs=codec) as client:
        assert client.agreed["codec"] == codec
        assert client.publish("packed", bytes(pack(text)), packed=codec)["code"] == 0
        assert client.publish("packed", b"no such thing", packed=codec)["code"] == 31
        assert client.publish("packed", text, packed=4)["code"] == 31
        assert client.publish("packed", bytes(pack(bytes(20_000_000))), packed=codec)["code"] == 21
        client.subscribe("packed")
        message = client.receive()
        assert message["packed"] == codec
        assert len(message["payload"]) < len(text)
    assert [each.data for each in light.store.log.read("packed", 0)] == [text]


def test_rules_count_here_as_at_every_door_and_from_their_change_on(sqlite_store: str) -> None:
    who = hashlib.sha256(b"hers").hexdigest()
    rules = ("allow her write,create topic mine", "allow her read topic mine", "allow her read group *")
    policy = AccessPolicy(
        tokens={token_digest(who): "her"}, rules=tuple(parse_rule(each) for each in rules), admits_anonymous=False
    )
    access = Access(policy)
    with ServedTinyq(sqlite_store, access, password_sha256="") as tinyq, NewClient(tinyq.port, token=who) as client:
        assert client.publish("mine", b"1")["code"] == 0
        assert client.publish("yours", b"1")["code"] == 40
        assert client.call(C.DELETE, topic="mine")["code"] == 40
        client.subscribe("mine")
        assert client.receive()["payload"] == b"1"
        access.install(AccessPolicy(rules=(parse_rule("deny * read topic mine"),), tokens=policy.tokens))
        assert client.ends_with(40)


def test_a_topic_is_made_by_who_may_make_it(sqlite_store: str) -> None:
    who = hashlib.sha256(b"hers").hexdigest()
    rules = ("allow her read,write topic *", "allow her read group *", "allow her create topic mine")
    access = Access(AccessPolicy(tokens={token_digest(who): "her"}, rules=tuple(parse_rule(each) for each in rules)))
    with ServedTinyq(sqlite_store, access, password_sha256="") as tinyq, NewClient(tinyq.port, token=who) as client:
        assert client.publish("yours", b"1")["code"] == 40
        assert client.call(C.SUBSCRIBE, topic="yours", group="g", credits=1, lease_ms=0)["code"] == 40
        assert client.publish("mine", b"1")["code"] == 0
        assert [each.name for each in tinyq.store.log.topics()] == ["mine"]


def test_beyond_a_limit_an_old_client_waits_and_a_new_one_is_told(sqlite_store: str) -> None:
    limits = (RateLimit("tinyq", "old", requests_per_second=5), RateLimit("tinyq", "new", 0, 0.001))
    access = Access(AccessPolicy(limits=limits))
    with ServedTinyq(sqlite_store, access) as tinyq:
        with OldClient(tinyq.port) as old:
            began = SYSTEM.monotonic()
            assert [old.ask(3, b"old x") for _ in range(8)] == [0] * 8
            assert SYSTEM.monotonic() - began > 0.2  # eight at five a second, five of them at once
        with NewClient(tinyq.port) as new:
            assert [new.publish("new", b"x")["code"] for _ in range(2)] == [0, 51]
            assert new.publish("free", b"x")["code"] == 0


def test_a_connection_has_so_many_subscriptions_and_no_more(light: ServedTinyq) -> None:
    with NewClient(light.port) as client:
        assert client.call(C.CREATE_BROADCAST, topic="news")["code"] == 0
        for _ in range(100):
            client.subscribe("news")
        refused = client.call(C.SUBSCRIBE, topic="news", group=None, credits=1, lease_ms=0)
        assert (refused["code"], b"100 subscriptions" in refused["why"]) == (31, True)


def test_a_frame_whose_bytes_trickle_is_closed_in_the_same_time(hasty: ServedTinyq) -> None:
    with OldClient(hasty.port) as client:
        client.socket.sendall(struct.pack(">BI", 3, 1_000_000))

        def has_ended() -> bool:
            try:
                client.socket.sendall(b"x")
                return bool(select.select([client.socket], [], [], 0.01)[0])
            except OSError:
                return True

        wait_until(has_ended, "it is closed though its bytes come")


@pytest.mark.parametrize("command", [C.CREATE_CONSUME, C.CREATE_BROADCAST])
def test_messages_at_hand_are_not_sent_to_who_may_read_no_more(
    sqlite_store: str, monkeypatch: pytest.MonkeyPatch, command: C
) -> None:
    """A slow client may take the first of them a long time before the last."""
    access, message = Access(), NegotiatedSession._message

    def withdrawing(self: NegotiatedSession, number: int, record: Record) -> bytes:
        access.install(AccessPolicy(rules=(parse_rule("deny * read topic news"),)))
        return message(self, number, record)

    monkeypatch.setattr(NegotiatedSession, "_message", withdrawing)
    with ServedTinyq(sqlite_store, access) as tinyq, NewClient(tinyq.port) as client:
        client.call(command, topic="news")
        number = client.subscribe("news", credits=0)
        records = [Record(str(each), None, b"1", None, (), 0) for each in range(5)]
        tinyq.store.log.append("news", records)
        if command is C.CREATE_CONSUME:
            client.call(C.CREDIT, subscription=number, credits=5)
        assert client.receive()["payload"] == b"1"
        assert client.ends_with(40)


def test_more_ranges_than_can_be_in_hand_are_refused(light: ServedTinyq) -> None:
    """Each is looked for in all that is in hand."""
    with NewClient(light.port) as client:
        client.publish("jobs", b"1")
        number = client.subscribe("jobs", "workers")
        client.receive()
        ranges = [(0, 0, 0)] * 1001
        assert client.call(C.ACK, subscription=number, ranges=ranges)["code"] == 31
        assert client.call(C.ACK, subscription=number, ranges=ranges[:1])["count"] == 1


def test_who_it_is_is_said_once(light: ServedTinyq) -> None:
    with NewClient(light.port) as client:
        assert client.call(C.AUTHENTICATE, secret=b"wrong")["code"] == 31
        assert client.publish("jobs", b"1")["code"] == 0


def test_a_subscription_with_its_own_group_makes_no_other(light: ServedTinyq) -> None:
    with NewClient(light.port) as client:
        client.subscribe("own", group="workers")
        client.publish("own", b"x")
        assert client.receive()["payload"] == b"x"
        assert [each.name for each in groups.groups(light.store).items] == ["workers"]
        client.subscribe("own")
        wait_until(lambda: lag(light) == 1, "the group that all share is made once it is used")
