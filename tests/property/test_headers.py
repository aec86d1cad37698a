from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Undecodable
from penstock.model.record import RawHeaders
from penstock.wire.kafka.headers import decode_headers, encode_headers
from tests.property.strategies import header

long_values = st.integers(0, 70_000).map(lambda size: b"x" * size)
any_headers = st.lists(header | st.tuples(st.just("long"), long_values), max_size=80).map(tuple)


@given(any_headers)
def test_headers_come_out_as_they_went_in(headers: RawHeaders) -> None:
    assert decode_headers(encode_headers(headers)) == headers


@given(any_headers, st.binary(min_size=1, max_size=20))
def test_bytes_behind_the_headers_are_refused(headers: RawHeaders, more: bytes) -> None:
    assert refused(encode_headers(headers) + more)


@given(any_headers, st.data())
def test_headers_that_are_cut_short_are_refused(headers: RawHeaders, drawn: st.DataObject) -> None:
    whole = encode_headers(headers)

    assert refused(whole[: drawn.draw(st.integers(0, len(whole) - 1))])


def refused(data: bytes) -> bool:
    try:
        decode_headers(data)
    except Undecodable:
        return True
    return False
