"""For a caller without the right, a thing that is there and one that is not are answered alike.

Every operation of REST and every method of gRPC is asked: the answers are the same byte for byte, and
take the same number of store calls.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from google.protobuf.message_factory import GetMessageClass

from penstock import Outbox
from penstock.access.access import Access
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.database.database import Transaction
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.gateway.grpc.messages import service
from penstock.gateway.rest.api import OPERATIONS
from penstock.gateway.rest.operations import Operation
from penstock.operate.groups import create as create_group
from tests.gateway.grpc_client import GrpcClient
from tests.gateway.served import ServedRest

HIDDEN, ABSENT = "payroll-a", "payroll-b"  # as long as each other: answers may say how long something is
TEAM, NO_TEAM = "team-a", "team-b"
ID, NO_ID = "hidden-1", "absent-1"
# Rules of the caller, and what the caller may not know of.
CALLERS = {
    "nobody": ("", "topic group id"),
    "who describes the cluster": ("allow anonymous describe cluster", "topic id"),
    "who has all groups": ("allow anonymous * group *", "topic id"),
    "who has all topics": ("allow anonymous * topic *", "group"),
    "who has another topic": ("allow anonymous * topic orders", "topic group id"),
}
BODIES: dict[str, dict[str, Any]] = {
    "create_topic": {"name": "{topic}"},
    "create_group": {"name": "{group}", "topic": "{topic}"},
    "move_group": {"topic": "{topic}", "to": "earliest"},
    "extend_lease": {"lease_seconds": 1},
    "decide_dead": {"decision": "discard", "topic": "{topic}"},
}
GIVEN = {"partition": "0", "offset": "0", "schedule": "s", "lease": "x", "key": "k", "subject": "k"}
GIVEN |= {"principal": "ana", "right": "read", "kind": "topic", "message": "M"}


@contextmanager
def served(folder: Path, caller: str) -> Iterator[ServedRest]:
    rules = tuple(parse_rule(each) for each in CALLERS[caller][0].splitlines())
    path = folder / "store.db"
    access = Access(AccessPolicy(rules=rules or (parse_rule("allow ops * *"),)))
    with ServedRest(f"sqlite:///{path}", access=access, threads=1) as rest:
        for name in ("orders", HIDDEN):
            rest.store.log.create_topic(name, partitions=1)
            create_group(rest.store, TEAM, name, start="earliest")
        with closing(Outbox(rest.store)) as outbox, closing(sqlite3.connect(path)) as conn, conn:
            later = datetime.now(UTC) + timedelta(days=1)
            outbox.publish(conn, "paid", {}, key="k", topic=HIDDEN, at=later)
            assert conn.execute("UPDATE penstock_scheduled SET id = ?", [ID]).rowcount == 1
        yield rest


def names(kind: str, *, is_there: bool) -> dict[str, str]:
    """Return the names that are asked for: of the varied kind one that is there, or one that is not."""
    found = {"topic": "orders", "group": TEAM, "id": NO_ID}
    pairs = {"topic": (HIDDEN, ABSENT), "group": (TEAM, NO_TEAM), "id": (ID, NO_ID)}
    return {**found, kind: pairs[kind][0 if is_there else 1]}


def told(kind: str, text: bytes) -> bytes:
    """Return an answer without what was asked for itself."""
    there, absent = (names(kind, is_there=each)[kind].encode() for each in (True, False))
    return text.replace(there, absent)


class Counted:
    """Counts what is asked of the store."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        for name in ("__init__", "execute", "execute_all"):
            patch.setattr(Transaction, name, self._counting(getattr(Transaction, name)))

    def _counting(self, own: Any) -> Any:
        def counting(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return own(*args, **kwargs)

        return counting


def concerns(operation: Operation, kind: str) -> bool:
    body = str(BODIES.get(operation.id, ""))
    return f"{{{kind}}}" in body or any(each.name == kind for each in operation.parameters)


def asked(client: httpx2.Client, operation: Operation, named: dict[str, str]) -> httpx2.Response:
    values = GIVEN | named
    path = operation.path.removeprefix("/v1").format(**values)
    query = {
        each.name: values[each.name]
        for each in operation.parameters
        if each.place == "query" and (each.name in named or each.required)
    }
    body = BODIES.get(operation.id, {} if operation.takes else None)
    sent = (
        None
        if body is None
        else {name: each.format(**values) if isinstance(each, str) else each for name, each in body.items()}
    )
    return client.request(operation.method, path, params=query, json=sent)


@pytest.mark.parametrize("caller", CALLERS)
def test_rest_tells_nobody_whether_a_hidden_thing_is_there(
    caller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, caller) as rest:
        counted = Counted(monkeypatch)
        for kind in CALLERS[caller][1].split():
            for operation in (each for each in OPERATIONS if concerns(each, kind)):
                found = []
                for is_there in (True, False):
                    before = counted.calls
                    answer = asked(rest.client, operation, names(kind, is_there=is_there))
                    heads = sorted((k, v) for k, v in answer.headers.items() if k != "date")
                    found.append((answer.status_code, told(kind, answer.content), heads, counted.calls - before))
                assert found[0] == found[1], f"{operation.id} tells of a {kind}"
                assert found[0][0] in (200, 403, 404), f"{operation.id} was not asked rightly: {found[0]}"


def test_answers_name_no_group_that_the_caller_may_not_know_of(tmp_path: Path) -> None:
    with served(tmp_path, "who has all topics") as rest:
        for operation in OPERATIONS:
            if operation.method == "GET" and operation.media_type == "application/json":
                named = names("topic", is_there=True) | {"group": NO_TEAM, "id": ID}
                assert TEAM not in asked(rest.client, operation, named).text, operation.id
        made = rest.client.post("/topics", json={"name": "orders", "partitions": 1})
        assert (made.status_code, made.json().get("groups")) == (200, [])
        with grpc_client(rest) as client:
            assert [str(each.groups) for each in client("Topics.List").topics] == ["[]", "[]"]
            assert not client("Topics.Get", name="orders").groups
            assert not client("Topics.Create", name="orders", partitions=1).groups


@contextmanager
def grpc_client(rest: ServedRest) -> Iterator[GrpcClient]:
    listener = GrpcListener(GrpcDoor(rest.store, access=rest.api.access), "127.0.0.1", 0)
    listener.start()
    client = GrpcClient(listener.address)
    try:
        yield client
    finally:
        client.channel.close()
        listener.stop()


def filled(kind: Any, service_name: str, named: dict[str, str]) -> Any:
    """Return a message whose names are those, as far as it has such fields; also in its first field."""
    made = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.name == "name":
            setattr(made, field.name, named["group" if service_name == "Groups" else "topic"])
        elif field.name in ("topic", "group"):
            setattr(made, field.name, named[field.name])
        elif field.name in ("begin", "publish", "schema") and field.message_type is not None:
            getattr(made, field.name).CopyFrom(filled(GetMessageClass(field.message_type), service_name, named))
    return made


def refusal(client: GrpcClient, method: str, sent: Any, *, streams: bool) -> Any:
    try:
        if streams:
            list(client.stream(method, iter([sent])))
        else:
            client(method, sent)
    except grpc.RpcError as exc:
        return exc
    raise AssertionError(f"{method} was not refused")


@pytest.mark.parametrize("caller", CALLERS)
def test_grpc_tells_nobody_whether_a_hidden_thing_is_there(
    caller: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = [
        (name, each)
        for name in ("Topics", "Groups", "Schemas", "Publishing", "Consuming")
        for each in service(name).methods
        if each.name != "List" or name == "Schemas"
    ]
    with served(tmp_path, caller) as rest, grpc_client(rest) as client:
        counted = Counted(monkeypatch)
        for kind in CALLERS[caller][1].replace("id", "").split():
            for name, method in methods:
                if kind == "group" and name not in ("Groups",) and method.name != "Subscribe":
                    continue
                if kind == "topic" and name == "Groups" and method.name != "Create":
                    continue
                found = []
                for is_there in (True, False):
                    before = counted.calls
                    sent = filled(GetMessageClass(method.input_type), name, names(kind, is_there=is_there))
                    error = refusal(client, f"{name}.{method.name}", sent, streams=method.client_streaming)
                    trailing = repr([(key, value) for key, value in error.trailing_metadata() or ()])
                    said = told(kind, f"{error.code()} {error.details()} {trailing}".encode())
                    found.append((said, counted.calls - before))
                assert found[0] == found[1], f"{name}.{method.name} tells of a {kind}"
                assert error.code().name in ("PERMISSION_DENIED", "NOT_FOUND"), (name, method.name, said)
