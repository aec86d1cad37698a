"""Bytes of `penstock.wire.kafka.headers`, made by hand and by aiokafka 0.14 (the long ones)."""

import pytest

from penstock.errors import InvalidHeaders, Undecodable
from penstock.model.record import RawHeaders
from penstock.wire.kafka.headers import decode_headers, encode_headers

VECTORS: list[tuple[RawHeaders, bytes]] = [
    ((), b"\x00"),
    ((("a", b"1"),), b"\x02\x02a\x021"),
    ((("a", None),), b"\x02\x02a\x01"),
    ((("a", b""),), b"\x02\x02a\x00"),
    ((("", b""),), b"\x02\x00\x00"),
    ((("", None),), b"\x02\x00\x01"),
    ((("ä", b"\xff\x00"),), b"\x02\x04\xc3\xa4\x04\xff\x00"),
    ((("a", b"1"), ("b", None), ("a", b"2")), b"\x06\x02a\x021\x02b\x01\x02a\x022"),
    ((("a", b"x" * 63),), b"\x02\x02a\x7e" + b"x" * 63),
    ((("a", b"x" * 64),), b"\x02\x02a\x80\x01" + b"x" * 64),
    ((("n" * 64, b"x" * 8191),), b"\x02\x80\x01" + b"n" * 64 + b"\xfe\x7f" + b"x" * 8191),
    ((("a", b"x" * 8192),), b"\x02\x02a\x80\x80\x01" + b"x" * 8192),
    ((("a", b"x" * 1_048_576),), b"\x02\x02a\x80\x80\x80\x01" + b"x" * 1_048_576),
    ((("a", None),) * 64, b"\x80\x01" + b"\x02a\x01" * 64),
]


@pytest.mark.parametrize(("headers", "data"), VECTORS, ids=range(len(VECTORS)))
def test_headers_have_the_bytes_that_kafka_gives_them(headers: RawHeaders, data: bytes) -> None:
    assert encode_headers(headers) == data
    assert decode_headers(data) == headers


@pytest.mark.parametrize(("headers", "data"), VECTORS[:11], ids=range(11))
def test_bytes_that_are_cut_anywhere_are_undecodable(headers: RawHeaders, data: bytes) -> None:
    for length in range(min(len(data), 200)):
        with pytest.raises(Undecodable, match=r"^headers in Kafka's framing cannot be decoded: "):
            decode_headers(data[:length])
    with pytest.raises(Undecodable):
        decode_headers(data[:-1])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "end within a header"),
        (b"\x00\x00", "ends at byte 1 of 2"),
        (b"\x02\x02a\x021\x00", "ends at byte 5 of 6"),
        (b"\x02\x02a\x041", "ends at byte 6 of 5"),
        (b"\x02\x04a", "end within a header"),
        (b"\x01", "a length of -1"),
        (b"\x02\x01\x00", "a length of -1"),
        (b"\x02\x02a\x03", "a length of -2"),
        (b"\x02\x02a\xff\xff\xff\xff\x0f", "a length of -2147483648"),
        (b"\xfe\xff\xff\xff\x0f", "end within a header"),
        (b"\x80\x80\x80\x80\x10", "a length of 2147483648"),
        (b"\x80\x80\x80\x80\x80\x00", "a number of more than 5 bytes"),
        (b"\x02\x02\xff\x00", "a name is not UTF-8"),
        (b"\x02\x06\xed\xa0\x80\x00", "a name is not UTF-8"),
    ],
)
def test_bytes_that_are_no_headers_are_undecodable_and_say_why(data: bytes, why: str) -> None:
    with pytest.raises(Undecodable, match=why):
        decode_headers(data)


def test_a_length_written_longer_than_needed_is_read_as_kafka_reads_it() -> None:
    assert decode_headers(b"\x82\x00\x82\x80\x00a\x82\x80\x80\x80\x001") == (("a", b"1"),)


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidHeaders, match="has no UTF-8 form"):
        encode_headers((("\ud800", b"1"),))
