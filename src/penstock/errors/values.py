"""Errors of published events: values, types, names and the registry of typed events."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from .base import Error, Fault, shown


class InvalidInput(Error, code="invalid_input", fault=Fault.CALLER):
    """An argument is not valid; it is refused before anything is written."""


class InvalidType(InvalidInput, code="invalid_type"):
    """The name of an event type is empty, unprintable, too long or reserved."""

    def __init__(self, value: object, limit: int, hint: str = "") -> None:
        text = f"event type {shown(value)} must be 1 to {limit} printable characters"
        super().__init__(f"{text}; {hint}" if hint else text)


class InvalidKey(InvalidInput, code="invalid_key"):
    """A key is empty, unprintable or too long; leave it out when order does not matter."""

    def __init__(self, value: object, limit: int, hint: str = "") -> None:
        remedy = hint or "pass key=None when no order is needed"
        super().__init__(f"key {shown(value)} must be a string of 1 to {limit} printable characters; {remedy}")


class InvalidTopic(InvalidInput, code="invalid_topic"):
    """A topic's name has a character or a length that is not allowed."""

    def __init__(self, value: object) -> None:
        super().__init__(
            f"topic {shown(value)} must be 1 to 249 of the characters a-z A-Z 0-9 . _ - and not '.' or '..'"
        )


class InvalidHeaders(InvalidInput, code="invalid_headers"):
    """Headers are not names with string or bytes values."""

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"header {shown(name)}: {why}")


class InvalidOwner(InvalidInput, code="invalid_owner"):
    """An owner tag is empty or too long."""

    def __init__(self, value: object, limit_bytes: int) -> None:
        super().__init__(f"owner {shown(value)} must be 1 to {limit_bytes} bytes of printable UTF-8")


class InvalidTime(InvalidInput, code="invalid_time"):
    """A time is not a definite moment: a naive datetime, or one before 1970."""

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{name}={shown(value)}: {why}")


class InvalidToken(InvalidInput, code="invalid_token"):
    """A token is empty, too long, or not a string, bytes or UUID."""

    def __init__(self, value: object, limit: int) -> None:
        super().__init__(
            f"token {shown(value)} must be a UUID, or a string or bytes of length 1 to {limit}; "
            "name the fact that may happen only once, for example token=f'paid:{order_id}'"
        )


class TokenReused(InvalidInput, code="token_reused"):
    """A token was used before, in the same topic, for an event with another type, key or value."""

    def __init__(self, token: object, topic: str, id: str) -> None:
        super().__init__(
            f"token {shown(token)} belongs to event {id} in topic {topic!r}, which has another type, key or "
            "value; repeat the same event, or use a new token for a new event"
        )
        self.id = id


class InvalidValue(InvalidInput, code="invalid_value"):
    """A value has no JSON form."""

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(
            f"the value of {shown(type_name)} cannot be written as JSON: {why}; "
            "pass JSON-like data, a dataclass, a msgspec or pydantic model, or raw bytes"
        )


class ValueTooLarge(InvalidInput, code="value_too_large"):
    """A value is larger than the limit for one event."""

    def __init__(self, type_name: str, size_bytes: int, limit_bytes: int, topic: str | None = None) -> None:
        what, setting = f"the value of {shown(type_name)}", "limits.event_bytes"
        if topic is not None:  # the topic's own limit, of key, value and headers
            what, setting = f"a record of topic {topic}", "max.message.bytes of the topic"
        super().__init__(
            f"{what} has {size_bytes} bytes, and the limit is {limit_bytes}; "
            f"store the data elsewhere and publish a reference, or raise {setting}"
        )


class InvalidPartitions(InvalidInput, code="invalid_partitions"):
    """A partition count is out of range."""

    def __init__(self, value: object, at_most: int) -> None:
        super().__init__(f"partitions={shown(value)} must be a whole number from 1 to {at_most}")


class InvalidPartitioner(InvalidInput, code="invalid_partitioner"):
    """There is no partitioner of that name."""

    def __init__(self, value: object, known: Iterable[str]) -> None:
        super().__init__(f"partitioner={shown(value)} must be one of {', '.join(known)}")


class InvalidPolicy(InvalidInput, code="invalid_policy"):
    """A retry policy was built with an invalid value."""

    def __init__(self, policy: str, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{policy}({name}={shown(value)}): {name} must be {wanted}")


class InvalidOutcome(InvalidInput, code="invalid_outcome"):
    """A handler returned something that is not an outcome, or an outcome with an invalid value."""

    def __init__(self, value: object, wanted: str) -> None:
        # Text and objects may be a payload, and the message is stored as the failure's reason: show the type.
        plain = value is None or isinstance(value, bool | int | float | timedelta | datetime)
        is_blank = isinstance(value, str) and not value.strip()
        text = shown(value) if plain or is_blank else f"of type {type(value).__name__}"
        super().__init__(f"outcome {text}: {wanted}")


class InvalidEnvelope(InvalidInput, code="invalid_envelope"):
    """Headers or JSON are not a valid CloudEvent."""

    def __init__(self, attribute: str, why: str) -> None:
        super().__init__(f"CloudEvent attribute {shown(attribute)}: {why}")


class InvalidUrl(InvalidInput, code="invalid_url"):
    """The address of a store has a form, or an option, that Penstock does not know."""

    def __init__(self, url: str, forms: Iterable[str], why: str = "") -> None:
        unknown = f"it is not a store that Penstock knows; use one of: {', '.join(forms)}"
        super().__init__(f"the address {shown(url)} cannot be used: {why or unknown}")


class InvalidName(InvalidInput, code="invalid_name"):
    """A table prefix or schema is not a plain identifier, or this kind of database does not support it."""

    def __init__(self, what: str, value: object, why: str = "") -> None:
        why = why or "must be 1 to 30 of the characters a-z 0-9 _, and must not begin with a digit"
        super().__init__(f"{what} {shown(value)} {why}")


class InvalidPage(InvalidInput, code="invalid_page"):
    """The limit or the cursor of a listing is not valid."""

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidRetention(InvalidInput, code="invalid_retention"):
    """The age or size limit of a topic's retention is not valid."""

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidBatch(InvalidInput, code="invalid_batch"):
    """Bytes are not a record batch, or not a complete one."""

    def __init__(self, why: str, is_damaged: bool = False) -> None:
        remedy = "send it again, or find what changed it in transit" if is_damaged else "correct the client"
        super().__init__(f"record batch refused: {why}; {remedy}")
        self.why, self.is_damaged = why, is_damaged


class InvalidSelection(InvalidInput, code="invalid_selection"):
    """The selection is empty, or its parts contradict each other."""


class EventTypeError(Error, code="event_type", fault=Fault.CALLER):
    """A class or name cannot be used in the registry of typed events."""


class NotAnEventClass(EventTypeError, code="not_an_event_class"):
    """A class cannot be an event: its kind is not supported, or its key names a field it does not have."""

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} cannot be an event: {why}")


class EventNameTaken(EventTypeError, code="event_name_taken"):
    """Two classes claim the same logical name."""

    def __init__(self, name: str, owner: str, wanted_by: str) -> None:
        super().__init__(f"event name {shown(name)} of {wanted_by} already belongs to {owner}; rename one of them")


class UnregisteredEvent(EventTypeError, code="unregistered_event"):
    """The class of a published object is not registered."""

    def __init__(self, cls: type) -> None:
        super().__init__(
            f"{cls.__qualname__} is not registered as an event; decorate it with "
            '@outbox.event("its.name"), or call publish(conn, "its.name", value)'
        )


class InvalidTracking(EventTypeError, code="invalid_tracking"):
    """A model, or the writes to it, cannot be tracked as requested."""

    def __init__(self, model: object, why: str) -> None:
        super().__init__(f"{getattr(model, '__qualname__', model)} cannot be tracked: {why}")


class Undecodable(Error, code="undecodable", fault=Fault.CALLER):
    """Stored bytes cannot be decoded into the value they should hold."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} cannot be decoded: {why}")
        self.why = why
