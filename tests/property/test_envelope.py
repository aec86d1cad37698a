"""Whatever a record holds, its Kafka form has it, and a time as text gives its milliseconds back."""

from hypothesis import given

from penstock.model.cloudevents import format_time, parse_time, to_kafka
from penstock.model.record import Record
from penstock.wire.kafka.headers import decode_headers, encode_headers
from tests.property.strategies import moments_ms, records, some_text


@given(records, some_text)
def test_the_kafka_form_has_the_attributes_and_the_headers(record: Record, source: str) -> None:
    sent = decode_headers(encode_headers(to_kafka(record, source)))
    names = dict(sent[:5])

    assert sent[len(sent) - len(record.raw_headers) :] == record.raw_headers
    assert (names["ce_id"], names["ce_source"]) == (record.id.encode(), source.encode())
    assert parse_time((names["ce_time"] or b"").decode()) == record.timestamp_ms


@given(moments_ms)
def test_a_time_as_text_gives_its_milliseconds_back(ms: int) -> None:
    assert parse_time(format_time(ms)) == ms
