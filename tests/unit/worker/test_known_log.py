"""How far the log goes, as a process knows it: one look for all groups, topic by topic."""

from typing import Any

import pytest

from penstock.backoff import Backoff, PollingSettings
from penstock.errors import StoreUnreachable
from penstock.log.contract import Topic
from penstock.log.sql.heads import HeadKey
from penstock.worker.known_log import LogEnds


class Heads:
    """A log that knows its ends, or is away."""

    def __init__(self) -> None:
        self.known: dict[int, dict[int, int]] = {}
        self.is_away = False

    def ends(self, topic: Topic) -> dict[int, int]:
        """Return the ends of a topic."""
        if self.is_away:
            raise StoreUnreachable("db", "away")
        return dict(self.known.get(topic.id, {}))


def a_topic(id: int) -> Topic:
    return Topic(id=id, name="events", partitions=1, partitioner="murmur3")


@pytest.fixture
def log() -> Heads:
    return Heads()


@pytest.fixture
def ends(log: Any) -> LogEnds:
    return LogEnds(log, Backoff("delivery", PollingSettings()))


def test_a_topic_made_anew_is_not_taken_for_the_former_one(log: Heads, ends: LogEnds) -> None:
    """Groups that still have the former one would see a log that became shorter, as by a restored backup."""
    log.known = {1: {0: 40}}
    ends.add(a_topic(1))
    ends.refresh(0.0)
    assert ends.of(1) == {0: 40}
    log.known = {2: {0: 3}}
    ends.add(a_topic(2))
    ends.ring()
    ends.refresh(0.0)
    ends.grown({HeadKey(1, 0): 41})
    ends.refresh(0.0)
    assert (ends.of(1), ends.of(2)) == ({}, {0: 3})


def test_a_look_that_failed_is_due_again(log: Heads, ends: LogEnds) -> None:
    log.known, log.is_away = {1: {0: 1}}, True
    ends.add(a_topic(1))
    ends.next_look = 100.0
    with pytest.raises(StoreUnreachable):
        ends.refresh(0.0)
    log.is_away = False
    assert ends.refresh(0.0)
    assert ends.of(1) == {0: 1}


def test_a_look_that_finds_what_is_known_is_no_news(log: Heads, ends: LogEnds) -> None:
    """Then groups need not look at each of their partitions."""
    log.known = {1: {0: 4}}
    ends.add(a_topic(1))
    ends.refresh(0.0)
    known = ends.of(1)
    ends.ring()
    assert ends.refresh(0.0)
    assert ends.of(1) is known
    ends.grown({HeadKey(1, 0): 5})
    ends.refresh(0.0)
    assert (ends.of(1), set(ends.news(1))) == ({0: 5}, {0})
    log.known = {1: {0: 5, 1: 1}}
    ends.ring()
    ends.refresh(0.0)
    assert ends.of(1) == {0: 5, 1: 1}
    assert ends.of(1) is not known
