"""The options of the source, read once and checked; a refusal names option, value and allowed values."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import msgspec

from penstock.clock import to_ms
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.database.url import plain_url
from penstock.errors import InvalidOption
from penstock.log.kafka_settings import KafkaSettings, kafka_settings

from ..address import is_kafka, kafka_address
from ..columns import COLUMNS

EARLIEST, LATEST = "earliest", "latest"
OTHERS = -1  # as a partition: all that are not named, including those added when the topic grows
_EVERY_OTHER = "*"
_DEFAULT_TOPIC = "events"
_SPARKS_OWN = ("queryname",)  # passed on by Spark to a sink
_WORDS = {"true": True, "false": False}
_LONGEST_DELAY = "15m"  # of Spark's Kafka source
_INTERVAL = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|(?:milli)?seconds?|minutes?|hours?)")
_UNITS = {"m": 60.0, "s": 1.0, "h": 3600.0, "ms": 0.001, "millisecond": 0.001, "second": 1.0}
_UNITS |= {"minute": 60.0, "hour": 3600.0}


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where reading begins or ends: the same word or moment for all partitions, or offsets of some."""

    otherwise: str = EARLIEST  # for the partitions that `offsets` does not name, unless OTHERS stands there for them
    timestamp_ms: int | None = None
    offsets: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a query on one topic."""

    url: str
    names: Names
    topic: str
    columns: tuple[str, ...]
    starting: ReadingPlace
    ending: ReadingPlace
    max_records: int | None
    max_bytes: int | None
    min_records: int | None
    wait_seconds: float
    tasks: int
    may_cut: bool
    fail_on_loss: bool
    continue_from: str | None
    kafka: KafkaSettings | None = None  # how a Kafka cluster is reached


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options in force for one topic. Raises InvalidOption, InvalidName, InvalidUrl."""
    (found,) = read_all(given)
    return found


def read_all(given: Mapping[str, str]) -> tuple[SourceOptions, ...]:
    """Return the options in force for each topic. Raises InvalidOption, InvalidName, InvalidUrl."""
    url = given.get("url") or ""
    if not url:
        raise InvalidOption("url", url, "the address of the store, as in sqlite:///shop.db")
    topics = _topics(given)
    if is_kafka(url):
        kafka_address(url)
        kafka = kafka_settings(given)
        return tuple(replace(_of_topic(given, url, topic, topics), kafka=kafka) for topic in topics)
    return tuple(_of_topic(given, plain_url(url), topic, topics) for topic in topics)


def _of_topic(given: Mapping[str, str], url: str, topic: str, topics: Sequence[str]) -> SourceOptions:
    tasks, most_bytes = _number(given, "numPartitions"), _number(given, "maxBytesPerTrigger")
    fails = given.get("failOnDataLoss", "true").strip().lower()
    if fails not in _WORDS:
        raise InvalidOption("failOnDataLoss", given["failOnDataLoss"], "true or false")
    return SourceOptions(
        url=url,
        names=Names(given.get("prefix") or DEFAULT_PREFIX, given.get("schema") or None),
        topic=topic,
        columns=_columns(given.get("columns")),
        starting=_place(given, "starting", topics, EARLIEST)[topic],
        ending=_place(given, "ending", topics, LATEST)[topic],
        max_records=_most(given),
        max_bytes=None if most_bytes is None else max(1, most_bytes // len(topics)),  # an equal share
        min_records=_number(given, "minOffsetsPerTrigger"),
        wait_seconds=_longest_delay(given),
        tasks=tasks or _number(given, "tasks") or os.cpu_count() or 1,
        may_cut=tasks is not None,
        fail_on_loss=_WORDS[fails],
        continue_from=given.get("continueFrom") or None,
    )


def check_known(given: Mapping[str, str], known: Sequence[str]) -> None:
    """Refuse an option that would be ignored, and suggest a similar one. Raises InvalidOption."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() not in (*names, *_SPARKS_OWN):
            near = get_close_matches(name.lower(), names, n=1)
            meant = f"; did you mean {names[near[0]]}?" if near else ""
            said = "…"  # it may be a password, meant for another format
            raise InvalidOption(name, said, f"one of {', '.join(known)}{meant}")


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    topic, subscribed = given.get("topic"), given.get("subscribe")
    if subscribed is None:
        return (topic or _DEFAULT_TOPIC,)
    if topic:
        raise InvalidOption("topic", topic, "left out when subscribe is given")
    names = tuple(name.strip() for name in subscribed.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise InvalidOption("subscribe", subscribed, "topics with commas between them, each once")
    return names


def _columns(given: str | None) -> tuple[str, ...]:
    if not given:
        return tuple(COLUMNS)
    names = tuple(part.strip() for part in given.split(",") if part.strip())
    if not names or len(set(names)) < len(names) or set(names) - set(COLUMNS):
        raise InvalidOption("columns", given, f"some of {', '.join(COLUMNS)}, each once")
    return names


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not value.strip().isdigit() or int(value) < 1:
        raise InvalidOption(name, value, "a whole number of at least 1")
    return int(value)


def _most(given: Mapping[str, str]) -> int | None:
    ours, theirs = _number(given, "maxRecordsPerBatch"), _number(given, "maxOffsetsPerTrigger")
    if None not in (ours, theirs) and ours != theirs:
        raise InvalidOption("maxOffsetsPerTrigger", str(theirs), "left out when maxRecordsPerBatch is given")
    return theirs if ours is None else ours


def _longest_delay(given: Mapping[str, str]) -> float:
    """Read a length of time as Spark writes it: 500ms, 5s, 15m, 2 minutes."""
    value = given.get("maxTriggerDelay", _LONGEST_DELAY)
    found = _INTERVAL.fullmatch(value.strip().lower())
    if found is None:
        raise InvalidOption("maxTriggerDelay", value, "a number and a unit: 500ms, 5s, 15m, 1h")
    unit = found["unit"]
    return float(found["number"]) * _UNITS[unit if unit in _UNITS else unit.removesuffix("s")]


def _place(given: Mapping[str, str], which: str, topics: Sequence[str], default: str) -> dict[str, ReadingPlace]:
    """Read `startingOffsets` or `startingTimestamp`; only one of the two may be given."""
    by_offset, by_time = f"{which}Offsets", f"{which}Timestamp"
    offsets, moment = given.get(by_offset), given.get(by_time)
    if offsets and moment:
        raise InvalidOption(by_time, moment, f"left out when {by_offset} is given")
    if moment:
        return dict.fromkeys(topics, ReadingPlace(default, timestamp_ms=_moment(by_time, moment)))
    word = (offsets or default).strip()
    if word in (EARLIEST, LATEST):
        return dict.fromkeys(topics, ReadingPlace(word))
    named = read_offsets(by_offset, word, topics)
    return {topic: ReadingPlace(default, offsets=named.get(topic)) for topic in topics}


def _moment(name: str, value: str) -> int:
    if value.strip().isdigit():
        return int(value)
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidOption(name, value, "milliseconds since 1970, or a time with its zone: 2026-11-01T08:00:00Z")
    return to_ms(moment)


def written_offsets(topic: str, offsets: Mapping[int, int]) -> str:
    """Write offsets of a topic in the form that `read_offsets` reads, with 0 for all other partitions."""
    places = {str(partition): offset for partition, offset in sorted(offsets.items())}
    return msgspec.json.encode({topic: places | {_EVERY_OTHER: 0}}).decode()


def read_offsets(name: str, value: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Read `{"events": {"0": 12, "1": -2}}` as Spark's Kafka source does; `"*"`, which is ours: all others."""
    wanted = f'earliest, latest, or offsets as in {{"{topics[0]}": {{"0": 12}}}}; -2 is earliest, -1 latest'
    try:
        form: Any = msgspec.json.decode(value)
        found = {
            topic: {_partition(partition): offset for partition, offset in places.items()}
            for topic, places in form.items()
        }
    except (msgspec.DecodeError, TypeError, ValueError, AttributeError):
        raise InvalidOption(name, value, wanted) from None
    places = [offset for each in found.values() for offset in each.values()]
    if not found or not found.keys() <= set(topics) or any(type(at) is not int or at < -2 for at in places):
        raise InvalidOption(name, value, wanted)
    return found


def _partition(given: str) -> int:
    if given != _EVERY_OTHER and not given.isdecimal():
        raise ValueError
    return OTHERS if given == _EVERY_OTHER else int(given)
