"""One message, many faces: what is published at any door is the same at every other."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import aiokafka
import httpx2
import pytest

from penstock import Outbox
from penstock.wire.tinyq.frames import TinyqCommand
from tests.gateway.grpc_client import Event, GrpcClient, event
from tests.gateway.tinyq_client import NewClient
from tests.unit.cli.program import penstock

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PASSWORD = {"PENSTOCK_TINYQ_PASSWORD_SHA256": hashlib.sha256(b"secret").hexdigest()}
DOORS = ("kafka", "http", "grpc", "tinyq")
TOKEN = bytes(range(65, 81))  # 16 letters, as TinyQ has them
Faces = dict[str, Any]


@pytest.fixture
def doors(sqlite_store: str) -> Iterator[dict[str, str]]:
    """Give the addresses of a `penstock serve` with every door, on a topic with a record of an outbox."""
    outbox = Outbox(sqlite_store)
    outbox.migrate()
    outbox.log.create_topic("orders", partitions=1)
    with outbox.transaction() as conn:
        headers = {"tenant": "acme", "traceparent": TRACE}
        outbox.publish(conn, "order.placed", {"n": 1}, key="k", topic="orders", headers=headers)
    outbox.drain()
    outbox.close()
    words = [word for each in DOORS for word in (f"--{each}", "127.0.0.1:0")]
    command = penstock("serve", "--url", sqlite_store, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | PASSWORD) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in DOORS]
        yield {line[0]: line[-1] for line in lines}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_what_is_published_at_one_door_is_the_same_at_every_other(doors: dict[str, str]) -> None:
    """Where a face has no place for something, as TinyQ has none for headers, it is left out, not changed."""
    with (
        httpx2.Client(base_url=f"http://{doors['http']}/v1", timeout=60) as rest,
        GrpcClient(doors["grpc"]) as grpc,
        NewClient(int(doors["tinyq"].rpartition(":")[2])) as tinyq,
    ):
        attributes = {"ce-specversion": "1.0", "ce-id": "e-2", "ce-type": "order.placed", "ce-source": "/shop"}
        more = {"ce-partitionkey": "k", "content-type": "application/json", "traceparent": TRACE}
        rest.post("/topics/orders/records", content=b'{"n": 2}', headers=attributes | more).raise_for_status()
        sent = [{"name": "tenant", "value": b"acme"}, {"name": "traceparent", "value": TRACE.encode()}]
        grpc.publish("orders", event("e-3", "k", b'{"n": 3}', headers=sent))
        assert tinyq.publish("orders", b'{"n": 4}', key="k", type="order.placed", tag=1)["offset"] == 3
        asyncio.run(produced(doors["kafka"]))

        # The same token stands for the same record, by whichever door it comes.
        query = {"key": "k", "type": "order.placed"}
        token = {"idempotency-key": TOKEN.decode(), "content-type": "application/json"}
        (once,) = rest.post("/topics/orders/records", params=query, content=b'{"n": 6}', headers=token).json()[
            "records"
        ]
        plain = Event(key="k", type="order.placed", value=b'{"n": 6}', content_type="application/json")
        assert grpc.publish("orders", plain, token=TOKEN.decode()) == [(0, once["offset"])]
        given = {"key": "k", "type": "order.placed", "tag": 1, "token": TOKEN}
        assert tinyq.publish("orders", b'{"n": 6}', **given)["offset"] == once["offset"] == 5

        faces = {
            "rest": of_rest(rest),
            "grpc": of_grpc(grpc),
            "tinyq": of_tinyq(tinyq),
            "kafka": asyncio.run(of_kafka(doors["kafka"])),
        }
    base = faces["rest"]
    assert [each["offset"] for each in base] == list(range(6))
    assert [each["value"] for each in base] == [b'{"n":1}', *(b'{"n": %d}' % number for number in range(2, 7))]
    assert [each["id"] for each in base[1:5]] == ["e-2", "e-3", base[3]["id"], "e-5"]
    assert all((each["key"], each["type"]) == ("k", "order.placed") for each in base)
    assert all(each["headers"].get("traceparent") == TRACE.encode() for each in (*base[:3], base[4]))
    assert all(each["headers"].get("tenant") == b"acme" for each in (base[0], base[2], base[4]))
    for door, found in faces.items():
        assert len(found) == len(base), door
        for mine, theirs in zip(base, found, strict=True):
            assert {name: mine[name] for name in theirs} == theirs, door


async def produced(address: str) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=address) as producer:
        headers = [("ce_specversion", b"1.0"), ("ce_id", b"e-5"), ("ce_type", b"order.placed")]
        headers += [("ce_source", b"/shop"), ("tenant", b"acme"), ("traceparent", TRACE.encode())]
        await producer.send_and_wait("orders", b'{"n": 5}', key=b"k", headers=headers)


def of_rest(client: httpx2.Client) -> list[Faces]:
    found = client.get("/topics/orders/partitions/0/records").json()["records"]
    raw = client.get("/topics/orders/partitions/0/records").content
    return [
        {
            "offset": each["offset"],
            "id": each["id"],
            "key": each["key"],
            "type": each["type"],
            "headers": {name["name"]: name["value"].encode() for name in each.get("headers", [])},
            "value": next(text for text in values_in(each["value"]) if text in raw),
        }
        for each in found
    ]


def values_in(value: dict[str, int]) -> list[bytes]:
    """Return how a value may have been written: the bytes of a record are never written anew."""
    return [b'{"n":%d}' % value["n"], b'{"n": %d}' % value["n"]]


def of_grpc(client: GrpcClient) -> list[Faces]:
    return [
        {
            "offset": each.offset,
            "id": each.id,
            "key": each.key,
            "type": each.type,
            "headers": {header.name: header.value for header in each.headers},
            "value": each.value,
        }
        for each in client("Consuming.Read", topic="orders", partition=0).records
    ]


def of_tinyq(client: NewClient) -> list[Faces]:
    number, found = client.subscribe("orders", "faces", credits=100), list[Faces]()
    while len(found) < 6:  # of one key the next comes when the one before is settled
        found.append(client.receive())
        place = (found[-1]["partition"], found[-1]["offset"], found[-1]["offset"])
        client.call(TinyqCommand.ACK, subscription=number, ranges=[place])
    return [
        {"offset": each["offset"], "key": each["key"], "type": each["type"], "value": each["payload"]} for each in found
    ]


async def of_kafka(address: str) -> list[Faces]:
    async with aiokafka.AIOKafkaConsumer("orders", bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        found = [await consumer.getone() for _ in range(6)]
    return [
        {
            "offset": each.offset,
            "id": dict(each.headers)["ce_id"].decode(),
            "key": each.key.decode(),
            "type": dict(each.headers)["ce_type"].decode(),
            "value": each.value,
        }
        for each in found
    ]
