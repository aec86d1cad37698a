"""The demo shop: its orders and its events agree, and its two readers get the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import shop as shop_module
from penstock.testing.shop import POISON, Shop, ShopWorker, Tally
from tests.crash.waiting import wait_until

pytestmark = pytest.mark.usefixtures("brisk")


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
    assert (counts.sequenced, counts.delivered) == (19, 37)
    assert counts.retried >= 1  # more on a machine so slow that the retry is due before the drain ends
    assert sorted(map(str, shop.logged_ids())) == sorted(shop.order_ids()) == sorted(shop.booked())
    assert set(shop.mailed()) == shop.order_ids() - {POISON}
    assert (shop.repeated(), shop.revenue_cents().total() > 0) == (0, True)


def test_the_order_that_cannot_be_mailed_is_mailed_once_its_address_is_put_right(shop: Shop) -> None:
    traded(shop, 13)
    shop.put_right(POISON)
    shop.deliver()
    assert set(shop.mailed()) == shop.order_ids()


def test_two_shops_with_one_seed_sell_the_same(tmp_path: Path) -> None:
    revenues = []
    for name in ("a.db", "b.db"):
        shop = Shop(tmp_path / name, seed=3)
        traded(shop, 10)
        shop.deliver()
        revenues.append(shop.revenue_cents())
        shop.outbox.close()
    assert revenues[0] == revenues[1]


def test_workers_in_processes_of_their_own_serve_it_and_leave_when_asked(shop: Shop) -> None:
    worker = ShopWorker(shop.path)
    traded(shop, 6)
    wait_until(lambda: set(shop.mailed()) == shop.order_ids(), "all mails are sent")
    assert worker.stop() == 0
    assert shop.repeated() == 0


def test_a_worker_without_a_shop_says_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'outbox'"):
        _ = shop_module.outbox
