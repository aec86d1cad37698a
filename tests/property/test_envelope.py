"""Decode undoes encode: whatever a record holds comes out of both forms as it went in."""

from hypothesis import given

from penstock.model.cloudevents import Envelope, from_json, from_kafka, parse_time, to_json, to_kafka
from penstock.model.cloudevents import format_time as formatted
from penstock.model.record import Record
from penstock.wire.kafka.headers import decode_headers, encode_headers
from tests.property.strategies import envelopes, moments_ms, records

ANOTHER_MS = 1  # the time a message was received; an envelope that names its own must not take it


def through_kafka(envelope: Envelope) -> Envelope | None:
    """Return what a reader of the Kafka message gets, its headers sent as bytes."""
    record = envelope.record
    key = None if record.key is None else record.key.encode()
    headers = decode_headers(encode_headers(to_kafka(envelope)))
    return from_kafka(key, record.data, headers, ANOTHER_MS)


@given(envelopes)
def test_the_kafka_form_gives_the_envelope_back(envelope: Envelope) -> None:
    assert through_kafka(envelope) == envelope


@given(envelopes)
def test_the_json_form_gives_the_envelope_back(envelope: Envelope) -> None:
    assert from_json(to_json(envelope), ANOTHER_MS) == envelope


@given(envelopes)
def test_an_envelope_may_go_through_both_forms_any_number_of_times(envelope: Envelope) -> None:
    for _ in range(2):
        arrived = through_kafka(from_json(to_json(envelope), ANOTHER_MS))
        assert arrived == envelope


@given(envelopes)
def test_both_forms_are_the_same_each_time(envelope: Envelope) -> None:
    twin = Envelope(envelope.record, envelope.source)

    assert to_json(envelope) == to_json(twin)
    assert to_kafka(envelope) == to_kafka(twin)


@given(records)
def test_an_envelope_does_not_change_what_the_value_means(record: Record) -> None:
    envelope = Envelope(record, "/shop")
    arrived = through_kafka(envelope)
    assert arrived is not None

    for other in (arrived.record, from_json(to_json(envelope), ANOTHER_MS).record):
        assert other.headers == record.headers
        assert other.timestamp == record.timestamp


@given(moments_ms)
def test_a_time_as_text_gives_its_milliseconds_back(ms: int) -> None:
    assert parse_time(formatted(ms)) == ms
