"""`processing.enabled = false`: no thread, no table; publishing works (N-42)."""

import asyncio
import threading
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock import Outbox, Record
from penstock.testing import memory_outbox


@pytest.fixture(autouse=True)
def _not_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_ENABLED", "false")


def test_a_worker_that_shall_not_run_starts_no_thread_and_touches_no_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox, stop = Outbox(f"sqlite:///{tmp_path}/nowhere.db"), Event()
    outbox.handler(group="g", id="h")(lambda record: None)
    before = threading.active_count()
    thread = Thread(target=lambda: outbox.run(until=stop))
    thread.start()
    try:
        assert threading.active_count() <= before + 1
    finally:
        stop.set()
        thread.join()
    assert not (tmp_path / "nowhere.db").exists()
    assert "processing.enabled is false" in caplog.text


def test_an_async_block_goes_on_without_a_worker() -> None:
    outbox = memory_outbox()
    seen = list[Record]()
    outbox.handler(group="g", id="h")(seen.append)

    async def main() -> None:
        async with outbox.running():
            with outbox.transaction() as conn:
                outbox.publish(conn, "t", 1)

    asyncio.run(main())
    assert seen == []
    assert outbox.drain().delivered == 1  # asked for by hand, it is done
    outbox.close()
