from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from penstock.errors import InvalidHeaders, InvalidKey, InvalidOwner, InvalidTime, InvalidTopic, InvalidType
from penstock.model.limits import (
    LimitsSettings,
    check_headers,
    check_key,
    check_moment,
    check_owner,
    check_topic,
    check_type,
)

LIMITS = LimitsSettings()
NOW_MS = 1_700_000_000_000
NAMES = ["a", "order.placed", "with blank", "Straße", "注文", "🛒", "x" * 255, "🛒" * 255]
# Empty, too long, unprintable (NUL, line break, a lone surrogate, a bidi mark, a private character).
NO_NAMES = ["", "x" * 256, "🛒" * 256, "a\0", "a\nb", "\ud800", "a\u202eb", "\ue000", "\u00a0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_type_of_1_to_255_printable_characters_is_taken(name: str) -> None:
    assert check_type(name) == name


@pytest.mark.parametrize("name", [*NO_NAMES, None, 5, b"order.placed"])
def test_any_other_type_is_refused(name: object) -> None:
    with pytest.raises(InvalidType, match="must be 1 to 255 printable characters"):
        check_type(name)


@pytest.mark.parametrize("key", [*NAMES, None])
def test_a_key_of_1_to_255_printable_characters_or_none_is_taken(key: str | None) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", NO_NAMES)
def test_any_other_key_is_refused_with_the_remedy(key: str) -> None:
    with pytest.raises(InvalidKey, match="1 to 255 printable characters; pass key=None when no order is needed"):
        check_key(key)


@pytest.mark.parametrize("key", [5, b"o-1", 1.5, ("a",)])
def test_a_key_that_is_no_string_is_refused_with_the_remedy(key: object) -> None:
    with pytest.raises(InvalidKey, match=r"turn it into a string, for example key=str\(\.\.\.\)"):
        check_key(key)


@pytest.mark.parametrize("topic", ["events", "a", "A-z_0.9", "...", ".a", "x" * 249])
def test_a_topic_may_have_the_names_that_kafka_gives(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize("topic", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "٣", "\ud800", None, 5, b"a"])
def test_any_other_topic_is_refused(topic: object) -> None:
    with pytest.raises(InvalidTopic, match="must be 1 to 249 of the characters"):
        check_topic(topic)


@pytest.mark.parametrize("owner", [None, "tenant:7", "x" * 512, "ä" * 256, "🛒" * 128])
def test_an_owner_of_1_to_512_bytes_or_none_is_taken(owner: str | None) -> None:
    assert check_owner(owner, LIMITS) == owner


@pytest.mark.parametrize("owner", ["", "x" * 513, "ä" * 257, "🛒" * 129, "a\0", "\ud800", 7, b"tenant"])
def test_any_other_owner_is_refused(owner: object) -> None:
    with pytest.raises(InvalidOwner, match="must be 1 to 512 bytes of printable UTF-8"):
        check_owner(owner, LIMITS)


def test_the_limit_of_an_owner_can_be_lowered() -> None:
    limits = LimitsSettings(owner_bytes=4)

    assert check_owner("1234", limits) == "1234"
    with pytest.raises(InvalidOwner, match="1 to 4 bytes"):
        check_owner("12345", limits)


@pytest.mark.parametrize("headers", [None, {}, [], ()])
def test_no_headers_are_none(headers: Any) -> None:
    assert check_headers(headers, LIMITS) == ()


def test_headers_keep_order_repeats_bytes_and_nulls() -> None:
    pairs: list[tuple[str, str | bytes | None]] = [("b", "ä"), ("a", b"\xff\x00"), ("b", None), ("c", ""), ("d", "\0")]
    expected = (("b", "ä".encode()), ("a", b"\xff\x00"), ("b", None), ("c", b""), ("d", b"\0"))

    assert check_headers(pairs, LIMITS) == expected
    assert check_headers(iter(pairs), LIMITS) == expected
    assert check_headers([list(pair) for pair in pairs], LIMITS) == expected  # type: ignore[misc]


def test_headers_may_be_a_dict() -> None:
    assert check_headers({"trace": "x", "none": None}, LIMITS) == (("trace", b"x"), ("none", None))


@pytest.mark.parametrize("name", [*NO_NAMES, None, 5, b"name"])
def test_a_header_name_is_1_to_255_printable_characters(name: Any) -> None:
    with pytest.raises(InvalidHeaders, match="a name must be 1 to 255 printable characters"):
        check_headers([(name, "x")], LIMITS)


@pytest.mark.parametrize("name", ["ce_id", "ce_type", "ce_source", "ce_time", "ce_specversion", "CE_Id"])
def test_a_header_that_the_event_itself_makes_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidHeaders, match=f"header '{name}': is derived from the event"):
        check_headers({name: "x"}, LIMITS)


def test_other_attributes_of_a_cloudevent_can_be_set() -> None:
    assert check_headers({"ce_subject": "7"}, LIMITS) == (("ce_subject", b"7"),)


@pytest.mark.parametrize("value", [5, 1.5, True, ["x"], {"a": 1}])
def test_a_header_value_is_a_string_bytes_or_none(value: Any) -> None:
    with pytest.raises(InvalidHeaders, match=f"must be a string, bytes or None, not {type(value).__name__}"):
        check_headers({"a": value}, LIMITS)


def test_a_header_value_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidHeaders, match="header 'a': its value has no UTF-8 form: surrogates not allowed"):
        check_headers({"a": "\ud800"}, LIMITS)


@pytest.mark.parametrize("headers", ["ab", b"ab", 5, ["ab"], [("a",)], [("a", "b", "c")], [5], [None]])
def test_headers_that_are_no_pairs_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidHeaders):
        check_headers(headers, LIMITS)


def test_headers_together_have_a_limit_in_bytes_of_names_and_values() -> None:
    limits = LimitsSettings(headers_bytes=10)

    assert check_headers({"ä": "12345", "b": "12"}, limits)  # 2 + 5 + 1 + 2
    with pytest.raises(InvalidHeaders, match=r"have 11 bytes, and limits\.headers_bytes is 10"):
        check_headers({"ä": "12345", "b": "123"}, limits)


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (timedelta(), NOW_MS),
        (timedelta(hours=1), NOW_MS + 3_600_000),
        (timedelta(microseconds=1500), NOW_MS + 1),
        (timedelta(seconds=-5), NOW_MS - 5000),
        (timedelta(milliseconds=-NOW_MS), 0),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 1_893_456_000_000),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), 253_402_300_799_000),
    ],
)
def test_a_moment_is_whole_milliseconds_also_in_the_past(moment: datetime | timedelta, ms: int) -> None:
    assert check_moment("at", moment, NOW_MS) == ms


class Nowhere(tzinfo):
    """A zone that does not know its offset, so a datetime in it is naive."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "nowhere"


@pytest.mark.parametrize("moment", [datetime(2030, 1, 1), datetime(2030, 1, 1, tzinfo=Nowhere())])  # noqa: DTZ001
def test_a_naive_datetime_is_refused_with_the_remedy(moment: datetime) -> None:
    with pytest.raises(InvalidTime, match=r"^at=datetime.*a naive datetime is not a definite moment; add a time zone"):
        check_moment("at", moment, NOW_MS)


@pytest.mark.parametrize(
    "moment",
    [
        timedelta(milliseconds=-NOW_MS - 1),
        timedelta.min,
        timedelta.max,
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
    ],
)
def test_a_negative_time_or_one_beyond_9999_is_refused(moment: datetime | timedelta) -> None:
    with pytest.raises(InvalidTime, match="must lie between the years 1970 and 9999"):
        check_moment("at", moment, NOW_MS)


@pytest.mark.parametrize("moment", [5, 5.0, "2030-01-01", date(2030, 1, 1), None, True])
def test_what_is_neither_datetime_nor_timedelta_is_refused(moment: object) -> None:
    with pytest.raises(InvalidTime, match=r"due=.*must be an aware datetime or a timedelta from now"):
        check_moment("due", moment, NOW_MS)
