"""A collector of spans that takes OTLP over HTTP, as those of the field do, and keeps what it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

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


def spans_of(told: Told) -> list[Any]:
    """Return all spans that a collector was sent."""
    return [
        span
        for request in told
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]
