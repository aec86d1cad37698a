"""NATS' protocol over a bare socket: JetStream by a client that costs next to nothing.

Messages are sent from one buffer that holds many, acknowledgements are counted, not decoded. That is the
cheapest client there can be, for the benefit of the server.
"""

import json
import socket
import time
from typing import Any, Self

from bench.brokers.server import Server

_INBOX = b"_in.1"


class NatsSocket:
    """One connection; one thread."""

    def __init__(self, server: Server, seconds: float = 60) -> None:
        self.socket = socket.create_connection(server.place, timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = self._tail = b""
        assert self._line().startswith(b"INFO ")
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nPING\r\n')
        while self._line() != b"PONG":
            pass
        self.socket.sendall(b"SUB " + _INBOX + b" 1\r\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            piece = self.socket.recv(1 << 16)
            if not piece:
                raise ConnectionError("the server has ended the connection")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def ask(self, subject: str, body: object) -> Any:
        """Ask JetStream something and return its answer."""
        data = json.dumps(body).encode()
        self.socket.sendall(publication(subject, data))
        while not (line := self._line()).startswith(b"MSG "):
            assert not line.startswith((b"HMSG", b"-ERR")), line
        answer = json.loads(self._line())
        assert "error" not in answer, answer["error"]
        return answer

    def create_stream(self, name: str) -> None:
        """Make a stream in files, of the subject of its name."""
        config = {
            "name": name,
            "subjects": [name],
            "storage": "file",
            "retention": "limits",
            "num_replicas": 1,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
        }
        self.ask(f"$JS.API.STREAM.CREATE.{name}", config)

    def delete_stream(self, name: str) -> None:
        """Delete a stream."""
        self.ask(f"$JS.API.STREAM.DELETE.{name}", {})

    def count(self, name: str) -> int:
        """Return how many messages a stream holds."""
        return int(self.ask(f"$JS.API.STREAM.INFO.{name}", {})["state"]["messages"])

    # -- publishing

    def one_by_one(self, message: bytes, count: int) -> list[float]:
        """Publish and wait for the acknowledgement, so many times; return how long each took, in seconds."""
        took = []
        for _ in range(count):
            begun = time.perf_counter()
            self.socket.sendall(message)
            while not (line := self._line()).startswith(b"MSG "):
                assert line == b"PING", line
                self.socket.sendall(b"PONG\r\n")
            answer = self._line()
            took.append(time.perf_counter() - begun)
            assert b'"seq"' in answer, answer
        return took

    def answers_in(self, data: bytes) -> int:
        """Return how many acknowledgements begin in the bytes that came."""
        data = self._tail + data
        if b"PING\r\n" in data:
            self.socket.send(b"PONG\r\n")
        assert b'"error"' not in data, data[:300]
        self._tail = data[-3:]
        return data.count(b"MSG ")

    # -- reading

    def read(self, stream: str, count: int, batch: int) -> None:
        """Pull so many messages of a stream from its start, two batches asked for at a time."""
        name = f"r{time.monotonic_ns()}"
        config = {"durable_name": name, "ack_policy": "none", "deliver_policy": "all"}
        self.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}", {"stream_name": stream, "config": config})
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"
        ask = publication(subject, json.dumps({"batch": batch}).encode())
        self.socket.sendall(ask + ask)
        asked, got = 2 * batch, 0
        mark, tail = b"MSG " + stream.encode() + b" ", b""
        buffer = bytearray(1 << 20)
        while got < count:
            size = self.socket.recv_into(buffer)
            assert size, "the server has ended the connection"
            data = tail + buffer[:size]
            got += data.count(mark)
            tail = bytes(data[-(len(mark) - 1) :])
            if asked - got < batch and asked < count:
                self.socket.sendall(ask)
                asked += batch


def publication(subject: str, data: bytes) -> bytes:
    """Return the bytes that publish something, with the answer to the inbox."""
    return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), _INBOX, len(data), data)


def is_nats(server: Server) -> bool:
    """Return whether JetStream answers."""
    with NatsSocket(server, 5) as client:
        return "streams" in client.ask("$JS.API.INFO", {})
