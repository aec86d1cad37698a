"""Frames of TinyQ: fed byte by byte, cut anywhere, and of bytes that mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tinyq.frames import (
    TinyqCode,
    TinyqPassword,
    TinyqReader,
    TinyqRefusal,
    TinyqRequest,
    encode_answer,
    encode_request,
    published,
)
from penstock.wire.tinyq.messages import MESSAGE, REQUESTS, decode, encode

DIGITS = "ab" * 32
TEXT = st.none() | st.text(max_size=20).filter(lambda text: text.isprintable())
KINDS = {
    "u8": st.integers(0, 255),
    "u16": st.integers(0, 65_535),
    "u32": st.integers(0, (1 << 32) - 1),
    "u64": st.integers(0, (1 << 64) - 1),
    "text": TEXT,
    "token": st.binary(min_size=16, max_size=16),
    "rest": st.binary(max_size=50),
    "ranges": st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1 << 40), st.integers(0, 1 << 40)), max_size=5),
}


def all_of(reader: TinyqReader) -> list[TinyqPassword | TinyqRequest]:
    found = []
    while (each := reader.next()) is not None:
        found.append(each)
    return found


def test_the_bytes_of_the_table() -> None:
    assert encode_request(3, b"a b") == b"\x03\x00\x00\x00\x03a b"
    assert encode_answer(0, b"b") == b"\x00\x00\x00\x00\x01b"
    assert published(b"a b c") == ("a", b"b c")
    assert published(b"a ") == ("a", b"")


def test_what_comes_byte_by_byte_is_the_same() -> None:
    sent = f" {DIGITS}\n".encode() + encode_request(1, b"a") + encode_request(3, b"a b") + encode_request(9, b"")
    wanted = [TinyqPassword(DIGITS), TinyqRequest(1, b"a"), TinyqRequest(3, b"a b"), TinyqRequest(9, b"")]
    for size in (1, 2, 7, len(sent)):
        reader, found = TinyqReader(), []
        for at in range(0, len(sent), size):
            reader.feed(sent[at : at + size])
            found += all_of(reader)
        reader.end()
        assert found == wanted


def test_a_connection_may_begin_with_negotiating() -> None:
    reader = TinyqReader()
    reader.feed(encode_request(254, b"abc"))
    assert all_of(reader) == [TinyqRequest(254, b"abc")]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", TinyqCode.COMMAND_UNREADABLE),
        (b"\x03\0", TinyqCode.SIZE_UNREADABLE),
        (b"\x03\0\0\0\x02a", TinyqCode.BODY_UNREADABLE),
    ],
)
def test_what_is_not_whole_at_the_end_has_a_code(sent: bytes, code: TinyqCode) -> None:
    reader = TinyqReader()
    reader.feed(DIGITS.encode() + sent)
    assert len(all_of(reader)) == 1
    with pytest.raises(TinyqRefusal) as refused:
        reader.end()
    assert refused.value.code is code


def test_a_size_that_is_too_large_is_refused_before_its_bytes_come() -> None:
    reader = TinyqReader(10)
    reader.feed(DIGITS.encode() + b"\x03\0\0\0\x0b")
    reader.next()
    with pytest.raises(TinyqRefusal) as refused:
        reader.next()
    assert refused.value.code is TinyqCode.SIZE_INVALID


@given(st.data())
def test_decoding_undoes_encoding(data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from([*REQUESTS.values(), MESSAGE]))
    values = {name: data.draw(KINDS[kind]) for name, kind in layout}
    assert decode(layout, encode(layout, **values)) == values


@given(st.sampled_from([*REQUESTS.values(), MESSAGE]), st.binary(max_size=80))
def test_bytes_that_mean_nothing_are_refused_and_never_fail(layout: tuple[tuple[str, str], ...], data: bytes) -> None:
    try:
        found = decode(layout, data)
    except TinyqRefusal:
        return
    assert encode(layout, **found) == data


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_pieces_are_taken_or_refused(pieces: list[bytes]) -> None:
    reader = TinyqReader(1000)
    try:
        for each in pieces:
            reader.feed(each)
            all_of(reader)
        reader.end()
    except TinyqRefusal:
        return
