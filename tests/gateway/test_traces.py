"""Clients at the doors stand in the trace of what they read, and spans reach a collector by OTLP."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import aiokafka
import httpx2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from penstock.log.sql.migrations import migrate
from penstock.log.store import open_store
from tests.unit.cli.program import penstock

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CANARY = "canary-9c2e"
Told = list[ExportTraceServiceRequest]


@contextmanager
def collector(told: Told) -> Iterator[str]:
    """Give the address of a collector that keeps what it is sent."""

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_what_a_rest_reader_leases_stands_in_its_trace_and_a_kafka_client_is_given_it(
    sqlite_store: str,
) -> None:
    store = open_store(sqlite_store)
    migrate(store.database)
    store.close()
    told: Told = []
    doors = ("--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0")
    with collector(told) as address:
        settings = {"PENSTOCK_TRACING_ENDPOINT": address, "PENSTOCK_TRACING_SERVICE_NAME": "shop-doors"}
        command = penstock("serve", "--url", sqlite_store, *doors)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | settings
        ) as process:
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
            headers = asyncio.run(read_headers(kafka))
            process.send_signal(signal.SIGTERM)  # what waits to be sent goes out when it ends
            assert process.wait(60) == 0
    sent = [each for request in told for each in request.resource_spans]
    spans = [span for each in sent for scope in each.scope_spans for span in scope.spans]
    mine = [span for span in spans if span.trace_id.hex() == TRACE]
    assert {span.name for span in mine} == {"penstock.deliver", "penstock.handle"}
    assert {span.parent_span_id.hex() for span in mine} == {SPAN}
    about = [each for one in sent for each in one.resource.attributes if each.key == "service.name"]
    assert {each.value.string_value for each in about} == {"shop-doors"}
    assert headers["traceparent"] == parent["traceparent"].encode()
    assert CANARY not in str(told)


async def read_headers(address: str) -> dict[str, bytes]:
    """Return the headers of the first record, as a Kafka client is given them."""
    async with aiokafka.AIOKafkaConsumer(
        "orders", bootstrap_servers=address, group_id="kafka", auto_offset_reset="earliest"
    ) as consumer:
        return dict((await consumer.getone()).headers)
