"""Protobuf, with the extra `protobuf`: a codec of events, and values as JSON and back.

`codec=Protobuf(OrderPlaced)`: the bytes are the plain message, without framing, so that every reader with the
same `.proto` can decode them. `ProtobufJson` converts values by the descriptor of a message, through
Protobuf's own JSON mapping. Nothing is dropped silently: a member without a field in the message, and a field
unknown to the descriptor, are refused. Codecs without I/O.
"""

from typing import Any

from penstock.errors import InvalidInput, MissingExtra, NotAnEventClass, NotConvertible, shown

from .content import JSON, is_json


class Protobuf:
    """The codec of one generated message class. Raises MissingExtra, NotAnEventClass."""

    content_type = "application/x-protobuf"

    def __init__(self, cls: Any) -> None:
        """`cls`: the class that protoc has generated for a message."""
        try:
            from google.protobuf.message import Message
        except ModuleNotFoundError as exc:
            raise MissingExtra("a Protobuf codec", "protobuf") from exc
        if not isinstance(cls, type) or not issubclass(cls, Message):
            raise NotAnEventClass(cls, "Protobuf() takes a message class, as protoc generates them")
        self._cls = cls

    def encode(self, event: Any, /) -> bytes:
        """Return a message as bytes; the same message always has the same bytes."""
        data: bytes = event.SerializeToString(deterministic=True)
        return data

    def decode(self, data: bytes, /) -> Any:
        """Return the message in bytes. Raises the library's DecodeError."""
        return self._cls.FromString(data)


PROTOBUF = "application/x-protobuf"
_PROTOBUF = {PROTOBUF, "application/protobuf", "application/vnd.google.protobuf"}
_MOST_BYTES = 4 * 1024 * 1024  # of a descriptor set


def is_protobuf(content_type: str) -> bool:
    """Return whether a content type means a Protobuf message."""
    return content_type.partition(";")[0].strip().lower() in _PROTOBUF


class ProtobufJson:
    """One message and its descriptor. From any thread."""

    def __init__(self, message: str, descriptors: bytes) -> None:
        """`descriptors`: a FileDescriptorSet with all imports. Raises InvalidInput, MissingExtra."""
        try:
            from google.protobuf import json_format
            from google.protobuf.descriptor_pb2 import FileDescriptorSet
            from google.protobuf.descriptor_pool import DescriptorPool
            from google.protobuf.message import DecodeError
            from google.protobuf.message_factory import GetMessageClass
        except ImportError as exc:
            raise MissingExtra("converting JSON and Protobuf", "protobuf") from exc
        if len(descriptors) > _MOST_BYTES:
            raise InvalidInput(f"the schema has {len(descriptors)} bytes, and the limit is {_MOST_BYTES}")
        self.message, self._json, self._decode_error = message, json_format, DecodeError
        self._pool = DescriptorPool()
        try:
            for each in FileDescriptorSet.FromString(descriptors).file:
                self._pool.Add(each)
            self._class: Any = GetMessageClass(self._pool.FindMessageTypeByName(message))
        except DecodeError:
            raise InvalidInput(
                "the schema is not a FileDescriptorSet; create it with protoc --descriptor_set_out"
            ) from None
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(
                f"the schema lacks a part of {shown(message)}; create it with protoc --include_imports"
            ) from None

    def convert(self, value: bytes, content_type: str, wanted: str) -> bytes:
        """Return a value as another content type. Raises NotConvertible."""
        if is_json(content_type) and is_protobuf(wanted):
            return self._to_protobuf(value)
        if is_protobuf(content_type) and wanted == JSON:
            return self._to_json(value)
        raise NotConvertible(content_type, wanted, "only JSON and Protobuf can be converted")

    def _to_protobuf(self, value: bytes) -> bytes:
        made = self._class()
        try:
            self._json.Parse(value, made, descriptor_pool=self._pool)
        except (self._json.ParseError, RecursionError, ValueError) as exc:
            raise NotConvertible(JSON, PROTOBUF, f"it is not a {self.message}: {_reason(exc)}") from None
        data: bytes = made.SerializeToString(deterministic=True)
        return data

    def _to_json(self, value: bytes) -> bytes:
        try:
            made = self._class.FromString(value)
        except self._decode_error:
            raise NotConvertible(PROTOBUF, JSON, f"it is not a {self.message}") from None
        size = made.ByteSize()
        made.DiscardUnknownFields()
        if made.ByteSize() != size:
            raise NotConvertible(PROTOBUF, JSON, f"it has fields unknown to {self.message}; update the schema")
        try:
            text: str = self._json.MessageToJson(
                made, preserving_proto_field_name=True, indent=None, descriptor_pool=self._pool
            )
        except (self._json.Error, RecursionError, TypeError, ValueError) as exc:
            raise NotConvertible(PROTOBUF, JSON, _reason(exc)) from None
        return text.encode()


def _reason(error: Exception) -> str:
    """Return the reason without the value, which may be private data."""
    text = str(error).partition("\n")[0]
    return type(error).__name__ if not text else text.partition(": ")[0][:200]
