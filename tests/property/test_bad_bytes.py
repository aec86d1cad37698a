"""Whatever bytes arrive, a decoder gives a value or an error of ours, nothing else."""

import dataclasses
import json
from typing import Any

import pydantic
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import Error, InvalidEnvelope, Undecodable
from penstock.model.cloudevents import from_json
from penstock.model.content import JSON, decode_value
from penstock.model.event_types import EventTypes
from penstock.wire.kafka.headers import decode_headers, encode_headers
from tests.property.strategies import json_bytes, json_values, some_text, spaced_json, texts

NOW_MS = 1_700_000_000_000


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


times = st.sampled_from(["2018-04-05T17:31:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
required = {"specversion": st.just("1.0"), "id": some_text, "type": some_text, "source": some_text}
others = {
    "time": times | texts,
    "datacontenttype": st.sampled_from(["application/json", "text/xml"]) | texts,
    "partitionkey": texts,
    "data": json_values,
    "data_base64": st.just("AP8=") | texts,
}
events = st.fixed_dictionaries(required, optional=others)
# Objects that are nearly events: some members missing, some of a kind they must not have.
nearly_events = st.fixed_dictionaries(
    {}, optional={name: drawn | json_values for name, drawn in (required | others).items()}
)
event_bytes = st.binary() | json_bytes | spaced_json | (events | nearly_events).map(as_json)


@given(event_bytes)
@example(b"[" * 100_000)
@example(b'{"data":' * 100_000)
@example(b'{"specversion":"1.0","id":"1","type":"t","source":"/","data":"\xff"}')
@example(b'{"specversion":"1.0","id":"1","type":"t","source":"/","datacontenttype":"a/b","data":"\xff"}')
@example(b'{"specversion":"1.0","id":"1","type":"t","source":"/","data":' + b"9" * 5000 + b"}")
@example(b'{"specversion":"1.0","id":"\\ud800","type":"t","source":"/"}')
def test_bytes_read_as_a_json_event_give_a_record_or_are_refused(text: bytes) -> None:
    try:
        record = from_json(text, NOW_MS)
    except InvalidEnvelope:
        return
    assert record.timestamp is not None


@given(st.binary() | st.binary(max_size=6))
def test_bytes_read_as_headers_give_headers_or_are_undecodable(data: bytes) -> None:
    try:
        headers = decode_headers(data)
    except Undecodable:
        return
    assert decode_headers(encode_headers(headers)) == headers


@given(st.integers(0, 5), st.lists(st.binary(max_size=3), max_size=12))
def test_bytes_that_look_like_headers_give_headers_or_are_undecodable(count: int, parts: list[bytes]) -> None:
    data = bytes([count * 2]) + b"".join(bytes([len(part) * 2]) + part for part in parts)

    try:
        headers = decode_headers(data)
    except Undecodable:
        return
    assert encode_headers(headers) == data


@given(st.binary() | json_bytes | spaced_json)
@example(b"9" * 5000)
@example(b"1e400")
def test_bytes_read_as_a_json_value_give_a_value_or_are_undecodable(data: bytes) -> None:
    try:
        decode_value(data, JSON)
    except Undecodable:
        return


@dataclasses.dataclass
class Plain:
    number: int
    name: str = ""


class Model(pydantic.BaseModel):
    number: int
    name: str = ""


nearly_events_of_ours = st.fixed_dictionaries(
    {"number": st.integers() | json_values}, optional={"name": texts | json_values}
).map(as_json)


@given(st.sampled_from([Plain, Model]), st.binary() | json_bytes | nearly_events_of_ours)
def test_bytes_read_as_a_typed_event_give_one_or_are_undecodable(cls: type, data: bytes) -> None:
    kind = EventTypes().register(cls, "sample")

    event: Any = None
    try:
        event = kind.decode(data)
    except Error as error:
        assert isinstance(error, Undecodable)  # noqa: PT017 (a value is as good as this error)
        return
    assert kind.decode(kind.encode(event)) == event
