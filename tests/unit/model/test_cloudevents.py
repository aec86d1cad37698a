import json
from typing import Any

import pytest

from penstock.errors import InvalidEnvelope
from penstock.model.cloudevents import Envelope, format_time, from_json, from_kafka, parse_time, to_json, to_kafka
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


def read(headers: RawHeaders, key: bytes | None = b"o-1", value: bytes | None = b'{"total":42}') -> Envelope:
    """Return the envelope of a Kafka message that is a CloudEvent."""
    envelope = from_kafka(key, value, headers, RECEIVED_MS)
    assert envelope is not None
    return envelope


def event_without(*names: str, **members: Any) -> bytes:
    """Return the example in JSON with some members left out or changed."""
    return json.dumps({name: value for name, value in (EXAMPLE | members).items() if name not in names}).encode()


def test_the_kafka_form_of_a_record() -> None:
    assert to_kafka(Envelope(a_record(), "/shop")) == (*ATTRIBUTES, JSON_MARK)
    assert read((*ATTRIBUTES, JSON_MARK)) == Envelope(a_record(), "/shop")


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
def test_the_kafka_form_names_the_content_type_and_gives_the_headers_back(own: RawHeaders, sent: RawHeaders) -> None:
    envelope = Envelope(a_record(raw_headers=own), "/shop")

    assert to_kafka(envelope) == (*ATTRIBUTES, *sent)
    assert read(to_kafka(envelope)) == envelope


@pytest.mark.parametrize("own", [(), (JSON_MARK,), (("a", b"1"),)])
def test_a_tombstone_in_the_kafka_form_has_no_content_type_but_its_own(own: RawHeaders) -> None:
    envelope = Envelope(a_record(data=None, raw_headers=own), "/shop")

    assert read(to_kafka(envelope), value=None) == envelope
    assert JSON_MARK not in to_kafka(Envelope(a_record(data=None), "/shop"))


def test_a_message_of_another_producer_is_read_in_the_kafka_form() -> None:
    headers = (
        ("ce_id", b"A234"),
        ("ce_source", b"/mycontext"),
        ("ce_specversion", b"1.0"),
        ("ce_type", b"com.example.someevent"),
        ("content-type", b"application/json; charset=utf-8"),
        ("ce_subject", b"7"),
    )

    envelope = read(headers, key=None, value=b"{}")

    rest = (("content-type", b"application/json; charset=utf-8"), ("ce_subject", b"7"))
    assert envelope == Envelope(Record("A234", None, b"{}", "com.example.someevent", rest, RECEIVED_MS), "/mycontext")
    assert envelope.record.value == {}


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("content-type", b"application/json"),),
        (("content-type", b"application/cloudevents+json"),),
        (("ce_id", b"1"), ("ce_type", b"\xff")),
    ],
)
def test_a_kafka_message_that_is_no_cloudevent_gives_none(headers: RawHeaders) -> None:
    assert from_kafka(b"k", b"v", headers, RECEIVED_MS) is None


@pytest.mark.parametrize("name", ["ce_id", "ce_type", "ce_source"])
@pytest.mark.parametrize("content", ["absent", None, b"", b"\xff"])
def test_a_kafka_message_that_lacks_an_attribute_is_refused(name: str, content: Any) -> None:
    headers = [header for header in ATTRIBUTES if header[0] != name]
    if content != "absent":
        headers.append((name, content))

    with pytest.raises(InvalidEnvelope, match=f"CloudEvent attribute '{name}': is (missing|not UTF-8)"):
        read(tuple(headers))


@pytest.mark.parametrize("version", [b"", b"0.3", b"2.0", b"1.0 "])
def test_a_kafka_message_of_another_version_is_refused(version: bytes) -> None:
    with pytest.raises(InvalidEnvelope, match="specversion"):
        read((*ATTRIBUTES[1:], ("ce_specversion", version)))


def test_a_key_that_is_no_text_survives_the_kafka_form_and_is_refused_in_json() -> None:
    envelope = read(ATTRIBUTES, key=b"\xff\x00")

    assert envelope.record.key is not None
    assert envelope.record.key.encode("utf-8", "surrogateescape") == b"\xff\x00"
    with pytest.raises(InvalidEnvelope, match="has no UTF-8 form"):
        to_json(envelope)


def test_the_json_form_of_a_record() -> None:
    text = to_json(Envelope(a_record(), "/shop"))

    assert json.loads(text) == {
        "specversion": "1.0",
        "id": "id-1",
        "type": "order.placed",
        "source": "/shop",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "application/json",
        "partitionkey": "o-1",
        "data": {"total": 42},
    }
    assert from_json(text, RECEIVED_MS) == Envelope(a_record(), "/shop")


def test_bytes_stand_in_the_json_form_as_base64() -> None:
    record = a_record(data=b"\x00\xff", raw_headers=(("content-type", b"application/octet-stream"),))
    text = to_json(Envelope(record, "/shop"))

    assert json.loads(text)["data_base64"] == "AP8="
    assert json.loads(text)["datacontenttype"] == "application/octet-stream"
    assert "data" not in json.loads(text)
    assert from_json(text, RECEIVED_MS).record == record


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b" 1", b"1\n", b"\t{}\r\n", b'"\xff"', b"1e999", b"NaN"])
def test_bytes_that_would_not_come_out_of_a_json_text_the_same_stand_there_as_base64(data: bytes) -> None:
    text = to_json(Envelope(a_record(data=data), "/shop"))

    assert "data_base64" in json.loads(text)
    assert from_json(text, RECEIVED_MS).record == a_record(data=data)


def test_a_tombstone_and_the_json_null_differ_in_the_json_form() -> None:
    tombstone, null = (to_json(Envelope(a_record(data=data), "/shop")) for data in (None, b"null"))

    assert "data" not in json.loads(tombstone)
    assert "datacontenttype" not in json.loads(tombstone)
    assert json.loads(null)["data"] is None
    assert from_json(tombstone, RECEIVED_MS).record.data is None
    assert from_json(null, RECEIVED_MS).record.data == b"null"


def test_the_example_of_the_specification_is_read_in_the_json_form() -> None:
    envelope = from_json(event_without(), RECEIVED_MS)

    assert envelope == Envelope(
        Record(
            "A234-1234-1234",
            None,
            b'<much wow="xml"/>',
            "com.github.pull_request.opened",
            (("content-type", b"text/xml"),),
            1_522_949_460_000,
        ),
        "https://github.com/cloudevents/spec/pull",
    )
    assert envelope.record.value == b'<much wow="xml"/>'


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

    assert from_json(text, RECEIVED_MS).record.data == expected


def test_base64_without_a_content_type_is_bytes() -> None:
    record = from_json(event_without("data", "datacontenttype", data_base64="AP8="), RECEIVED_MS).record

    assert record.data == b"\x00\xff"
    assert record.raw_headers == (("content-type", b"application/octet-stream"),)


def test_without_a_time_the_moment_of_receipt_counts() -> None:
    assert from_json(event_without("time"), RECEIVED_MS).record.timestamp_ms == RECEIVED_MS
    assert read(ATTRIBUTES[:4]).record.timestamp_ms == RECEIVED_MS


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
        ({"penstockheaders": "{"}, "penstockheaders"),
        ({"penstockheaders": '[["a"]]'}, "penstockheaders"),
        ({"penstockheaders": '[["a","%"]]'}, "penstockheaders"),
        ({"penstockheaders": "[" * 100_000}, "penstockheaders"),
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
def test_a_time_out_of_range_is_refused_in_both_forms(ms: int) -> None:
    for encode in (to_kafka, to_json):
        with pytest.raises(InvalidEnvelope, match="out of range"):
            encode(Envelope(a_record(timestamp_ms=ms), "/shop"))
