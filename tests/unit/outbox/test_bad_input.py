"""Bad input at publish: each kind is an error of its own, and nothing is written."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Outbox
from penstock.errors import (
    EventTypeError,
    InvalidHeaders,
    InvalidInput,
    InvalidKey,
    InvalidOwner,
    InvalidTime,
    InvalidToken,
    InvalidTopic,
    InvalidType,
    InvalidValue,
    UnregisteredEvent,
    ValueTooLarge,
)
from penstock.model.limits import LimitsSettings
from penstock.testing import FakeClock

MEBIBYTE = 1 << 20
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 (that is the point)

# What is said, the error, and the words that name the thing, the value or the remedy.
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "empty type": ({"type": ""}, InvalidType, "1 to 255 printable"),
    "no type": ({"type": None}, InvalidType, "None"),
    "type with a line break": ({"type": "a\nb"}, InvalidType, "printable"),
    "type with a NUL": ({"type": "a\x00"}, InvalidType, "printable"),
    "type of half a character": ({"type": "\ud800"}, InvalidType, "printable"),
    "type of 256 characters": ({"type": "x" * 256}, InvalidType, "1 to 255"),
    "type that is no string": ({"type": 5}, InvalidType, "5"),
    "empty key": ({"key": ""}, InvalidKey, "key=None when no order is needed"),
    "key with a tab": ({"key": "a\tb"}, InvalidKey, "printable"),
    "key of half a character": ({"key": "\udfff"}, InvalidKey, "printable"),
    "key of 256 characters": ({"key": "x" * 256}, InvalidKey, "1 to 255"),
    "key that is a number": ({"key": 7}, InvalidKey, r"key=str\(\.\.\.\)"),
    "key that is bytes": ({"key": b"k"}, InvalidKey, r"key=str\(\.\.\.\)"),
    "empty topic": ({"topic": ""}, InvalidTopic, "1 to 249"),
    "topic with a space": ({"topic": "a b"}, InvalidTopic, "a-z A-Z 0-9"),
    "topic with a slash": ({"topic": "a/b"}, InvalidTopic, "'a/b'"),
    "topic beyond ASCII": ({"topic": "ü"}, InvalidTopic, "'ü'"),
    "topic with a line break at its end": ({"topic": "a\n"}, InvalidTopic, "characters"),
    "topic of 250 characters": ({"topic": "x" * 250}, InvalidTopic, "1 to 249"),
    "topic that is a dot": ({"topic": "."}, InvalidTopic, r"not '\.'"),
    "topic that is none": ({"topic": None}, InvalidTopic, "None"),
    "value one byte too large": ({"value": b"x" * (MEBIBYTE + 1)}, ValueTooLarge, "1048577 bytes.* 1048576"),
    "text one byte too large": ({"value": "x" * (MEBIBYTE - 1)}, ValueTooLarge, "1048577 bytes"),
    "value without a JSON form": ({"value": object()}, InvalidValue, "cannot be written as JSON"),
    "value with half a character": ({"value": {"a": "\ud800"}}, InvalidValue, "JSON"),
    "value with keys that are no strings": ({"value": {object(): 1}}, InvalidValue, "JSON"),
    "naive time": ({"at": NAIVE}, InvalidTime, "tzinfo=UTC"),
    "time that is a number": ({"at": 5}, InvalidTime, "aware datetime or a timedelta"),
    "time that is text": ({"at": "2030-01-01"}, InvalidTime, "aware datetime or a timedelta"),
    "time before 1970": ({"at": datetime(1969, 12, 31, tzinfo=UTC)}, InvalidTime, "1970 and 9999"),
    "time too long ago": ({"at": timedelta(days=-40_000)}, InvalidTime, "1970 and 9999"),
    "time too far away": ({"at": timedelta.max}, InvalidTime, "1970 and 9999"),
    "empty owner": ({"owner": ""}, InvalidOwner, "1 to 512 bytes"),
    "owner of 513 bytes": ({"owner": "x" * 513}, InvalidOwner, "1 to 512 bytes"),
    "owner of 171 wide characters": ({"owner": "注" * 171}, InvalidOwner, "1 to 512 bytes"),
    "owner with a NUL": ({"owner": "a\x00"}, InvalidOwner, "printable"),
    "owner that is a number": ({"owner": 5}, InvalidOwner, "5"),
    "headers that are text": ({"headers": "a=b"}, InvalidHeaders, "pairs"),
    "header without a name": ({"headers": {"": "v"}}, InvalidHeaders, "1 to 255"),
    "header with a number": ({"headers": {"h": 5}}, InvalidHeaders, "string, bytes or None"),
    "header of the envelope": ({"headers": {"ce_id": "x"}}, InvalidHeaders, "derived from the event"),
    "header of half a character": ({"headers": {"h": "\ud800"}}, InvalidHeaders, "UTF-8"),
    "headers too large": ({"headers": {"h": b"x" * 65_536}}, InvalidHeaders, "headers_bytes"),
    "empty token": ({"token": ""}, InvalidToken, "length 1 to 255"),
    "token of 256 characters": ({"token": "x" * 256}, InvalidToken, "1 to 255"),
    "token of 256 bytes": ({"token": b"x" * 256}, InvalidToken, "1 to 255"),
    "token that is a number": ({"token": 5}, InvalidToken, "token 5 must be a UUID, or a string"),
    "token of half a character": ({"token": "\ud800"}, InvalidToken, "must be"),
    "an option there is not": ({"kye": "k"}, InvalidInput, "no option 'kye'; its options are at, headers"),
    "an option of ours": ({"now_ms": 5}, InvalidInput, "no option 'now_ms'"),
}


@dataclass
class Unknown:
    """A class that nobody registered."""

    a: int = 1


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    """Give an outbox in memory."""
    opened = Outbox("memory://", clock=FakeClock())
    opened.migrate()
    yield opened
    opened.close()


def written(outbox: Outbox) -> int:
    """Return how many rows there are in all the tables an event can be in."""
    query = " UNION ALL ".join(
        f"SELECT count(*) FROM penstock_{table}" for table in ("staged", "scheduled", "log", "topic")
    )
    with outbox.transaction() as conn:
        return sum(row[0] for row in conn.execute(query).fetchall())


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_and_nothing_is_written(case: str, outbox: Outbox) -> None:
    said, error, words = REFUSED[case]
    event: dict[str, Any] = {"type": "t", "value": 1} | said
    with outbox.transaction() as conn:
        with pytest.raises(error, match=words) as caught:
            outbox.publish_many(conn, [{"type": "good", "value": 1}, event, {"type": "good", "value": 2}])
        assert type(caught.value) is error
        type_, value = event.pop("type"), event.pop("value")
        with pytest.raises(error, match=words):
            outbox.publish(conn, type_, value, **event)
    assert written(outbox) == 0


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        ({}, InvalidInput, "lacks 'type'"),
        ({"value": 1}, InvalidInput, "lacks 'type'"),
        ({"type": "t"}, InvalidInput, "lacks 'value'"),
        ({"type": "t", "vaule": 1}, InvalidInput, "lacks 'value'"),
        ({5: 1, "type": "t", "value": 1}, InvalidInput, "no option 5"),
        (Unknown(), UnregisteredEvent, "Unknown is not registered"),
        ("order.placed", UnregisteredEvent, "str is not registered"),
        (None, EventTypeError, "NoneType is not registered"),
    ],
    ids=str,
)
def test_an_event_that_cannot_be_read_is_refused(
    event: Any, error: type[Exception], words: str, outbox: Outbox
) -> None:
    with outbox.transaction() as conn, pytest.raises(error, match=words):
        outbox.publish_many(conn, [{"type": "good", "value": 1}, event])
    assert written(outbox) == 0


def test_an_unregistered_event_is_refused(outbox: Outbox) -> None:
    with outbox.transaction() as conn, pytest.raises(UnregisteredEvent, match=r"@outbox\.event"):
        outbox.publish(conn, Unknown())
    assert written(outbox) == 0


def test_a_generator_that_raises_writes_nothing(outbox: Outbox) -> None:
    def events() -> Iterator[dict[str, Any]]:
        yield {"type": "t", "value": 1}
        raise LookupError("as it was")

    with outbox.transaction() as conn, pytest.raises(LookupError, match="as it was"):
        outbox.publish_many(conn, events())
    assert written(outbox) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"type": "x" * 255},
        {"type": "注" * 255, "key": "注" * 255},
        {"type": " ", "key": " "},
        {"key": "x" * 255},
        {"topic": "x" * 249},
        {"value": b"x" * MEBIBYTE},
        {"value": "x" * (MEBIBYTE - 2)},
        {"owner": "x" * 512},
        {"headers": {"h": b"x" * 65_535}},
        {"headers": [("h", "1"), ("h", None), ("h", b"\x00")]},
        {"at": datetime(1970, 1, 1, tzinfo=UTC)},
        {"at": datetime(9999, 12, 31, tzinfo=UTC)},
        {"at": timedelta(days=-10_000)},
    ],
    ids=lambda said: ",".join(said),
)
def test_what_stands_at_the_limit_is_taken(said: dict[str, Any], outbox: Outbox) -> None:
    event: dict[str, Any] = {"type": "t", "value": 1} | said
    with outbox.transaction() as conn:
        outbox.publish_many(conn, [event])
    assert written(outbox) == 1


def test_the_limit_of_a_value_may_be_moved() -> None:
    outbox = Outbox("memory://", limits=LimitsSettings(event_bytes=10))
    outbox.migrate()
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", b"x" * 10)
        with pytest.raises(ValueTooLarge, match=r"11 bytes, and the limit is 10; .*limits\.event_bytes"):
            outbox.publish(conn, "t", b"x" * 11)
    outbox.close()
