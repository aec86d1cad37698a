import json
from typing import Any

import pytest

from penstock.errors import InvalidEnvelope
from penstock.model.cloudevents import format_time, from_json, parse_time, to_kafka
from penstock.model.record import RawHeaders, Record
from tests.unit.model.samples import a_record

RECEIVED_MS = 1_600_000_000_000
JSON_MARK = ("content-type", b"application/json")
ATTRIBUTES: RawHeaders = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"id-1"),
    ("ce_type", b"order.placed"),
    ("ce_source", b"/shop"),
    ("ce_time", b"2023-11-14T22:13:20.123Z"),
)
# The example of the JSON format's own page, https://github.com/cloudevents/spec (1.0).
EXAMPLE: dict[str, Any] = {
    "specversion": "1.0",
    "type": "com.github.pull_request.opened",
    "source": "https://github.com/cloudevents/spec/pull",
    "subject": "123",
    "id": "A234-1234-1234",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
    "comexampleothervalue": 5,
    "datacontenttype": "text/xml",
    "data": '<much wow="xml"/>',
}


def event_without(*names: str, **members: Any) -> bytes:
    """Return the example in JSON with some members left out or changed."""
    return json.dumps({name: value for name, value in (EXAMPLE | members).items() if name not in names}).encode()


def test_the_kafka_form_of_a_record() -> None:
    assert to_kafka(a_record(), "/shop") == (*ATTRIBUTES, JSON_MARK)


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ((), (JSON_MARK,)),
        ((("a", b"1"), ("b", None), ("a", b"2")), (JSON_MARK, ("a", b"1"), ("b", None), ("a", b"2"))),
        ((("content-type", b"text/plain"),), (("content-type", b"text/plain"),)),
        ((("content-type", None),), (("content-type", None),)),
        ((JSON_MARK,), (JSON_MARK, JSON_MARK)),
        ((("a", b"1"), JSON_MARK), (JSON_MARK, ("a", b"1"), JSON_MARK)),
        ((JSON_MARK, ("content-type", b"text/plain")), (JSON_MARK, JSON_MARK, ("content-type", b"text/plain"))),
        ((("content-type", b"text/plain"), JSON_MARK), (("content-type", b"text/plain"), JSON_MARK)),
        ((("ce_subject", b"7"),), (JSON_MARK, ("ce_subject", b"7"))),
    ],
)
def test_the_kafka_form_names_the_content_type_and_has_the_headers(own: RawHeaders, sent: RawHeaders) -> None:
    assert to_kafka(a_record(raw_headers=own), "/shop") == (*ATTRIBUTES, *sent)


@pytest.mark.parametrize("own", [(), (JSON_MARK,), (("a", b"1"),)])
def test_a_tombstone_in_the_kafka_form_has_no_content_type_but_its_own(own: RawHeaders) -> None:
    sent = to_kafka(a_record(data=None, raw_headers=own), "/shop")

    assert sent.count(JSON_MARK) == 2 * own.count(JSON_MARK)


def test_the_example_of_the_specification_is_read_in_the_json_form() -> None:
    record = from_json(event_without(), RECEIVED_MS)

    assert record == Record(
        "A234-1234-1234",
        None,
        b'<much wow="xml"/>',
        "com.github.pull_request.opened",
        (("content-type", b"text/xml"),),
        1_522_949_460_000,
    )
    assert record.value == b'<much wow="xml"/>'


@pytest.mark.parametrize(
    ("content_type", "data", "expected"),
    [
        (None, {"a": 1}, b'{"a":1}'),
        ("application/json", "text", b'"text"'),
        ("application/json", None, b"null"),
        ("text/plain", "tëxt\n", "tëxt\n".encode()),
        ("text/plain", {"a": 1}, b'{"a":1}'),
    ],
)
def test_text_of_another_kind_stands_in_the_json_form_as_a_string(
    content_type: str | None, data: Any, expected: bytes
) -> None:
    members = {name: value for name, value in EXAMPLE.items() if name != "datacontenttype"} | {"data": data}
    if content_type is not None:
        members["datacontenttype"] = content_type
    text = json.dumps(members, separators=(",", ":")).encode()

    assert from_json(text, RECEIVED_MS).data == expected


def test_base64_without_a_content_type_is_bytes() -> None:
    record = from_json(event_without("data", "datacontenttype", data_base64="AP8="), RECEIVED_MS)

    assert record.data == b"\x00\xff"
    assert record.raw_headers == (("content-type", b"application/octet-stream"),)


def test_without_a_time_the_moment_of_receipt_counts() -> None:
    assert from_json(event_without("time"), RECEIVED_MS).timestamp_ms == RECEIVED_MS


@pytest.mark.parametrize("name", ["specversion", "id", "type", "source"])
def test_json_that_lacks_an_attribute_is_refused(name: str) -> None:
    with pytest.raises(InvalidEnvelope, match=name):
        from_json(event_without(name), RECEIVED_MS)
    with pytest.raises(InvalidEnvelope, match=name):
        from_json(event_without(**{name: ""}), RECEIVED_MS)
    with pytest.raises(InvalidEnvelope, match=name):
        from_json(event_without(**{name: 5}), RECEIVED_MS)


@pytest.mark.parametrize(
    ("members", "attribute"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"data_base64": "%%%"}, "data_base64"),
        ({"data_base64": "AP8"}, "data_base64"),
        ({"data_base64": "ä"}, "data_base64"),
        ({"time": "soon"}, "time"),
        ({"partitionkey": 5}, "partitionkey"),
    ],
)
def test_json_with_a_member_that_cannot_be_is_refused_by_its_name(members: dict[str, Any], attribute: str) -> None:
    with pytest.raises(InvalidEnvelope, match=attribute):
        from_json(event_without(**members), RECEIVED_MS)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"5", b"\xff", b"[" * 100_000, b'{"data":' * 100_000])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidEnvelope):
        from_json(text, RECEIVED_MS)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2018-04-05T17:31:00.123456789Z", 1_522_949_460_123),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_a_time_is_read_to_the_millisecond(text: str, ms: int) -> None:
    assert parse_time(text) == ms
    assert parse_time(format_time(ms)) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2018-04-05",
        "2018-04-05T17:31:00",
        "2018-13-05T17:31:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "\ud800",
    ],
)
def test_a_time_that_says_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidEnvelope, match="CloudEvent attribute 'time'"):
        parse_time(text)


@pytest.mark.parametrize("ms", [253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63)])
def test_a_time_out_of_range_is_refused(ms: int) -> None:
    with pytest.raises(InvalidEnvelope, match="out of range"):
        to_kafka(a_record(timestamp_ms=ms), "/shop")
