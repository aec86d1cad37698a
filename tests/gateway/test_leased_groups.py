"""Groups that clients of a door read: each is given back, whenever the door is closed."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from penstock.access.principal import Peer, anonymous
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.errors import GatewayBusy
from penstock.gateway.leased_groups import LeasedGroups
from penstock.gateway.settings import GatewaySettings
from penstock.log.store import open_store
from penstock.worker.worker import Worker


def test_a_group_that_starts_while_its_door_is_closed_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door that was closed in that moment left a whole worker behind, which kept the partitions."""
    starting, go = Event(), Event()
    start: Callable[[Worker], None] = Worker.start

    def held(worker: Worker) -> None:
        starting.set()
        assert go.wait(30)
        start(worker)

    monkeypatch.setattr(Worker, "start", held)
    with closing(open_store(f"sqlite:///{tmp_path}/shop.db")) as store:
        migrate(store.database)
        store.log.create_topic("orders", partitions=4)
        threads = ThreadPoolExecutor(4)
        groups = LeasedGroups(store, SYSTEM, GatewaySettings(), threads)

        async def ask_and_close() -> None:
            asking = asyncio.create_task(groups.get("mailer", "orders", principal=anonymous(Peer())))
            await asyncio.to_thread(starting.wait, 30)
            await asyncio.to_thread(groups.close)
            go.set()
            with pytest.raises(GatewayBusy):
                await asking

        asyncio.run(ask_and_close())
        threads.shutdown()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as conn:
        assert conn.execute("SELECT id FROM penstock_member").fetchall() == []
