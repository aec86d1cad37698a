"""Every request of Kafka and TinyQ answers alike for a hidden thing and one that is not there.

The same as `test_hidden_and_absent.py` asks of REST and gRPC.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, current_thread
from typing import Any
from uuid import UUID

import pytest

from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.database.database import Transaction
from penstock.model.partition import KAFKA
from penstock.operate.groups import create as create_group
from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.groups import JOIN_GROUP, OFFSET_COMMIT
from penstock.wire.kafka.apis.security import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from penstock.wire.kafka.apis.transactions import ADD_PARTITIONS_TO_TXN, INIT_PRODUCER_ID
from penstock.wire.kafka.layout import Api, ArrayOf, Field, FieldKind, Octets, Scalar, StructOf, Text, Uuid
from penstock.wire.kafka.records import KafkaRecord, encode_records
from penstock.wire.tinyq.frames import OLD_COMMANDS, TinyqCode, TinyqCommand, encode_request
from tests.gateway.test_tinyq import ServedTinyq
from tests.gateway.tinyq_client import NewClient, OldClient
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served

PAIRS = {"topic": ("payroll-a", "payroll-b"), "group": ("team-a", "team-b"), "transaction": ("tx-a", "tx-b")}
# Rules of the caller, and what the caller may not know of.
CALLERS = {
    "nobody": ("allow ops * *", "topic group transaction"),
    "who describes the cluster": ("allow anonymous describe cluster", "topic group transaction"),
    "who has all groups": ("allow anonymous * group *", "topic transaction"),
    "who has all topics": ("allow anonymous * topic *", "group transaction"),
    "who has all transactions": ("allow anonymous * transaction *", "topic group"),
    "who has another topic": ("allow anonymous * topic orders", "topic group transaction"),
}
_ACLS = (DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS)  # they ask for rules, not for things
_KINDS = {
    "group_id": "group",
    "groups": "group",
    "groups_names": "group",
    "transactional_id": "transaction",
    "v3_and_below_transactional_id": "transaction",
    "topic": "topic",
    "topic_names": "topic",
    "topic_id": "topic",
    "resource_name": "topic",
}
_NUMBERS = {
    "acks": -1,
    "resource_type": 2,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "transaction_timeout_ms": 10_000,
    "max_wait_ms": 0,
    "session_id": 0,
    "session_epoch": -1,
}
SEEDS, LONGEST_SECONDS = 4, 20


class Asked:
    """A request that names things; the same for the same seed."""

    def __init__(self, names: dict[str, str], ids: dict[str, UUID], kind: str, seed: int) -> None:
        self._names, self._ids, self._kind = names, ids, kind
        self._draw = random.Random(seed)
        self.named: set[str] = set()  # which kinds of things it names

    def message(self, fields: tuple[Field, ...], version: int, above: str = "") -> dict[str, Any]:
        """Return it, with a value in every field."""
        return {each.name: self._value(each, version, above) for each in fields if each.is_in(version)}

    def _value(self, field: Field, version: int, above: str) -> Any:
        kind = _KINDS.get(field.name, "")
        if field.name == "name" and "topic" in above:
            kind = "topic"
        elif field.name in ("key", "coordinator_keys"):
            kind = "transaction" if self._kind == "transaction" else "group"
        if field.name == "key_type":
            return int(self._kind == "transaction")
        nullable = field.null_since is not None and version >= field.null_since
        if nullable and kind == "topic" and self._draw.random() < 0.5:  # named by its id, or by its name
            return None
        return self._of(field.kind, version, field.name, kind)

    def _of(self, of: FieldKind, version: int, name: str, kind: str) -> Any:
        if isinstance(of, ArrayOf):
            return [self._of(of.element, version, name, kind)]
        if isinstance(of, StructOf):
            return self.message(of.fields, version, name)
        if isinstance(of, Uuid):
            self.named.add("topic")
            return self._ids[self._names["topic"]]
        if isinstance(of, Octets):
            return bytes(encode_records([KafkaRecord(0, 1, None, b"v", [])])) if name == "records" else b"x"
        if isinstance(of, Scalar):
            found = _NUMBERS.get(name)
            drawn = self._draw.choice((0, 0, 1, -1))
            return (drawn > 0 if of.letter == "?" else drawn) if found is None else found
        assert isinstance(of, Text)
        if kind:
            self.named.add(kind)
            return self._names[kind]
        return self._draw.choice(("", "x"))


class CountedCalls:
    """Counts what threads of a port ask of the store."""

    def __init__(self, patch: pytest.MonkeyPatch, threads: str) -> None:
        self.count = 0
        for name in ("__init__", "execute", "execute_all"):
            patch.setattr(Transaction, name, self._counting(getattr(Transaction, name), threads))

    def _counting(self, own: Any, threads: str) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.count += current_thread().name.startswith(threads)
            return own(*args, **kwargs)

        return counting


def names_of(kind: str, place: int) -> dict[str, str]:
    """Return what is asked for: of one kind what is hidden, or absent; of the others what is there."""
    return {each: pair[place if each == kind else 0] for each, pair in PAIRS.items()}


@contextmanager
def served(folder: Path, caller: str, patch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve a topic with a group in it and a transaction open, all of them somebody else's."""
    with Served(f"sqlite:///{folder}/store.db", threads=1) as made:
        for name in ("orders", PAIRS["topic"][0]):
            made.topic(name)
        with RawClient(made.address) as client:
            topic = PAIRS["topic"][0]
            commit = {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 0}]}
            group = {"group_id": PAIRS["group"][0], "generation_id_or_member_epoch": -1, "member_id": ""}
            done = client.ask(OFFSET_COMMIT, group | {"topics": [commit]}, 7)
            assert done["topics"][0]["partitions"][0]["error_code"] == 0
            join = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1000, "protocol_type": "consumer"}
            join |= {"group_id": PAIRS["group"][0], "protocols": [{"name": "range", "metadata": b"x"}]}
            assert client.ask(JOIN_GROUP, join | {"member_id": ""}, 3)["error_code"] == 0
            begun = {"transactional_id": PAIRS["transaction"][0], "transaction_timeout_ms": 600_000}
            producer = client.ask(INIT_PRODUCER_ID, begun, 2)
            added = {
                "v3_and_below_transactional_id": PAIRS["transaction"][0],
                "v3_and_below_producer_id": producer["producer_id"],
                "v3_and_below_producer_epoch": producer["producer_epoch"],
                "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
            }
            assert client.ask(ADD_PARTITIONS_TO_TXN, added, 2)["results_by_topic_v3_and_below"]
        made.broker.access.install(AccessPolicy(rules=(parse_rule(CALLERS[caller][0]),)))
        ticked = Event()
        patch.setattr("penstock.broker.broker._TICK_SECONDS", 3600.0)  # nothing but requests asks the store
        made.broker.ticks.append(ticked.set)
        assert ticked.wait(LONGEST_SECONDS)
        at_rest(made)
        yield made


def answer(made: Served, api: Api, version: int, message: dict[str, Any]) -> bytes:
    """Return the bytes of an answer, once nothing of the request is under way any more."""
    with RawClient(made.address, LONGEST_SECONDS) as client:
        client.send(frame(api, version, api.encode_request(message, version)))
        found = client.receive()
    at_rest(made)
    return found


def at_rest(made: Served) -> None:
    """Wait until nothing is under way."""

    async def rest() -> None:
        while made.broker._tasks:
            await asyncio.wait(set(made.broker._tasks))

    asyncio.run_coroutine_threadsafe(rest(), made.broker.loop).result(LONGEST_SECONDS)


@pytest.mark.parametrize("caller", CALLERS)
def test_kafka_tells_nobody_whether_a_hidden_thing_is_there(
    caller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, caller, monkeypatch) as made:
        calls = CountedCalls(monkeypatch, "penstock-broker_")
        there = made.broker.topics.uuid(made.broker.topics.get(PAIRS["topic"][0]))
        ids = dict(zip(PAIRS["topic"], (there, UUID(int=there.int ^ 1)), strict=True))
        told: dict[str, set[str]] = {}
        for kind in CALLERS[caller][1].split():
            for api in (each for each in APIS.values() if each not in _ACLS):
                for version in {*api.versions, max(api.versions[1] - 3, api.versions[0])}:
                    for seed in range(SEEDS):
                        found = []
                        for place in (0, 1):
                            asked = Asked(names_of(kind, place), ids, kind, seed)
                            message = asked.message(api.request, version)
                            if kind not in asked.named:
                                break
                            before = calls.count
                            said = answer(made, api, version, message)
                            found.append((alike(kind, said, ids), calls.count - before))
                        if found:
                            told.setdefault(kind, set()).add(api.name)
                            assert found[0] == found[1], f"{api.name} {version} tells of a {kind}: {message}"
        assert all(len(each) > 3 for each in told.values()), told


def alike(kind: str, said: bytes, ids: dict[str, UUID]) -> bytes:
    """Return an answer without what was asked for itself."""
    hidden, absent = PAIRS[kind]
    said = said.replace(hidden.encode(), absent.encode())
    there, not_there = (ids[each].bytes for each in PAIRS["topic"])
    return said.replace(there, not_there)


TINYQ_CALLERS = {
    "nobody": ("allow ops * *", "topic group"),
    "who has all groups": ("allow tinyq * group *", "topic"),
    "who has all topics": ("allow tinyq * topic *", "group"),
    "who has another topic": ("allow tinyq * topic orders", "topic group"),
}


@pytest.mark.parametrize("caller", TINYQ_CALLERS)
def test_tinyq_tells_nobody_whether_a_hidden_thing_is_there(
    caller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(AccessPolicy(rules=(parse_rule("allow ops * *"),)))
    with ServedTinyq(f"sqlite:///{tmp_path}/store.db", access) as made:
        for name in ("orders", PAIRS["topic"][0]):
            made.store.log.create_topic(name, partitions=1, partitioner=KAFKA)
        create_group(made.store, PAIRS["group"][0], PAIRS["topic"][0], start="earliest")
        access.install(AccessPolicy(rules=(parse_rule(TINYQ_CALLERS[caller][0]),)))
        calls = CountedCalls(monkeypatch, "penstock-tinyq_")
        for kind in TINYQ_CALLERS[caller][1].split():
            for command in (None, *OLD_COMMANDS) if kind == "topic" else (None,):
                found = []
                for place in (0, 1):
                    ask = _negotiated if command is None else partial(_old, command)
                    before = calls.count
                    said = ask(made.port, names_of(kind, place), kind)
                    hidden, absent = (each.encode() for each in PAIRS[kind])
                    found.append((said.replace(hidden, absent), calls.count - before))
                assert found[0] == found[1], f"{command} tells of a {kind}"


_NAMING = (TinyqCommand.CREATE_CONSUME, TinyqCommand.CREATE_BROADCAST, TinyqCommand.CLEAR, TinyqCommand.DELETE)


def _old(command: int, port: int, names: dict[str, str], kind: str) -> bytes:
    """Return what is answered to a request of the old protocol."""
    with OldClient(port) as client:
        body = names[kind].encode() + (b" v" if command == TinyqCommand.PUBLISH else b"")
        client.socket.sendall(encode_request(command, body))
        found = client.socket.recv(100)
    assert found not in (b"", bytes([TinyqCode.SUCCESS]))
    return found


def _negotiated(port: int, names: dict[str, str], kind: str) -> bytes:
    """Return what is answered to all requests that name a thing of a kind."""
    topic, group = names["topic"], names["group"]
    with NewClient(port) as client:
        answers = [client.call(TinyqCommand.SUBSCRIBE, topic=topic, group=group, credits=1, lease_ms=0)]
        if kind == "topic":
            answers += [client.publish(topic, b"v"), *(client.call(each, topic=topic) for each in _NAMING)]
    assert all(each["code"] for each in answers), answers
    return repr(answers).encode()
