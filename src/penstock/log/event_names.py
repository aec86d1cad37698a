"""The id and type of a CloudEvent, read from the headers of a record in Kafka's binary form."""

from collections.abc import Sequence

from penstock.model.limits import NAME_CHARACTERS


def event_names(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str | None]:
    """Return the CloudEvent id and type in a record's headers."""
    id = type = None
    for name, value in headers:
        if name == "ce_id":
            id = _name(value)
        elif name == "ce_type":
            type = _name(value)
    return id, type


def _name(value: bytes | None) -> str | None:
    """Return the value of a header if it is a valid name."""
    try:
        text = (value or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if 0 < len(text) <= NAME_CHARACTERS and text.isprintable() else None
