"""Converts values to the content type that a client asks for, JSON or Protobuf, by the registered schema.

A published value that cannot be converted is refused. A record that cannot be converted is delivered as it is
stored, with the reason: one odd record must not block a group.
"""

from threading import Lock

import msgspec
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.errors import InvalidInput, NotConvertible
from penstock.log.store import Store
from penstock.model.content import BINARY, CONTENT_TYPE, JSON, is_json
from penstock.model.limits import NAME_CHARACTERS
from penstock.model.protobuf import PROTOBUF, ProtobufJson, is_protobuf
from penstock.model.record import RawHeaders, Record
from penstock.operate.producer import RecordWanted
from penstock.operate.value_schemas import schema_of

CONTENT_TYPES = (JSON, PROTOBUF)
_KEPT_SECONDS = 2.0  # after which a replaced schema is in force
_MOST_KEPT = 1000


class Conversion:
    """Converts for the clients of a door. From any thread; asks the store when its cache is too old."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock, self._lock = store, clock, Lock()
        self._kept: dict[tuple[str, str], tuple[float, ProtobufJson | None]] = {}

    def check(self, wanted: str) -> str:
        """Return a requested content type, or an empty one, if it is supported. Raises InvalidInput."""
        if wanted and wanted not in CONTENT_TYPES:
            raise InvalidInput(f"convert_to is {wanted[:80]!r}, and must be one of {', '.join(CONTENT_TYPES)}")
        return wanted

    def published(self, topic: str, record: RecordWanted, wanted: str) -> RecordWanted:
        """Return the record to add, in the content type that is asked for. Raises NotConvertible."""
        if not wanted or record.value is None:
            return record
        content_type = _content_type(record.headers)
        if _is_kind(content_type, wanted):
            return record
        value = self._converted(topic, record.type, record.value, content_type, wanted)
        return replace(record, value=value, headers=_marked(record.headers, wanted))

    def given(self, record: Record, wanted: str) -> tuple[Record, str]:
        """Return a record in the content type that is asked for; or unconverted, with the reason."""
        if not wanted or record.data is None:
            return record, ""
        content_type = _content_type(record.raw_headers)
        if _is_kind(content_type, wanted):
            return record, ""
        assert record.topic is not None
        try:
            value = self._converted(record.topic, record.type, record.data, content_type, wanted)
        except NotConvertible as exc:
            return record, str(exc)
        return replace(record, data=value, raw_headers=_marked(record.raw_headers, wanted), _value=msgspec.UNSET), ""

    def _converted(self, topic: str, type: str | None, value: bytes, content_type: str, wanted: str) -> bytes:
        schema = self._schema(topic, type or "")
        if schema is None:
            of = f"type {type} of topic {topic}" if type else f"topic {topic}"
            raise NotConvertible(content_type, wanted, f"no schema is registered for {of}")
        return schema.convert(value, content_type, wanted)

    def _schema(self, topic: str, type: str) -> ProtobufJson | None:
        if max(len(topic), len(type)) > NAME_CHARACTERS:  # such a name has no schema
            return None
        now, key = self._clock.monotonic(), (topic, type)
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < _KEPT_SECONDS:
            return kept[1]
        found = schema_of(self._store, topic, type)
        with self._lock:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = now, found
        return found


def _content_type(headers: RawHeaders) -> str:
    found = dict(headers).get(CONTENT_TYPE)
    return JSON if found is None else found.decode("utf-8", "replace") or BINARY


def _is_kind(content_type: str, wanted: str) -> bool:
    return is_json(content_type) if wanted == JSON else is_protobuf(content_type)


def _marked(headers: RawHeaders, wanted: str) -> RawHeaders:
    """Return headers with another content type; JSON needs none."""
    rest = tuple(each for each in headers if each[0] != CONTENT_TYPE)
    return rest if wanted == JSON else ((CONTENT_TYPE, wanted.encode()), *rest)
