"""A broker that dies leads nothing from then on, and is listed for a minute more; one that stops is gone."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.broker.cluster import LISTED_SECONDS, Cluster
from penstock.database.migrations import migrate
from penstock.log.store import Store, open_store
from penstock.membership.member import ClusterSettings
from penstock.testing.clock import FakeClock

NAMES = [f"group-{number}" for number in range(40)]


class Brokers:
    """Brokers of one store and one clock."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock = store, FakeClock()

    def start(self, port: int) -> Cluster:
        """Let a broker serve a port."""
        made = Cluster(self.store, self.clock)
        made.start("127.0.0.1", port)
        return made

    def die(self, broker: Cluster) -> None:
        """End a broker without a word, and let its lease run out."""
        broker._stopping.set()
        assert broker._thread is not None
        broker._thread.join()
        self.clock.advance(ClusterSettings.load().lease_ttl + timedelta(seconds=1))


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    migrate(store.database)
    yield Brokers(store)
    store.close()


def looked(broker: Cluster) -> tuple[list[int], list[int]]:
    """Return the ports of the brokers that live, and of those that clients are told of."""
    broker._look()
    return [each.port for each in broker.nodes], [each.port for each in broker.listed]


@pytest.fixture
def two(brokers: Brokers) -> Iterator[tuple[Cluster, Cluster]]:
    """Give a broker that is watched, and another."""
    first, second = brokers.start(1), brokers.start(2)
    assert looked(first) == ([1, 2], [1, 2])
    yield first, second
    first.stop()


def test_a_dead_broker_leads_nothing_and_is_listed_for_a_minute(brokers: Brokers, two: tuple[Cluster, Cluster]) -> None:
    first, second = two
    assert any(first.coordinator(name).port == 2 for name in NAMES)
    version = first.version
    brokers.die(second)
    assert looked(first) == ([1], [1, 2])
    assert first.version > version
    assert all(first.coordinator(name).port == 1 for name in NAMES)
    assert all(first.leader(1, partition) == first.id for partition in range(40))
    brokers.clock.advance(timedelta(seconds=LISTED_SECONDS - 1))
    assert looked(first) == ([1], [1, 2])
    brokers.clock.advance(timedelta(seconds=1))
    assert looked(first) == ([1], [1])


def test_a_broker_that_joins_does_not_take_a_dead_one_from_the_list(
    brokers: Brokers, two: tuple[Cluster, Cluster]
) -> None:
    first, second = two
    brokers.die(second)
    assert looked(first) == ([1], [1, 2])
    first.member.heartbeat()
    third = brokers.start(3)
    assert looked(first) == ([1, 3], [1, 2, 3])
    assert looked(third)[1] == [1, 2, 3]
    third.stop()


def test_a_broker_that_stops_is_gone_from_the_list_at_once(two: tuple[Cluster, Cluster]) -> None:
    first, second = two
    second.stop()
    assert looked(first) == ([1], [1])


def test_a_broker_that_comes_back_at_its_address_keeps_its_number(
    brokers: Brokers, two: tuple[Cluster, Cluster]
) -> None:
    first, second = two
    brokers.die(second)
    looked(first)
    first.member.heartbeat()
    again = brokers.start(2)
    assert again.id == second.id
    brokers.clock.advance(timedelta(seconds=LISTED_SECONDS))
    again.member.heartbeat()
    assert looked(first) == ([1, 2], [1, 2])
    again.stop()


def test_a_dead_broker_does_not_take_the_row_of_its_successor_away(
    brokers: Brokers, two: tuple[Cluster, Cluster]
) -> None:
    first, second = two
    brokers.die(second)
    again = brokers.start(2)
    first._forget(second.id, second.member.id)  # an old look of another broker
    first.member.heartbeat()
    assert looked(first) == ([1, 2], [1, 2])
    again.stop()


def test_a_broker_that_was_paused_for_longer_is_listed_again(brokers: Brokers, two: tuple[Cluster, Cluster]) -> None:
    first, second = two
    brokers.die(second)  # as far as others can see
    looked(first)
    brokers.clock.advance(timedelta(seconds=LISTED_SECONDS))
    looked(first)
    first.member.heartbeat()
    second.member.heartbeat()
    second._look()
    assert looked(first) == ([1, 2], [1, 2])
    second.member.leave()
