"""A record's headers in Kafka's own framing, as at the end of a record in a v2 batch.

| bytes  | field        | meaning                                       |
|--------|--------------|-----------------------------------------------|
| varint | count        | number of headers                             |
| varint | name_length  | per header: bytes of the name                 |
| ...    | name         | UTF-8                                         |
| varint | value_length | bytes of the value, or -1 for a null value    |
| ...    | value        | any bytes; absent for a null value            |

A varint is zigzag: 0, -1, 1, -2 … become 0, 1, 2, 3 …, then seven bits to a byte, lowest first, the top
bit set on all but the last; 32 bits, so at most five bytes. Codec without I/O: decode undoes encode.
"""

from penstock.errors import InvalidHeaders, Undecodable
from penstock.model.record import RawHeaders

_NONE = b"\x00"  # a count of zero
_NULL = 1  # the zigzag of -1
_VARINT_BYTES = 5
_LONG = 0x81  # bits of a first byte: more bytes follow, or the number is negative


def encode_headers(headers: RawHeaders) -> bytes:
    """Return headers as bytes. Raises InvalidHeaders for a name that has no UTF-8 form."""
    if not headers:
        return _NONE
    out = bytearray()
    put_varint(out, len(headers) << 1)
    for name, value in headers:
        try:
            name_bytes = name.encode()
        except UnicodeEncodeError as exc:
            raise InvalidHeaders(name, f"has no UTF-8 form: {exc.reason}") from exc
        put_varint(out, len(name_bytes) << 1)
        out += name_bytes
        if value is None:
            out.append(_NULL)
        else:
            put_varint(out, len(value) << 1)
            out += value
    return bytes(out)


def decode_headers(data: bytes) -> RawHeaders:
    """Return the headers in bytes. Raises Undecodable for anything but exactly one list of headers."""
    if data == _NONE:
        return ()
    headers: list[tuple[str, bytes | None]] = []
    end = len(data)
    try:
        count, at = _length(data, 0)
        for _ in range(count):
            length = data[at]
            at += 1
            if length & _LONG:  # rare; the call would cost as much as the rest of the loop
                length, at = _length(data, at - 1)
            else:
                length >>= 1
            name = data[at : at + length].decode()
            at += length
            length = data[at]  # also past the end, when the name was truncated
            at += 1
            if length == _NULL:
                headers.append((name, None))
                continue
            if length & _LONG:
                length, at = _length(data, at - 1)
            else:
                length >>= 1
            headers.append((name, data[at : at + length]))
            at += length
    except IndexError:
        raise _refusal("the bytes end within a header") from None
    except UnicodeDecodeError as exc:
        raise _refusal(f"a name is not UTF-8: {exc.reason}") from exc
    if at != end:
        raise _refusal(f"the last header ends at byte {at} of {end}")
    return tuple(headers)


def put_varint(out: bytearray, number: int) -> None:
    """Add an unsigned varint."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return the count or length at a position, and the position after it. Raises IndexError at the end."""
    number = 0
    for place in range(_VARINT_BYTES):
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    else:
        raise _refusal(f"a number of more than {_VARINT_BYTES} bytes")
    if number & 1 or number >> 32:
        raise _refusal(f"a length of {(number >> 1) ^ -(number & 1)}")
    return number >> 1, at + place + 1


def _refusal(why: str) -> Undecodable:
    return Undecodable("headers in Kafka's framing", why)
