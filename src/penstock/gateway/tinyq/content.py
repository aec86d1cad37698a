"""The type of a payload: the tag of TinyQ's frames, and the content type of a record."""

from penstock.model.content import BINARY, CONTENT_TYPE, JSON, is_json
from penstock.model.record import RawHeaders, Record

RAW, AS_JSON, PROTOBUF = 0, 1, 2
_PROTOBUF = "application/x-protobuf"
_TYPES = {RAW: BINARY, PROTOBUF: _PROTOBUF}
_HEADERS: dict[int, RawHeaders] = {AS_JSON: ()} | {
    tag: ((CONTENT_TYPE, kind.encode()),) for tag, kind in _TYPES.items()
}
TAGS = (RAW, AS_JSON, PROTOBUF)


def tagged(tag: int) -> RawHeaders:
    """Return the header for a tag; JSON needs none."""
    return _HEADERS[tag]


def tag_of(record: Record) -> int:
    """Return the tag of a record's content type."""
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    if is_json(content_type):
        return AS_JSON
    return PROTOBUF if "protobuf" in content_type else RAW
