"""Clients that cost next to nothing: bytes that are made once, over a bare socket; gRPC by its own C core."""

import socket
from collections.abc import Iterator
from typing import Any, Self

from bench.brokers.server import Server
from bench.doors.servers import PASSWORD, TOPIC
from bench.errors import NotMeasured

_JSON = b'{"order": "o-1", "total": 42, "note": "%s"}'
_LENGTH = b"content-length: "


def payload(size: int) -> bytes:
    """Return a value of about so many bytes."""
    return _JSON % (b"x" * max(0, size - len(_JSON)))


class HttpSocket:
    """A keep-alive connection on which one request is sent at a time."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(server.place, timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> bytes:
        """Send a request; return its answer. Raises NotMeasured."""
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 201", b"HTTP/1.1 200")):
            raise NotMeasured(f"the answer is {head[:60]!r} {body[:200]!r}")
        length = int(head.lower().partition(_LENGTH)[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += self._more()
        return body

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise NotMeasured("the server has ended the connection")
        return data


def post(path: str, body: bytes, content_type: str) -> bytes:
    """Return a request as its bytes."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def make_topic(server: Server, name: str = TOPIC) -> None:
    """Make the topic of one partition."""
    with HttpSocket(server) as client:
        client.ask(post("/v1/topics", b'{"name": "%s", "partitions": 1}' % name.encode(), "application/json"))


class TinyqSocket:
    """A connection in old frames, or to the echo, which answers with the frames themselves."""

    def __init__(self, server: Server, *, echo: bool = False) -> None:
        self.socket = socket.create_connection(server.place, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._is_echo, self._answer, self._came = echo, 1, 0
        if not echo:
            self.socket.recv(1)
            self.socket.sendall(PASSWORD.encode())
            if self.socket.recv(1) != b"\0":
                raise NotMeasured("the password is refused")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, value: bytes) -> bytes:
        """Return what publishes a value."""
        body = TOPIC.encode() + b" " + value
        made = bytes([3]) + len(body).to_bytes(4, "big") + body
        self._answer = len(made) if self._is_echo else 1
        return made

    def answers_in(self, data: bytes) -> int:
        """Return how many answers end in the bytes that came."""
        if not self._is_echo and data.strip(b"\0"):
            raise NotMeasured(f"refused with {data.strip(bytes(1))[:1]!r}")
        self._came += len(data)
        count, self._came = divmod(self._came, self._answer)
        return count

    def one_by_one(self, frame: bytes, count: int) -> None:
        """Send a frame when the one before is answered."""
        for _ in range(count):
            self.socket.sendall(frame)
            answered = 0
            while not answered:
                answered = self.answers_in(self.socket.recv(1 << 16))


def publish_stream(server: Server, value: bytes, count: int) -> None:
    """Send events over a gRPC stream, one in a request, and wait for all answers. Raises NotMeasured."""
    import grpc

    from penstock.gateway.grpc.messages import message

    request: Any = message("PublishRequest")(topic=TOPIC, events=[{"value": value, "key": "k", "type": "order.placed"}])
    data, answer = request.SerializeToString(), message("PublishResponse")

    def requests() -> Iterator[bytes]:
        for _ in range(count):
            yield data

    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream("/penstock.v1.Publishing/PublishStream")
        answered = sum(len(answer.FromString(each).places) for each in call(requests(), timeout=300))
    if answered != count:
        raise NotMeasured(f"{answered} of {count} were answered")


def kafka_topic(server: Server, ca: str | None) -> None:
    """Make a topic of one partition by the Kafka port, encrypted or not."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(_kafka(server, ca))
    for future in admin.create_topics([NewTopic("bulk", 1)]).values():
        future.result(60)


def kafka_produce(server: Server, ca: str | None, size: int, count: int) -> None:
    """Send messages in the batches that librdkafka makes, and wait for all. Raises NotMeasured."""
    from confluent_kafka import Producer

    failed: list[object] = []
    settings = {"acks": "all", "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    more = {"delivery.report.only.error": True, "on_delivery": lambda error, _: failed.append(error)}
    producer = Producer(_kafka(server, ca) | settings | more)
    value = b"x" * size
    for number in range(count):
        producer.produce("bulk", value)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or failed:
        raise NotMeasured(f"{left} messages were not acknowledged; {failed[:1]}")


def _kafka(server: Server, ca: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"bootstrap.servers": server.address, "broker.address.family": "v4"}
    if ca is None:
        return given
    checks = {"ssl.endpoint.identification.algorithm": "none"}  # its name is that of the host, not the address
    return given | {"security.protocol": "SSL", "ssl.ca.location": ca} | checks
