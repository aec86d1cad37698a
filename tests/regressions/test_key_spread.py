"""Keys spread over all partitions, and so do the records that carry them."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.model.partition import key_hash, partition
from tests.conformance.engines import StoreEngine


@pytest.mark.parametrize("count", [2, 8, 100, 256])
def test_100_000_keys_are_within_a_fifth_of_even(count: int) -> None:
    placed = Counter(partition(key_hash(f"order-{number}"), count) for number in range(100_000))
    even = 100_000 / count
    assert sorted(placed) == list(range(count))
    assert min(placed.values()) >= 0.8 * even
    assert max(placed.values()) <= 1.2 * even


def test_published_records_spread_over_the_partitions_of_their_topic(engine: StoreEngine) -> None:
    engine.outbox.log.create_topic("events", partitions=8)
    events = [{"type": "t", "value": 1, "key": f"order-{number}"} for number in range(2_000)]
    events += [{"type": "t", "value": 1} for _ in range(2_000)]  # without a key: each by its own id
    with engine.connect() as conn:
        engine.outbox.publish_many(conn, events)
        conn.commit()
    engine.outbox.drain()
    ends = [engine.outbox.log.bounds("events", number)[1] for number in range(8)]
    assert sum(ends) == 4_000
    assert min(ends) >= 0.7 * 500
    assert max(ends) <= 1.3 * 500
