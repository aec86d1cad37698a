"""One who talks to a broker by a script, and writes answers down without what differs by nature.

Ids that a broker makes up are numbered in the order in which they come; times are told from the beginning
of the talk; addresses and the words of messages are left out. Batches are told as their records: what a
broker puts into one batch is its own affair.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from penstock.errors import InvalidRequest
from penstock.wire.kafka.apis.records import FETCH
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.layout import Api, Message
from penstock.wire.kafka.record_batch import MAGIC, read_header
from penstock.wire.kafka.records import decode_records
from tests.kafka.raw import RawClient, frame

CUT = "the connection ends"
NEVER = "no answer ever comes"
NO_ANSWER = "no answer, and the connection goes on"
WAIT_SECONDS = 60
_ANSWER_SECONDS, _AN_HOUR_MS = 15, 3_600_000

_LEFT_OUT = {"throttle_time_ms", "error_message", "host", "port", "rack", "documentation", "node_endpoints"} | {
    "batch_index_error_message"
}
_IDS = {"producer_id": "producer", "member_id": "member", "leader": "member", "cluster_id": "cluster"}
_ORDER = {"topics": "name", "groups": "group_id", "results": "group_id", "members": "member_id"}
_NODES = {"node_id", "leader_id", "controller_id", "broker_id", "replica_nodes", "isr_nodes"}
_TIMES = {"timestamp", "last_timestamp", "log_append_time_ms"}
_NUMBERS = {"error_code", "partition_error_code"}
# What Apache Kafka answers and Penstock does not.
_THEIRS = {4: "INVALID_FETCH_SIZE", 94: "INVALID_UPDATE_VERSION", 107: "INELIGIBLE_REPLICA"} | {
    99: "UNKNOWN_CONTROLLER_ID",
    103: "FETCH_SESSION_TOPIC_ID_ERROR",
    114: "MISMATCHED_ENDPOINT_TYPE",
    115: "UNSUPPORTED_ENDPOINT_TYPE",
    120: "TRANSACTION_ABORTABLE",
    71: "INVALID_FETCH_SESSION_EPOCH",
    40: "INVALID_CONFIG",
    84: "ELECTION_NOT_NEEDED",
}
# While a broker finds out what is where, or ends a transaction: clients ask again, and so does the script.
PASSING = {
    ErrorNumber.LEADER_NOT_AVAILABLE,
    ErrorNumber.NOT_LEADER_OR_FOLLOWER,
    ErrorNumber.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorNumber.COORDINATOR_NOT_AVAILABLE,
    ErrorNumber.NOT_COORDINATOR,
    ErrorNumber.CONCURRENT_TRANSACTIONS,
}


class Talk:
    """A conversation. `answers` holds what was answered, by the name of the step."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, Any] = {}
        self.begin_ms = int(time.time() * 1000) - _AN_HOUR_MS
        self._clients: dict[str, RawClient] = {}
        self._known: dict[str, dict[Any, int]] = {}
        self._since = 0
        self._owed: dict[str, tuple[str, Api, int]] = {}

    # -- asking

    def ask(self, step: str, api: Api, version: int, body: Message, *, by: str = "one") -> Message:
        """Ask something, write the answer down under a name, and return it; empty when there is none."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            self.send(step, api, version, body, by=by)
            message = self.take(by)
            if not set(numbers(message)) & PASSING or time.monotonic() > end:
                return message
            del self.answers[step]

    def send(self, step: str, api: Api, version: int, body: Message, *, by: str) -> None:
        """Ask something whose answer comes later."""
        assert step not in self.answers, f"{step!r} is said twice"
        if api is FETCH:  # the rest of a batch that begins before is passed over by clients
            self._since = body["topics"][0]["partitions"][0]["fetch_offset"]
        client = self._client(by)
        client.send(frame(api, version, api.encode_request(body, version), client=by.encode()))
        self._owed[by] = step, api, version

    def take(self, by: str) -> Message:
        """Wait for the answer to what was sent, and write it down."""
        step, api, version = self._owed.pop(by)
        try:
            data = self._clients[by].receive()
        except TimeoutError:
            self._clients.pop(by).socket.close()
            self.answers[step] = NEVER
            return {}
        if not data:
            self._clients.pop(by).socket.close()
            self.answers[step] = CUT
            return {}
        try:
            message = _decoded(api, version, data)
        except InvalidRequest:
            self.answers[step] = f"error {ErrorNumber(int.from_bytes(data[4:6], 'big')).name} alone"
            return {}
        self.answers[step] = self.told(message)
        return message

    def quietly(self, api: Api, version: int, body: Message, *, by: str = "one") -> Message:
        """Ask again and again while an answer is a passing one; nothing is written down."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            client = self._client(by)
            client.send(frame(api, version, api.encode_request(body, version), client=by.encode()))
            message = _decoded(api, version, client.receive())
            if not set(numbers(message)) & PASSING:
                return message
            assert time.monotonic() < end, f"{api.name}: {message}"

    def until(self, api: Api, version: int, body: Message, is_so: Callable[[Message], bool]) -> None:
        """Ask until the answer is as it should be."""
        end = time.monotonic() + WAIT_SECONDS
        while not is_so(message := self.quietly(api, version, body)):
            assert time.monotonic() < end, f"{api.name}: {message}"

    def say(self, step: str, data: bytes, *, by: str = "odd") -> bytes:
        """Send bytes as they are; return the answer's, and write down only whether there is one."""
        client = self._client(by)
        client.send(data)
        answer = client.receive()
        self.answers[step] = "an answer" if answer else CUT
        if not answer:
            self._clients.pop(by).socket.close()
        return answer

    def after_silence(self, step: str, data: bytes, api: Api, version: int, body: Message) -> None:
        """Send what is not answered, then ask something: write down whether the connection went on."""
        client = self._client("silent")
        client.send(data)
        try:
            client.send(frame(api, version, api.encode_request(body, version)))
            answer = client.receive()
        except (ConnectionResetError, BrokenPipeError):
            answer = b""
        self.answers[step] = NO_ANSWER if answer else CUT
        self._clients.pop("silent").socket.close()

    # -- writing down

    def told(self, value: Any, field: str = "") -> Any:
        """Return an answer as it is compared."""
        if isinstance(value, dict):
            return {name: self.told(each, name) for name, each in sorted(value.items()) if name not in _LEFT_OUT}
        if field == "records":
            return [self._record(each) for each in records_in(value or b"") if each["offset"] >= self._since]
        if isinstance(value, list | tuple):
            told = [self.told(each, field) for each in value]
            return sorted(told, key=lambda each: str(each.get(_ORDER[field]))) if field in _ORDER else told
        if field in _NUMBERS:
            return _name_of(value)
        if field in _IDS:
            return self._numbered(_IDS[field], value)
        if field == "topic_id":
            return "an id" if value.int else "none"
        if field in _NODES:
            return "node" if value >= 0 else value
        if field in _TIMES:
            return self._time(value)
        return value.hex() if isinstance(value, bytes | bytearray | memoryview) else value

    def _numbered(self, kind: str, value: Any) -> Any:
        if value in (None, "", -1):
            return value
        known = self._known.setdefault(kind, {})
        return f"{kind} {known.setdefault(value, len(known) + 1)}"

    def _time(self, value: int) -> Any:
        if value < 0:
            return value
        since = value - self.begin_ms
        return "now" if _AN_HOUR_MS <= since < 2 * _AN_HOUR_MS else since

    def _record(self, record: Message) -> str:
        if "marker" in record:
            return f"{record['offset']} marker"
        headers = "".join(f" {name}:{value}" for name, value in record["headers"])
        return f"{record['offset']} {record['key']}={record['value']} at {self._time(record['time'])}{headers}"

    def _client(self, by: str) -> RawClient:
        if by not in self._clients:
            self._clients[by] = RawClient(self.address, _ANSWER_SECONDS)
        return self._clients[by]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._clients.values():
            each.socket.close()


def numbers(message: Any) -> Iterable[int]:
    """Yield every error number of an answer."""
    if isinstance(message, dict):
        for name, each in message.items():
            if name in _NUMBERS:
                yield each
            else:
                yield from numbers(each)
    elif isinstance(message, list | tuple):
        for each in message:
            yield from numbers(each)


def records_in(data: Any) -> Iterable[Message]:
    """Yield the records of some batches, and the markers that end transactions."""
    rest = memoryview(bytes(data))
    while len(rest) > 16 and rest[16] == MAGIC:
        header = read_header(rest)
        if len(rest) < header.size:
            return
        batch, rest = bytes(rest[: header.size]), rest[header.size :]
        if header.is_control:
            yield {"offset": header.base_offset, "marker": True}
            continue
        for each in decode_records(batch):
            yield {
                "offset": each.offset,
                "time": each.timestamp_ms,
                "key": None if each.key is None else each.key.decode(),
                "value": None if each.value is None else each.value.decode(),
                "headers": [[name, None if value is None else value.decode()] for name, value in each.headers],
            }


def _decoded(api: Api, version: int, data: bytes) -> Message:
    tagged = api.is_flexible(version) and api.key != 18
    return api.decode_answer(data, version, 5 if tagged else 4)


def _name_of(number: int) -> str:
    try:
        return ErrorNumber(number).name
    except ValueError:
        return _THEIRS.get(number, f"error {number}")
