"""Events that are Protobuf messages: `codec=Protobuf(OrderPlaced)`, with the extra `protobuf`.

The bytes are the plain message, without framing, so that every reader with the same `.proto` can decode them.
"""

from typing import Any

from penstock.errors import MissingExtra, NotAnEventClass


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
