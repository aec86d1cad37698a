"""Feeds one door of a `penstock serve`, from several processes, with an honest client beside."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from penstock.clock import SYSTEM
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.records import KafkaRecord, encode_records
from penstock.wire.tinyq.frames import TinyqCommand
from tests.fuzzing.feeder import TOPIC, Fed, Feeder
from tests.fuzzing.grpc import GrpcFeeder
from tests.fuzzing.http import HttpFeeder
from tests.fuzzing.kafka import KafkaFeeder
from tests.fuzzing.tinyq import TinyqFeeder
from tests.gateway.doors_process import DOORS, DoorsProcess
from tests.gateway.grpc_client import GrpcClient, event
from tests.gateway.tinyq_client import NewClient
from tests.kafka.raw import RawClient

FEEDERS: dict[str, type[Feeder]] = {"kafka": KafkaFeeder, "http": HttpFeeder, "grpc": GrpcFeeder, "tinyq": TinyqFeeder}
assert tuple(FEEDERS) == DOORS
HONEST = "honest"
CASES = 1000  # of one seed
# One thread: fewer caches, so that what grows is seen. What waits would only cost time here.
SETTINGS = {
    "PENSTOCK_BROKER_THREADS": "1",
    "PENSTOCK_BROKER_FETCH_WAIT": "0.01",
    "PENSTOCK_BROKER_JOIN_DELAY": "0.01",
    "PENSTOCK_GATEWAY_SETTLE_WAIT": "0.1",
    "MALLOC_ARENA_MAX": "1",  # else what threads have freed, each in its own arena, hides what grows
}


class Course(NamedTuple):
    """How it went with one door."""

    fed: Fed
    memory: list[int]  # in bytes: after a tenth, and then again and again
    honest: list[float]  # the seconds of each round of the honest client
    complaints: list[str]


def p99_ms(rounds: list[float]) -> float:
    """Return the time in milliseconds that 99 of 100 rounds did not exceed."""
    return sorted(rounds)[int(len(rounds) * 0.99)] * 1000


def fed(door: str, served: DoorsProcess, seed: int, count: int = CASES) -> Fed:
    """Send requests of one seed."""
    return FEEDERS[door](served.place(door), seed).feed(count)


def _seeds_fed(door: str, place: tuple[str, int], seeds: Any, said: Any) -> None:
    for seed in seeds:
        said.put(FEEDERS[door](place, seed).feed(CASES))


def run(door: str, cases: int, *, first_seed: int = 0, clients: int = 2) -> Course:
    """Feed a door with so many requests. Raises what a client of it raises, or its server leaves behind."""
    rounds = max(1, cases // CASES)
    seeds = range(first_seed, first_seed + rounds)
    # A server of its own, so that what it logs and holds is of this door.
    with (
        tempfile.TemporaryDirectory() as folder,
        DoorsProcess(Path(folder), "--log-level", "error", topics={TOPIC: 2, HONEST: 1}, env=SETTINGS) as served,
        HonestClient(door, served) as honest,
    ):
        context = multiprocessing.get_context("spawn")
        said = context.Queue()
        processes = [
            context.Process(target=_seeds_fed, args=(door, served.place(door), seeds[each::clients], said), daemon=True)
            for each in range(min(clients, rounds))
        ]
        for each in processes:
            each.start()
        total, memory = Fed(), list[int]()
        for done in range(1, rounds + 1):
            total += _next(served, said, processes)
            if done >= rounds // 10:
                memory.append(served.memory)
            if done % max(1, rounds // 20) == 0:
                print(
                    f"{door}: {total.cases:,} cases, {total.answered:,} answered, {served.memory / 1e6:.1f} MB",
                    flush=True,
                )
        for each in processes:
            each.join()
        honest.end()
        assert served.process.poll() is None, f"it has ended: {served.log[-2000:]}"
        assert served.stop() == 0, served.log[-2000:]
        return Course(total, memory, honest.rounds, served.complaints)


def _next(served: DoorsProcess, said: Any, processes: Any) -> Fed:
    for _ in range(600):
        if not said.empty() or any(each.is_alive() for each in processes):
            try:
                found: Fed = said.get(timeout=1)
            except Exception:  # queue.Empty; whoever feeds may have failed
                if any(each.exitcode for each in processes):
                    break
                continue
            return found
    code = served.process.poll()
    raise AssertionError(f"a client failed, as it says above; exit code {code} of the server: {served.log[-3000:]}")


class HonestClient:
    """Publishes a record at the same door and reads it, again and again."""

    def __init__(self, door: str, served: DoorsProcess) -> None:
        self.rounds: list[float] = []
        self._stack = ExitStack()
        self._round = _ROUNDS[door](served, self._stack)
        self._ends, self._failed = Event(), list[BaseException]()
        self._thread = Thread(target=self._run)

    def end(self) -> None:
        """End it. Raises what it failed of."""
        self._ends.set()
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        assert self.rounds

    def __enter__(self) -> HonestClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._stack.close()

    def _run(self) -> None:
        try:
            while not self._ends.wait(0.02) or not self.rounds:
                since = SYSTEM.monotonic()
                assert self._round(), "the record is not there"
                self.rounds.append(SYSTEM.monotonic() - since)
        except BaseException as exc:
            self._failed.append(exc)


def _kafka(served: DoorsProcess, stack: ExitStack) -> Callable[[], Any]:
    client = stack.enter_context(RawClient(served.addresses["kafka"]))
    records = bytes(encode_records([KafkaRecord(0, 1, b"k", b"honest", [])]))

    def once() -> Any:
        topic = {"name": HONEST, "partition_data": [{"index": 0, "records": records}]}
        asked = {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}
        (part,) = client.ask(PRODUCE, asked, 7)["responses"][0]["partition_responses"]
        assert part["error_code"] == 0, part
        place = {"partition": 0, "partition_max_bytes": 1 << 20, "fetch_offset": part["base_offset"]}
        wanted = {"replica_id": -1, "max_wait_ms": 30_000, "min_bytes": 1, "max_bytes": 1 << 20}
        topics = [{"topic": HONEST, "partitions": [place]}]
        answer = client.ask(FETCH, {**wanted, "isolation_level": 0, "topics": topics}, 4)
        return answer["responses"][0]["partitions"][0]["records"]

    return once


def _http(served: DoorsProcess, stack: ExitStack) -> Callable[[], Any]:
    client = stack.enter_context(closing(HTTPConnection(*served.place("http"), timeout=30)))

    def ask(method: str, path: str, body: bytes | None = None) -> Any:
        client.request(method, f"/v1/topics/{HONEST}/{path}", body)
        answer = client.getresponse()
        said = answer.read()
        assert answer.status in (200, 201), said
        return json.loads(said)["records"]

    def once() -> Any:
        offset = ask("POST", "records?partition=0", b"{}")[0]["offset"]
        return ask("GET", f"partitions/0/records?offset={offset}")

    return once


def _grpc(served: DoorsProcess, stack: ExitStack) -> Callable[[], Any]:
    client = stack.enter_context(GrpcClient(served.addresses["grpc"]))

    def once() -> Any:
        ((_, offset),) = client.publish(HONEST, event("e"))
        return client("Consuming.Read", topic=HONEST, offset=offset).records

    return once


def _tinyq(served: DoorsProcess, stack: ExitStack) -> Callable[[], Any]:
    client, reader = (stack.enter_context(NewClient(served.place("tinyq")[1])) for _ in range(2))
    number = reader.subscribe(HONEST, "honest")

    def once() -> Any:
        assert client.publish(HONEST, b"honest")["code"] == 0
        found = reader.receive()["offset"]
        reader.call(TinyqCommand.ACK, subscription=number, ranges=[(0, found, found)])  # settled now or later
        return True

    return once


_ROUNDS: dict[str, Callable[[DoorsProcess, ExitStack], Callable[[], Any]]] = {
    "kafka": _kafka,
    "http": _http,
    "grpc": _grpc,
    "tinyq": _tinyq,
}
