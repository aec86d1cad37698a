import copy
import pickle
from datetime import UTC, datetime

import msgspec
import pytest

from penstock.errors import Undecodable
from penstock.model import record as record_module
from penstock.model.content import decode_value
from tests.unit.model.samples import a_record


def test_the_value_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes | None] = []

    def counted(data: bytes | None, content_type: str) -> object:
        calls.append(data)
        return decode_value(data, content_type)

    monkeypatch.setattr(record_module, "decode_value", counted)
    record = a_record()

    assert record.value == {"total": 42}
    assert record.value is record.value
    assert len(calls) == 1


def test_a_null_value_is_decoded_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    record = a_record(data=b"null")

    assert record.value is None
    monkeypatch.delattr(record_module, "decode_value")
    assert record.value is None


def test_a_tombstone_has_no_data_and_no_value() -> None:
    record = a_record(data=None)

    assert record.data is None
    assert record.value is None


@pytest.mark.parametrize("content_type", [b"application/octet-stream", b"text/plain"])
def test_a_record_marked_as_bytes_has_them_as_its_value(content_type: bytes) -> None:
    assert a_record(data=b"42", raw_headers=(("content-type", content_type),)).value == b"42"


@pytest.mark.parametrize("content_type", [None, b"", b"application/json", b"application/x+json; v=1"])
def test_a_record_without_a_mark_or_marked_as_json_is_json(content_type: bytes | None) -> None:
    assert a_record(data=b"42", raw_headers=(("content-type", content_type),)).value == 42


@pytest.mark.parametrize(
    "parent",
    [
        b"",
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"00-00000000000000000000000000000000-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        b"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        None,
    ],
)
def test_a_malformed_traceparent_names_no_trace(parent: bytes | None) -> None:
    record = a_record(raw_headers=(("traceparent", parent),))

    assert (record.trace_id, record.span_id) == (None, None)


def test_data_that_cannot_be_decoded_is_kept() -> None:
    record = a_record(data=b"{")

    for _ in range(2):
        with pytest.raises(Undecodable):
            _ = record.value
    assert record.data == b"{"


def test_headers_are_a_plain_dict_in_which_the_last_of_a_name_counts() -> None:
    raw = (("a", b"1"), ("b", None), ("a", b"2"), ("c", b"\xff"), ("d", "ä".encode()), ("e", b""))
    record = a_record(raw_headers=raw)

    assert record.headers == {"a": "2", "b": None, "c": "\ufffd", "d": "ä", "e": ""}
    assert record.raw_headers == raw


def test_the_timestamp_is_an_aware_datetime() -> None:
    assert a_record(timestamp_ms=1_700_000_000_123).timestamp == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_a_new_record_has_no_place_in_the_log_and_is_delivered_first() -> None:
    record = a_record()

    assert (record.topic, record.partition, record.offset) == (None, None, None)
    assert (record.attempt, record.redelivered, record.fence) == (1, False, None)


def test_records_are_equal_by_content_whether_decoded_or_not() -> None:
    one, other = a_record(), a_record()
    _ = one.value

    assert one == other
    assert hash(one) == hash(other)
    assert {one, other} == {one}


@pytest.mark.parametrize(
    "other",
    [
        a_record("o-2"),
        a_record(None),
        a_record(data=b"{}"),
        a_record(data=None),
        a_record(raw_headers=(("a", None),)),
        a_record(timestamp_ms=0),
        a_record(topic="events"),
        a_record(partition=0),
        a_record(offset=0),
        a_record(attempt=2),
        a_record(redelivered=True),
        a_record(fence=1),
        "id-1",
        None,
    ],
)
def test_a_record_that_differs_in_anything_is_not_equal(other: object) -> None:
    assert a_record() != other


def test_a_record_cannot_be_changed() -> None:
    record = a_record()

    with pytest.raises(AttributeError):
        record.key = "o-2"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        record.value = 5  # type: ignore[misc]


def test_a_record_shows_what_is_set_and_the_same_before_and_after_decoding() -> None:
    record = a_record(offset=7)
    before = repr(record)
    _ = record.value

    assert before == (
        "Record(id='id-1', key='o-1', data=b'{\"total\":42}', type='order.placed', raw_headers=(), "
        "timestamp_ms=1700000000123, offset=7)"
    )
    assert repr(record) == str(record) == before


def test_a_record_can_be_copied_changed_and_sent_to_another_process() -> None:
    record = a_record(raw_headers=(("a", None),), offset=7)
    _ = record.value

    assert copy.copy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert pickle.loads(pickle.dumps(a_record())).value == {"total": 42}
    assert msgspec.structs.replace(record, attempt=2) == a_record(raw_headers=(("a", None),), offset=7, attempt=2)


@pytest.mark.parametrize(("attempt", "failures", "is_retry"), [(1, 0, False), (2, 1, True), (5, 4, True)])
def test_an_attempt_is_one_more_than_the_failures(attempt: int, failures: int, is_retry: bool) -> None:
    record = a_record(attempt=attempt, redelivered=True)
    assert (record.failures, record.is_retry) == (failures, is_retry)
