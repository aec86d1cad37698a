"""A store that is served over gRPC, and a client that knows the description as the server does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from penstock.access.access import Access
from penstock.database.migrations import migrate
from penstock.gateway.grpc.door import GrpcDoor
from penstock.gateway.grpc.listener import GrpcListener
from penstock.gateway.grpc.messages import PACKAGE, message, service
from penstock.gateway.grpc.problems import DETAILS
from penstock.gateway.settings import GatewaySettings
from penstock.log.store import Store, open_store
from tests.unit.cli.program import penstock

ANSWER_SECONDS = 60.0  # generous: the machine may be busy
Event, PublishRequest = message("Event"), message("PublishRequest")
SubscribeRequest = message("SubscribeRequest")


class GrpcClient:
    """Calls methods by name: `client("Topics.Get", name="orders")`."""

    def __init__(self, address: str, credentials: Any = None, *, packed: bool = False, **metadata: str) -> None:
        options = [
            ("grpc.use_local_subchannel_pool", 1),  # a connection of its own, as another program has
            ("grpc.max_send_message_length", -1),
            ("grpc.default_compression_algorithm", 2 if packed else 0),  # 2: gzip
        ]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, credentials, options)
        self._metadata = list(metadata.items())

    def __call__(self, method: str, request: Any = None, **fields: Any) -> Any:
        """Return the answer of a call of one message."""
        call, kind = self._method(method)
        asked = kind(**fields) if request is None else request
        return call(asked, timeout=ANSWER_SECONDS, metadata=self._metadata)

    def stream(self, method: str, requests: Iterator[Any]) -> Any:
        """Return the stream of answers."""
        return self._method(method)[0](requests, timeout=ANSWER_SECONDS, metadata=self._metadata)

    def subscribe(self, topic: str, group: str, credits: int = 100, **begin: Any) -> Subscriber:
        """Begin to consume."""
        return Subscriber(self, dict(topic=topic, group=group, credits=credits, **begin))

    def publish(self, topic: str, *events: Any, **more: Any) -> list[tuple[int, int]]:
        """Add events; return where they stand."""
        answer = self("Publishing.Publish", topic=topic, events=events, **more)
        return [(each.partition, each.offset) for each in answer.places]

    def close(self) -> None:
        """End the connection."""
        self.channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _method(self, name: str) -> tuple[Any, Any]:
        of, _, method = name.partition(".")
        found = service(of).methods_by_name[method]
        request, answer = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
        make = self.channel.stream_stream if found.client_streaming else self.channel.unary_unary
        path = f"/{PACKAGE}.{of}/{method}"
        return make(
            path, request_serializer=request.SerializeToString, response_deserializer=answer.FromString
        ), request


class Subscriber:
    """A subscription: what comes is iterated, what is said is queued."""

    def __init__(self, client: GrpcClient, begin: dict[str, Any]) -> None:
        self._said: SimpleQueue[Any] = SimpleQueue()
        self._said.put(SubscribeRequest(begin=begin))
        self.answers = client.stream("Consuming.Subscribe", iter(self._said.get, None))
        self._came: list[Any] = []

    def say(self, **request: Any) -> None:
        """Send a request."""
        self._said.put(SubscribeRequest(**request))

    def records(self, count: int) -> list[Any]:
        """Return the next records, at least so many."""
        while len(self._came) < count:
            self._came += next(self.answers).records.records
        found, self._came = self._came, []
        return found

    def ack(self, *records: Any, id: int = 1, kind: str = "ack", **more: Any) -> Any:
        """Settle records; return the answer. Records that come meanwhile are kept."""
        ranges = [{"partition": each.partition, "first": each.offset, "last": each.offset} for each in records]
        self.say(**{kind: dict(id=id, ranges=ranges, **more)})
        while True:
            answer = next(self.answers)
            if answer.HasField("settled"):
                return answer.settled
            self._came += answer.records.records

    def end(self) -> None:
        """Say that nothing more will be said."""
        self._said.put(None)


def event(id: str, key: str | None = None, value: bytes = b"{}", **more: Any) -> Any:
    """Return an event."""
    given = {"content_type": "application/json", "type": "order.placed", **more}
    return Event(id=id, key=key, value=value, **given)


def reason(error: grpc.RpcError) -> str:
    """Return the code in the details of an error."""
    return str(info(error).reason)


def info(error: grpc.RpcError) -> Any:
    """Return the details of an error."""
    given = dict(error.trailing_metadata() or ())[DETAILS]
    status = Status.FromString(given)
    assert status.message == error.details()
    found = ErrorInfo()
    assert status.details[0].Unpack(found)
    return found


class ServedGrpc:
    """A gRPC door in this process, between `with` and its end; `client` is connected to it."""

    def __init__(self, url: str, *, access: Access | None = None, **settings: Any) -> None:
        self.store: Store = open_store(url)
        migrate(self.store.database)
        self.door = GrpcDoor(self.store, access=access, settings=GatewaySettings.load(**settings))
        self.listener = GrpcListener(self.door, "127.0.0.1", 0)

    def __enter__(self) -> Self:
        self.listener.start()
        self.client = GrpcClient(self.listener.address)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.listener.stop()
        self.store.close()


class GrpcProcess:
    """`penstock serve --grpc` as a process."""

    def __init__(self, url: str, *options: str) -> None:
        command = [*penstock("serve", "--url", url), "--grpc", "127.0.0.1:0", "--log-level", "warning"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("grpc listening on "), line
        self.address = line.removeprefix("grpc listening on ").strip()

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
