"""Clients that hang on while a server ends, and streams that end in the middle: no error in its log."""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from penstock.access.dev_certificates import DevCertificates
from tests.gateway.doors_process import DoorsProcess
from tests.gateway.grpc_client import GrpcClient, SubscribeRequest, event
from tests.gateway.http2 import DATA, HEADERS, WINDOW_UPDATE, Http2Client, frame, message
from tests.gateway.tinyq_client import NewClient

HALF_A_BODY = "POST /v1/topics/orders/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
WAITING = (
    "POST /v1/groups/billing/topics/orders/leases HTTP/1.1\r\nHost: localhost\r\n"
    'Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"wait_seconds": 30}'
)


@pytest.mark.parametrize("is_encrypted", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "TLS"])
def test_sigterm_ends_idle_connections_and_half_requests_without_an_error(tmp_path: Path, is_encrypted: bool) -> None:
    options: list[str] = []
    context = None
    if is_encrypted:
        DevCertificates(tmp_path).make(["ana"])
        rules = tmp_path / "access.toml"
        rules.write_text('rules = "allow anonymous * * *"\n')
        options = ["--tls-cert", f"{tmp_path}/server.pem", "--tls-key", f"{tmp_path}/server.key"]
        options += ["--access", str(rules)]
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with DoorsProcess(tmp_path, *options) as served, ExitStack() as stack:

        def opened(door: str) -> socket.socket:
            made = socket.create_connection(served.place(door), timeout=30)
            if context is not None:
                made = context.wrap_socket(made, server_hostname="localhost")
            return stack.enter_context(closing(made))

        for door in ("kafka", "tinyq", "http", "http", "http"):
            opened(door)
        for _ in range(10):
            idle = opened("http")
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert idle.recv(1000).startswith(b"HTTP/1.1 200")
        for begun in (HALF_A_BODY, WAITING):
            opened("http").sendall(begun.encode())
        if not is_encrypted:
            client = stack.enter_context(GrpcClient(served.addresses["grpc"]))
            subscriber = client.subscribe("orders", "mailer")
            client.publish("orders", event("e"))
            assert subscriber.records(1)
        assert served.stop() == 0
        assert served.complaints == []


def test_a_subscription_that_ends_while_its_first_message_is_sent_ends_with_a_status(tmp_path: Path) -> None:
    begin = SubscribeRequest(begin={"topic": "orders", "group": "mailer", "credits": 1})
    with DoorsProcess(tmp_path, doors=("grpc",)) as served:
        with GrpcClient(served.addresses["grpc"]) as client:
            client.publish("orders", event("e", value=bytes(1_000_000)))
        with Http2Client(served.place("grpc"), window=100) as raw:
            raw.begin("Consuming.Subscribe", begin.SerializeToString())
            assert len(raw.until(DATA).body) == 100  # the rest of the message waits for us to take more
            raw.send(frame(DATA, message(begin.SerializeToString()), stream=1))  # once more, which is wrong
            raw.send(b"".join(frame(WINDOW_UPDATE, struct.pack(">I", 1 << 24), stream=each) for each in (0, 1)))
            while not raw.until(HEADERS).ends:
                pass
        assert served.stop() == 0
        assert served.complaints == []


def test_silent_connections_that_give_way_leave_no_error(tmp_path: Path) -> None:
    with (
        DoorsProcess(tmp_path, doors=("tinyq",), env={"PENSTOCK_TINYQ_MAX_CONNECTIONS": "8"}) as served,
        ExitStack() as stack,
    ):
        for _ in range(20):
            silent = socket.create_connection(served.place("tinyq"), timeout=30)
            stack.enter_context(closing(silent)).recv(1)
        with NewClient(served.place("tinyq")[1]) as client:
            assert client.publish("orders", b"1")["code"] == 0
        assert served.stop() == 0
        assert served.complaints == []
