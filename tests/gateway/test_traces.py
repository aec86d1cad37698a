"""Clients at the doors stand in the trace of what they read, and spans reach a collector by OTLP."""

import asyncio
import os
import signal
import subprocess

import aiokafka
import httpx2

from penstock.database.migrations import migrate
from penstock.log.store import open_store
from tests.services.collector import Told, collector, spans_of
from tests.unit.cli.program import penstock

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHER, OTHER_SPAN = "1bf7651916cd43dd8448eb211c80319c", "c8ad6b7169203331"
CANARY = "canary-9c2e"


def test_the_trace_of_a_record_has_its_rest_readers_and_its_kafka_readers(sqlite_store: str) -> None:
    store = open_store(sqlite_store)
    migrate(store.database)
    store.close()
    told: Told = []
    doors = ("--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0")
    with collector(told) as address:
        settings = {"PENSTOCK_TRACING_ENDPOINT": address, "PENSTOCK_TRACING_SERVICE_NAME": "shop-doors"}
        command = penstock("serve", "--url", sqlite_store, *doors)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | settings) as process:
            assert process.stdout is not None
            kafka = process.stdout.readline().split()[-1]
            http = process.stdout.readline().split()[-1]
            with httpx2.Client(base_url=f"http://{http}/v1", timeout=60) as api:
                api.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
                parent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
                given = {"card": CANARY}
                api.post("/topics/orders/records?key=k", json=given, headers=parent).raise_for_status()
                leases = "/groups/mailer/topics/orders/leases"
                asked = {"max_records": 10, "wait_seconds": 30, "lease_seconds": 30}
                lease = api.post(leases, json=asked).json()
                api.post(f"{leases}/{lease['lease']}/ack", json={}).raise_for_status()
                api.get("/topics/orders/partitions/0/records").raise_for_status()
                headers = asyncio.run(read_headers(kafka))
                other = {"traceparent": f"00-{OTHER}-{OTHER_SPAN}-01"}
                api.post("/topics/orders/records?key=k", json=given, headers=other).raise_for_status()
                api.get("/topics/orders/partitions/0/records").raise_for_status()
            process.send_signal(signal.SIGTERM)  # what waits to be sent goes out when it ends
            assert process.wait(60) == 0
    spans = spans_of(told)
    mine = [span for span in spans if span.trace_id.hex() == TRACE]
    names = sorted(span.name for span in mine)
    assert names == ["penstock.deliver", "penstock.fetch", "penstock.handle", "penstock.read", "penstock.read"]
    assert {span.parent_span_id.hex() for span in mine} == {SPAN}
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in mine)

    # Two records that were read together: a span in the trace of each, and one of them together.
    (theirs,) = (span for span in spans if span.trace_id.hex() == OTHER and span.name == "penstock.read")
    assert theirs.parent_span_id.hex() == OTHER_SPAN
    (whole,) = (span for span in spans if span.name == "penstock.read" and not span.parent_span_id)
    assert {each.trace_id.hex() for each in whole.links} == {TRACE, OTHER}
    linked = [span for span in mine if span.name == "penstock.read" and span.links]
    assert [each.span_id for span in (*linked, theirs) for each in span.links] == [whole.span_id] * 2

    about = [each for request in told for one in request.resource_spans for each in one.resource.attributes]
    assert {each.value.string_value for each in about if each.key == "service.name"} == {"shop-doors"}
    assert headers["traceparent"] == parent["traceparent"].encode()
    assert CANARY not in str(told)


async def read_headers(address: str) -> dict[str, bytes]:
    """Return the headers of the first record, as a Kafka client is given them."""
    async with aiokafka.AIOKafkaConsumer(
        "orders", bootstrap_servers=address, group_id="kafka", auto_offset_reset="earliest"
    ) as consumer:
        return dict((await consumer.getone()).headers)
