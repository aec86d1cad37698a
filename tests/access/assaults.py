"""Attacks that go on for a while against a `penstock serve`, with an honest producer and consumer beside.

`./scripts/bench attacks` runs each and tells how long the honest ones waited. The attackers are a process of
their own, so that they take no time of the honest ones' Python. `mal` may write to a topic of its own and to
the honest ones' topic; `nobody` has no right at all.
"""

import asyncio
import json
import multiprocessing
import secrets
import socket
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any

import aiokafka
import aiokafka.abc

from penstock.access.password import hash_password, hash_token
from penstock.clock import SYSTEM
from penstock.wire.kafka.apis.cluster import FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import DESCRIBE_GROUPS
from penstock.wire.kafka.apis.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from penstock.wire.kafka.apis.topics import METADATA
from tests.access.house import PASSWORD
from tests.gateway.doors_process import SECRET, DoorsProcess
from tests.gateway.http2 import DATA, HEADERS, HEADERS_END, Http2Client, frame, head
from tests.gateway.tinyq_client import OldClient
from tests.kafka.raw import RawClient
from tests.kafka.raw import frame as kafka_frame
from tests.kafka.test_foreign_producers import a_batch, produce

TOPIC = "orders"
TOKENS = {name: f"{name}-0123456789abcdef0123456789" for name in ("ana", "mal", "nobody")}
RULES = """
allow ana * topic orders
allow ana * group orders-*
allow ana write transaction orders-*
allow mal read,write topic orders
allow mal read group mal-*
"""
Places = dict[str, tuple[str, int]]
Assault = Callable[[Places], None]  # one round of it; it is called again and again
NAMES = 199_000


class _Token(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]  # it brings no types
    async def token(self) -> str:
        return TOKENS["ana"]


@contextmanager
def served(folder: Path) -> Iterator[DoorsProcess]:
    """Serve a store behind a lock."""
    tokens = "\n".join(f'[tokens.{name}]\nhash = "{hash_token(each)}"' for name, each in TOKENS.items())
    password = f'[users.ana]\npassword = "{hash_password(PASSWORD)}"'
    old = f'[tokens.old]\nhash = "{hash_token(SECRET)}"'
    (folder / "access.toml").write_text(f'rules = """{RULES}"""\n{tokens}\n{old}\n{password}\n')
    options = ["--access", f"{folder}/access.toml", "--audit", f"{folder}/audit.jsonl"]
    with DoorsProcess(folder, *options, "--log-level", "error") as made:
        yield made


def measured(made: DoorsProcess, assault: Assault | None, seconds: float) -> dict[str, float]:
    """Let the honest ones work for a while beside an attack; return how long they waited, and the memory."""
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    places = {door: made.place(door) for door in made.addresses}
    attacker = context.Process(target=_attack, args=(assault, places, ends), daemon=True)
    rest, kafka = _Rest(made), _Kafka(made)
    before = made.memory
    with ExitStack() as stack:
        for each in (rest, kafka):
            stack.enter_context(each)
        if assault is not None:
            attacker.start()
        Event().wait(seconds)
    ends.set()
    after = made.memory
    if assault is not None:
        attacker.join(30)
        if attacker.is_alive():
            attacker.kill()
    assert made.process.poll() is None, made.log[-2000:]
    assert made.complaints == [], made.complaints
    return {
        "kafka_produce_p99_ms": _p99_ms(kafka.produced),
        "kafka_consume_p99_ms": _p99_ms(kafka.consumed),
        "rest_publish_p99_ms": _p99_ms(rest.produced),
        "rest_read_p99_ms": _p99_ms(rest.consumed),
        "memory_before_mb": before / 1e6,
        "memory_after_mb": after / 1e6,
    }


def _p99_ms(found: list[float]) -> float:
    return sorted(found)[int(len(found) * 0.99)] * 1000


def _attack(assault: Assault, places: Places, ends: Any) -> None:
    while not ends.is_set():
        with suppress(OSError, AssertionError, HTTPException):  # it may be refused in any way
            assault(places)


class _Honest:
    """A round of publishing and reading, again and again, between `with` and its end."""

    def __init__(self, made: DoorsProcess) -> None:
        self._made, self._ends = made, Event()
        self.produced, self.consumed = list[float](), list[float]()
        self._failed: list[BaseException] = []
        self._thread = Thread(target=self._safely)

    def run(self) -> None:
        """Go on until the end."""
        raise NotImplementedError(f"{type(self).__name__} has no run")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def _safely(self) -> None:
        try:
            self.run()
        except BaseException as exc:
            self._failed.append(exc)


class _Rest(_Honest):
    def run(self) -> None:
        with closing(HTTPConnection(*self._made.place("http"), timeout=60)) as client:
            while not self._ends.wait(0.005):
                since = SYSTEM.monotonic()
                place = self._ask(client, "POST", "records?partition=0", b"{}")[0]
                between = SYSTEM.monotonic()
                assert self._ask(client, "GET", f"partitions/0/records?offset={place['offset']}&limit=1")
                self.produced.append(between - since)
                self.consumed.append(SYSTEM.monotonic() - between)

    def _ask(self, client: HTTPConnection, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"authorization": f"Bearer {TOKENS['ana']}"}
        client.request(method, f"/v1/topics/{TOPIC}/{path}", body, headers)
        answer = client.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), said
        return json.loads(said)["records"]


class _Kafka(_Honest):
    def run(self) -> None:
        asyncio.run(self._rounds())

    async def _rounds(self) -> None:
        host, port = self._made.place("kafka")
        given = {
            "bootstrap_servers": f"{host}:{port}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": _Token(),
        }
        place = aiokafka.TopicPartition(TOPIC, 0)
        async with (
            aiokafka.AIOKafkaProducer(**given, enable_idempotence=True) as producer,
            aiokafka.AIOKafkaConsumer(**given, fetch_max_wait_ms=50) as consumer,
        ):
            consumer.assign([place])
            while not self._ends.is_set():
                since = SYSTEM.monotonic()
                sent = await producer.send_and_wait(TOPIC, b"honest", partition=0)
                between = SYSTEM.monotonic()
                consumer.seek(place, sent.offset)
                assert (await consumer.getone()).value == b"honest"
                self.produced.append(between - since)
                self.consumed.append(SYSTEM.monotonic() - between)


def _kafka_of(places: Places, who: str) -> RawClient:
    client = RawClient(":".join(map(str, places["kafka"])), 60)
    assert client.ask(SASL_HANDSHAKE, {"mechanism": "OAUTHBEARER"}, 1)["error_code"] == 0
    said = {"auth_bytes": f"n,,\x01auth=Bearer {TOKENS[who]}\x01\x01".encode()}
    assert client.ask(SASL_AUTHENTICATE, said, 2)["error_code"] == 0
    return client


def foreign_transactions(places: Places) -> None:
    """Batches of a transaction that has no name, under ids that others may have."""
    with _kafka_of(places, "mal") as client:
        for number in range(200):
            producer = {"producer_id": secrets.randbelow(1 << 20), "producer_epoch": 0}
            produce(client, a_batch(b"foreign", producer, number, in_transaction=True))


def long_lists(places: Places) -> None:
    """Metadata of 199,000 names; coordinators and groups of as many."""
    names = [f"n{each:06d}" for each in range(NAMES)]
    asked = [
        (METADATA, 4, {"topics": [{"name": each} for each in names], "allow_auto_topic_creation": False}),
        (FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": names}),
        (DESCRIBE_GROUPS, 4, {"groups": names, "include_authorized_operations": False}),
    ]
    with _kafka_of(places, "nobody") as client:
        for api, version, message in asked:
            client.send(kafka_frame(api, version, api.encode_request(message, version)))
            client.receive()


def long_names(places: Places) -> None:
    """Names as long as they may be, each once: nothing that is kept of them should grow."""
    with _kafka_of(places, "nobody") as client:
        for _ in range(20):
            names = [{"name": secrets.token_hex(16_000)} for _ in range(100)]
            client.ask(METADATA, {"topics": names, "allow_auto_topic_creation": False}, 4)


def half_messages(places: Places) -> None:
    """gRPC messages of 15 MB on many calls, of which the last byte never comes."""
    with Http2Client(places["grpc"]) as client:
        for stream in range(1, 40, 2):
            client.send(frame(HEADERS, head("Topics.Get"), stream=stream, flags=HEADERS_END))
            client.send(frame(DATA, struct.pack(">BI", 0, 15 << 20) + bytes(16_000), stream=stream))
        while client.receive() is not None:
            pass


def failed_names(places: Places) -> None:
    """Wrong passwords, each of another long name."""
    with closing(HTTPConnection(*places["http"], timeout=60)) as client:
        for _ in range(50):
            client.request("GET", "/v1/topics", headers=_basic(secrets.token_hex(4000), "wrong"))
            client.getresponse().read()


def places_taken(places: Places) -> None:
    """Silent connections at every door, and streams and groups of one principal."""
    shown = f"Authorization: Bearer {TOKENS['mal']}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(60):
            for door in ("tinyq", "http", "kafka", "grpc"):
                stack.enter_context(socket.create_connection(places[door], timeout=5))
            stream = stack.enter_context(socket.create_connection(places["http"], timeout=5))
            stream.sendall(f"GET /v1/topics/{TOPIC}/events HTTP/1.1\r\nHost: localhost\r\n{shown}".encode())
        for number in range(10):
            path = f"/v1/groups/mal-{number}/topics/{TOPIC}/leases"
            client = stack.enter_context(socket.create_connection(places["http"], timeout=5))
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{shown}".encode())
        with OldClient(places["tinyq"][1], None) as silent:
            silent.socket.settimeout(2)
            silent.code()
            silent.code()


def wrong_passwords(places: Places) -> None:
    """One name, and a wrong password again and again, from the address of the honest ones."""
    with closing(HTTPConnection(*places["http"], timeout=60)) as client:
        for _ in range(50):
            client.request("GET", "/v1/topics", headers=_basic("ana", "wrong"))
            client.getresponse().read()


def rebound(places: Places) -> None:
    """Requests of a page whose host name resolves to this machine."""
    evil = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    with closing(HTTPConnection(*places["http"], timeout=60)) as client:
        for _ in range(200):
            client.request("POST", f"/v1/topics/{TOPIC}/records", b"forged", headers=evil)
            answer = client.getresponse()
            answer.read()
            assert answer.status == 421


def _basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


ASSAULTS: dict[str, Assault | None] = {
    "nothing": None,
    "foreign transactions": foreign_transactions,
    "long lists": long_lists,
    "long names": long_names,
    "half messages": half_messages,
    "names of failed logins": failed_names,
    "places taken": places_taken,
    "wrong passwords": wrong_passwords,
    "rebound host": rebound,
}
