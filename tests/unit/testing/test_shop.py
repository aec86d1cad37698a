"""The demo shop: its orders and its events agree, and its two readers get the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.shop import Shop, Tally


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Give a shop that has just opened."""
    opened = Shop(tmp_path / "shop.db")
    yield opened
    opened.outbox.close()


def traded(shop: Shop, orders: int) -> Tally:
    """Place so many orders."""
    *_, tally = shop.trade(orders)
    return tally


def test_every_fifth_order_is_declined(shop: Shop) -> None:
    tally = traded(shop, 23)
    assert (tally.placed, tally.declined) == (19, 4)
    assert shop.order_ids() == {f"o-{number}" for number in range(1, 24) if number % 5}


def test_the_log_has_one_event_for_each_committed_order(shop: Shop) -> None:
    traded(shop, 23)
    counts = shop.deliver()
    assert (counts.sequenced, counts.delivered) == (19, 38)
    assert sorted(map(str, shop.logged_ids())) == sorted(shop.order_ids())
    assert shop.mailed.total() == 19
    assert shop.revenue_cents.total() > 0


def test_two_shops_with_one_seed_sell_the_same(tmp_path: Path) -> None:
    revenues = []
    for name in ("a.db", "b.db"):
        shop = Shop(tmp_path / name, seed=3)
        traded(shop, 10)
        shop.deliver()
        revenues.append(shop.revenue_cents)
        shop.outbox.close()
    assert revenues[0] == revenues[1]
