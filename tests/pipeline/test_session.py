"""What Spark's own threads say when Java ends: nothing, for the last words of a command are ours."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import accumulators

from penstock.pipeline.session import end_quietly

TOKEN = "token"


@pytest.fixture
def server() -> Iterator[Any]:
    """Give the server of PySpark that Java sends the figures of tasks to."""
    server = accumulators._start_update_server(TOKEN, False)
    yield server
    server.shutdown()


def connected(server: Any, token: str) -> socket.socket:
    """Return the connection of a Java that has sent no figures yet."""
    java = socket.create_connection(server.server_address)
    java.sendall(token.encode() + struct.pack("!i", 0))
    return java


def test_a_java_that_ends_before_its_time_is_no_traceback(server: Any, capfd: pytest.CaptureFixture[str]) -> None:
    end_quietly(server)
    with connected(server, TOKEN) as java:
        assert java.recv(1) == b"\x01"
    connected(server, TOKEN).close()  # the first one has been looked after when this is taken
    with connected(server, TOKEN) as java:
        assert java.recv(1) == b"\x01"
    assert capfd.readouterr().err == ""


def test_another_fault_of_the_server_is_still_said(server: Any, capfd: pytest.CaptureFixture[str]) -> None:
    end_quietly(server)
    with connected(server, "wrong") as java:
        assert java.recv(1) == b""
    assert "is not correct" in capfd.readouterr().err
