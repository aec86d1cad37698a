"""From a value to its stored bytes, and back.

JSON is the default and needs no mark. Bytes are stored unchanged and marked by the header `content-type`
(`application/octet-stream` unless the caller names another). None is a tombstone: no bytes at all, which is
not the same as empty bytes. NaN, the infinities and all other values without a JSON form are refused.
"""

from math import isfinite
from typing import Any

import msgspec

from penstock.errors import InvalidValue, Undecodable
from penstock.redaction import place

_BYTES = (bytes, bytearray, memoryview)
_NOT_FLOATS = frozenset({str, int, bool, type(None), *_BYTES})
_SERIES = frozenset({list, tuple, set, frozenset})
CONTENT_TYPE = "content-type"
JSON = "application/json"
BINARY = "application/octet-stream"
# The errors of msgspec and pydantic for a value that has no JSON form.
ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.EncodeError)


def encode_value(type_name: str, value: Any) -> tuple[bytes | None, str]:
    """Return a value's bytes and their content type. Raises InvalidValue, which names the event's type."""
    if type(value) is not dict:  # most are dicts: skip the costlier checks
        if value is None:
            return None, JSON
        if isinstance(value, _BYTES):
            return bytes(value), BINARY
    try:
        data = _encode(value)
        if b"null" in data:  # also msgspec's form of NaN and the infinities
            _refuse_not_finite(value)
    except ENCODE_ERRORS as exc:
        raise InvalidValue(type_name, str(exc)) from exc
    return data, JSON


def _refuse_not_finite(value: Any) -> None:
    left = [value]
    while left:
        each = left.pop()
        kind = type(each)
        if kind in _NOT_FLOATS:
            continue
        if kind is dict:
            left.extend(each.values())
        elif kind in _SERIES:
            left.extend(each)
        elif isinstance(each, float):
            if not isfinite(each):
                raise ValueError("NaN and the infinities have no JSON form; use None or text for them")
        else:
            plain = msgspec.to_builtins(each, enc_hook=_plain)
            if type(plain) is not kind:
                left.append(plain)


def decode_value(data: bytes | None, content_type: str) -> Any:
    """Return the value in `data`: JSON as Python data, everything else as bytes. Raises Undecodable."""
    if data is None or not is_json(content_type):
        return data
    try:
        return _decode(data)
    except (ValueError, RecursionError) as exc:  # msgspec's and UTF-8's errors are ValueErrors
        raise Undecodable("a JSON value", place(exc)) from exc


def is_json(content_type: str) -> bool:
    """Return whether a content type means JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == JSON or kind.endswith("+json")


def has_json(data: bytes) -> bool:
    """Return whether bytes are JSON."""
    try:
        _decode(data)
    except (ValueError, RecursionError):
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a pydantic model, which msgspec does not know, as JSON-like data."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is not JSON-like")
    return dump(mode="json", by_alias=True)


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder().decode
