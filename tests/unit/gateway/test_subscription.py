"""One client's part in a group."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.access.access import Access
from penstock.access.principal import Principal
from penstock.gateway.subscription import GroupSubscription


@pytest.mark.parametrize("turns", range(5))
def test_a_subscription_ends_with_its_connection_whatever_changes_at_the_same_time(turns: int) -> None:
    """The last acknowledgement of a client and the end of its stream may come in one turn of the loop."""

    async def story() -> bool:
        made = GroupSubscription(
            cast(Any, SimpleNamespace(access=Access())), Principal("ana"), group="g", topic="t", credits=0, seconds=1
        )
        task = asyncio.create_task(made.run(cast(Any, None)))
        for _ in range(10):
            await asyncio.sleep(0)
        made.add(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=10)
        return bool(done)

    assert asyncio.run(story())
