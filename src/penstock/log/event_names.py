"""What the headers of a record say of it as a CloudEvent, in Kafka's binary form: its id and its type."""

from collections.abc import Sequence

from penstock.model.limits import NAME_CHARACTERS


def event_names(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str | None]:
    """Return the id and the type that headers give a record as a CloudEvent."""
    id = type = None
    for name, said in headers:
        if name == "ce_id":
            id = _name(said)
        elif name == "ce_type":
            type = _name(said)
    return id, type


def _name(said: bytes | None) -> str | None:
    """Return a header as a name, if it can be one."""
    try:
        text = (said or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if 0 < len(text) <= NAME_CHARACTERS and text.isprintable() else None
