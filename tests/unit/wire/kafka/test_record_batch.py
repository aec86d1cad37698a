import pytest
from fastcrc.crc32 import iscsi as crc32c

from penstock.errors import InvalidBatch, InvalidTime
from penstock.wire.kafka.record_batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LAST_SEQUENCE,
    Compression,
    Marker,
    batches_in,
    check_batch,
    check_produced,
    decode_marker,
    encode_marker,
    headers_in,
    next_sequence,
    place_batch,
    read_header,
    sealed,
)
from penstock.wire.kafka.records import KafkaRecord, decode_records, encode_records, record_bytes


def a_batch(count: int = 2, *, codec: Compression = Compression.NONE, **producer: int) -> bytearray:
    records = [KafkaRecord(n, 1000 + n, b"k%d" % n, b"v" * 50, [("h", None)]) for n in range(count)]
    return encode_records(records, codec=codec, **producer)  # type: ignore[arg-type]


def test_the_header_has_61_bytes_and_the_checksum_is_castagnolis() -> None:
    assert HEADER_BYTES == 61
    assert crc32c(b"123456789") == 0xE3069283


def test_a_whole_batch_is_read_field_by_field() -> None:
    batch = a_batch(3, producer_id=7, producer_epoch=2, base_sequence=40)
    header = check_batch(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (0, 2, 3, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert header.last_sequence == 42
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.is_control, header.is_transactional, header.has_append_time) == (False, False, False)


def test_a_batch_gets_its_place_without_a_new_checksum() -> None:
    batch = a_batch()
    untouched = bytes(batch[CRC_START:])
    place_batch(batch, 0, 1 << 40, 9)
    header = check_batch(batch)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 9)
    assert batch[CRC_START:] == untouched
    assert [each.offset for each in decode_records(batch)] == [1 << 40, (1 << 40) + 1]


def test_batches_are_walked_where_they_stand() -> None:
    first, second = a_batch(1), a_batch(4)
    together = memoryview(first + second)
    assert [at for at, _ in batches_in(together)] == [0, len(first)]
    assert list(headers_in(together)) == list(batches_in(together))
    assert [at for at, _ in headers_in(together[:-1])] == [0]


def test_every_flipped_bit_that_the_checksum_covers_is_found() -> None:
    batch = a_batch(1)
    for place in range(CRC_START * 8, len(batch) * 8):
        batch[place // 8] ^= 1 << place % 8
        with pytest.raises(InvalidBatch, match="checksum"):
            check_batch(batch)
        batch[place // 8] ^= 1 << place % 8
    check_batch(batch)


def test_a_batch_that_is_cut_anywhere_is_refused() -> None:
    batch = a_batch(2)
    for size in range(len(batch)):
        with pytest.raises(InvalidBatch):
            check_batch(batch[:size])


@pytest.mark.parametrize("length", [-1, 0, 48, (1 << 31) - 1, -(1 << 31)])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    batch = a_batch()
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(length=length))
    with pytest.raises(InvalidBatch, match="length"):
        check_batch(batch)
    assert list(headers_in(batch)) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"record_count": 0}, "0 records"),
        ({"last_offset_delta": 5}, "the last is number 5"),
        ({"attributes": 7}, "compression is 7"),
        ({"attributes": 0x30}, "control batch"),
        ({"producer_id": 4}, "producer, epoch and sequence"),
    ],
)
def test_what_no_producer_may_send_is_refused(said: dict[str, int], why: str) -> None:
    batch = a_batch()
    header = check_batch(sealed(read_header(batch)._replace(**said), record_bytes(batch)))
    with pytest.raises(InvalidBatch, match=why):
        check_produced(header)
    check_produced(check_batch(batch))


@pytest.mark.parametrize("said", [{"max_timestamp": 1 << 62}, {"base_timestamp": -2}])
def test_a_time_that_no_calendar_has_is_refused(said: dict[str, int]) -> None:
    with pytest.raises(InvalidTime, match="between the years 1970 and 9999"):
        check_produced(read_header(a_batch())._replace(**said))
    check_produced(read_header(a_batch())._replace(base_timestamp=-1, max_timestamp=-1))


@pytest.mark.parametrize("codec", list(Compression))
def test_records_come_back_as_they_were_in_every_compression(codec: Compression) -> None:
    batch = a_batch(20, codec=codec)
    assert check_batch(batch).codec == codec
    found = list(decode_records(memoryview(batch)))
    assert found == [KafkaRecord(n, 1000 + n, b"k%d" % n, b"v" * 50, [("h", None)]) for n in range(20)]


def test_records_that_are_not_what_the_header_says_are_refused() -> None:
    batch = a_batch()
    header = read_header(batch)._replace(record_count=3, last_offset_delta=2)
    with pytest.raises(InvalidBatch, match="cannot be decoded"):
        list(decode_records(sealed(header, record_bytes(batch))))


@pytest.mark.parametrize("marker", list(Marker))
def test_a_marker_says_how_a_transaction_ended(marker: Marker) -> None:
    batch = encode_marker(marker, producer_id=5, producer_epoch=1, coordinator_epoch=3, timestamp_ms=99)
    header = check_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.record_count) == (5, 1, 1)
    assert decode_marker(batch) is marker
    (record,) = decode_records(batch)  # as Kafka's own clients read it
    assert (record.key, record.value) == (b"\0\0\0" + bytes([marker]), b"\0\0\0\0\0\3")


def test_a_control_batch_that_is_no_marker_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="not a transaction marker"):
        decode_marker(encode_records([KafkaRecord(0, 0, b"\0\0\0\x09", b"", [])]))


def test_after_the_last_sequence_comes_zero() -> None:
    assert next_sequence(LAST_SEQUENCE, 1) == 0
    assert next_sequence(5, 2) == 7
