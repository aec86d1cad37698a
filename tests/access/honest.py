"""An honest producer and consumer at a door: ana's, over connections of its own, while others attack.

Each round adds a record and reads it again. What is refused or lost fails the test; how long rounds take is
printed and not asserted.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from http.client import HTTPSConnection
from threading import Event, Thread
from typing import Any, Self

from penstock.clock import SYSTEM
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.records import KafkaRecord, encode_records
from penstock.wire.tinyq.frames import TinyqCommand as C
from tests.access.doors import DOORS, Door
from tests.access.house import House, token
from tests.gateway.grpc_client import event

TOPIC = "orders"
Rounds = tuple[Callable[[], int], Callable[[int], Any]]  # publishes, and gives the offset; reads it


class Honest:
    """Goes on between `with` and its end."""

    def __init__(self, house: House, door: Door) -> None:
        self._stack, self._stopped, self._began = ExitStack(), Event(), Event()
        make: Callable[[House, Any, ExitStack], Rounds] = _ROUNDS[door.name]
        self._produce, self._consume = make(house, door, self._stack)
        self.produced: list[float] = []
        self.consumed: list[float] = []
        self._error: list[BaseException] = []
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._began.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._stack.close()
        if self._error:
            raise self._error[0]

    def __str__(self) -> str:
        said = [
            f"{what} p99 {sorted(found)[int(len(found) * 0.99)] * 1000:.1f} ms"
            for what, found in (("produce", self.produced), ("consume", self.consumed))
        ]
        return f"{len(self.produced)} rounds, {', '.join(said)}"

    def _run(self) -> None:
        try:
            while not self._stopped.wait(0.005) or not self.produced:
                before = SYSTEM.monotonic()
                offset = self._produce()
                between = SYSTEM.monotonic()
                assert self._consume(offset), f"offset {offset} is not there"
                self.produced.append(between - before)
                self.consumed.append(SYSTEM.monotonic() - between)
                self._began.set()
        except BaseException as exc:
            self._error.append(exc)
            self._began.set()


def _kafka(house: House, door: Any, stack: ExitStack) -> Rounds:
    client = stack.enter_context(door.known(house))
    records = bytes(encode_records([KafkaRecord(0, 1, b"k", b"honest", [])]))

    def produce() -> int:
        topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}
        asked = {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}
        (part,) = client.ask(PRODUCE, asked, 7)["responses"][0]["partition_responses"]
        assert part["error_code"] == 0, part
        return int(part["base_offset"])

    def consume(offset: int) -> Any:
        part = {"partition": 0, "partition_max_bytes": 1 << 20, "fetch_offset": offset}
        asked = {"replica_id": -1, "max_wait_ms": 30_000, "min_bytes": 1, "max_bytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [part]}]
        answer = client.ask(FETCH, {**asked, "isolation_level": 0, "topics": topics}, 4)
        return answer["responses"][0]["partitions"][0]["records"]

    return produce, consume


def _http(house: House, door: Any, stack: ExitStack) -> Rounds:
    host, _, port = house.http.address.rpartition(":")
    client = HTTPSConnection(host, int(port), context=house.context(), timeout=30)
    stack.callback(client.close)
    headers = {"authorization": f"Bearer {token()}"}

    def ask(method: str, path: str, body: bytes | None = None) -> Any:
        client.request(method, f"/v1/topics/{TOPIC}/{path}", body, headers)
        answer = client.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), said
        return json.loads(said)

    def produce() -> int:
        return int(ask("POST", "records?partition=0", b"{}")["records"][0]["offset"])

    return produce, lambda offset: ask("GET", f"partitions/0/records?offset={offset}")["records"]


def _grpc(house: House, door: Any, stack: ExitStack) -> Rounds:
    client = stack.enter_context(door._client(house, "ana"))

    def produce() -> int:
        made = [event("e", value=b"honest", content_type="text/plain")]
        return int(client("Publishing.Publish", topic=TOPIC, events=made).places[0].offset)

    return produce, lambda offset: client("Consuming.Read", topic=TOPIC, offset=offset).records


def _tinyq(house: House, door: Any, stack: ExitStack) -> Rounds:
    client, reader = (door.begun(house, stack, "ana") for _ in range(2))
    number = reader.subscribe(TOPIC, "orders-reader", credits=100)

    def consume(offset: int) -> bool:
        found = reader.receive()["offset"]
        reader.call(C.ACK, subscription=number, ranges=[(0, found, found)])
        return bool(found == offset)

    return lambda: int(client.publish(TOPIC, b"honest")["offset"]), consume


_ROUNDS = dict(zip([each.name for each in DOORS], (_kafka, _http, _grpc, _tinyq), strict=True))
