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
from penstock.errors import GatewayBusy, UnknownTopic
from penstock.gateway.lease import LeasedGroup
from penstock.gateway.leased_groups import LeasedGroups
from penstock.gateway.settings import GatewaySettings
from penstock.log.store import Store, open_store
from penstock.operate.groups import create
from penstock.worker.handler_options import Start
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


def test_a_group_that_fails_to_start_leaves_no_idle_one_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the look at idle groups: they kept their partitions and places."""
    go, failed = Event(), Event()
    stop, who = LeasedGroups._stop, anonymous(Peer())

    def create_late(store: Store, group: str, topic: str, *, start: Start) -> None:
        assert topic == "orders" or go.wait(30)
        create(store, group, topic, start=start)

    def stop_late(groups: LeasedGroups, found: LeasedGroup) -> None:
        go.set()
        assert failed.wait(30)
        stop(groups, found)

    monkeypatch.setattr("penstock.gateway.leased_groups.create", create_late)
    monkeypatch.setattr(LeasedGroups, "_stop", stop_late)
    with closing(open_store(f"sqlite:///{tmp_path}/shop.db")) as store:
        migrate(store.database)
        store.log.create_topic("orders", partitions=1)
        threads = ThreadPoolExecutor(4)
        groups = LeasedGroups(store, SYSTEM, GatewaySettings.load(group_idle=0.1), threads)

        async def ask_and_go() -> None:
            await groups.get("first", "orders", principal=who)
            failing = asyncio.create_task(groups.get("second", "nowhere", principal=who))
            await asyncio.sleep(0)
            await groups.get("third", "orders", principal=who)
            with pytest.raises(UnknownTopic):
                await failing
            failed.set()
            async with asyncio.timeout(30):
                while groups._groups:
                    await asyncio.sleep(0.05)

        asyncio.run(ask_and_go())
        groups.close()
        threads.shutdown()
