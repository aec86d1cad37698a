"""Stuck by processes of their own: a worker that is stopped, killed, or goes on after it was stopped."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SYSTEM
from penstock.operate.store_doctor import examine_store
from penstock.operate.why import Answer, Code, why
from tests.conformance.engines import StoreEngine
from tests.crash.children import ROOT, SOURCE
from tests.crash.waiting import wait_until
from tests.unit.cli.program import penstock

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("kind", ["postgres"], indirect=True)]
PROGRAM = """
import os, threading
from penstock import Outbox

outbox = Outbox(os.environ["PENSTOCK_URL"])

@outbox.handler(group="g", id="send_mail")
def send_mail(record):
    if record.value == "hang":
        threading.Event().wait(600)
"""


class RunningWorker:
    """`penstock worker` with a short lease, and what it has logged."""

    def __init__(self, url: str, folder: Path) -> None:
        (folder / "shop.py").write_text(PROGRAM)
        self.log = folder / "worker.log"
        short = {"LEASE_TTL": "1", "HEARTBEAT_INTERVAL": "0.1", "GATHER_JOINS": "0"}
        settings = {f"PENSTOCK_CLUSTER_{name}": value for name, value in short.items()}
        path = os.pathsep.join([str(SOURCE), str(ROOT), str(folder)])
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                penstock("worker", "shop:outbox"),
                cwd=folder,
                env=os.environ | settings | {"PENSTOCK_URL": url, "PYTHONPATH": path},
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Kill it and wait for that."""
        self._process.kill()
        self._process.wait()


@pytest.fixture
def worker(engine: StoreEngine, tmp_path: Path) -> Iterator[RunningWorker]:
    """Give a running worker that has delivered something."""
    made = RunningWorker(engine.url, tmp_path)
    publish(engine, "first")
    try:
        wait_until(lambda: [each.code for each in told(engine, "first")] == [Code.DELIVERED], "it works")
        yield made
    finally:
        made.end()


def publish(engine: StoreEngine, key: str, value: str = "x") -> None:
    outbox = engine.another(SYSTEM)
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", value, key=key)


def told(engine: StoreEngine, subject: str) -> list[Answer]:
    return why(engine.outbox, subject, clock=SYSTEM)


def doctor(engine: StoreEngine) -> str:
    return "\n".join(f"{each.part}: {each.found}" for each in examine_store(engine.outbox, SYSTEM))


def test_a_stopped_worker_is_told_then_its_lapse_and_it_goes_on_without_alarm(
    engine: StoreEngine, worker: RunningWorker
) -> None:
    worker.signal(signal.SIGSTOP)
    publish(engine, "k")
    wait_until(lambda: "is stopped, by a signal" in doctor(engine), "the doctor sees it stopped", seconds=10)
    wait_until(lambda: "its lease ran out" in told(engine, "k")[0].sentence, "why sees its lapse")
    assert told(engine, "k")[0].code is Code.NOT_SEQUENCED
    assert "its lease ran out" in doctor(engine)
    worker.signal(signal.SIGCONT)
    wait_until(lambda: [each.code for each in told(engine, "k")] == [Code.DELIVERED], "it goes on")
    assert "cannot be reached" not in worker.log.read_text()


def test_a_killed_worker_is_told(engine: StoreEngine, worker: RunningWorker) -> None:
    worker.end()
    publish(engine, "k")
    (answer,) = told(engine, "k")
    assert answer.code is Code.NOT_SEQUENCED
    assert "has ended" in answer.sentence
    assert answer.commands
    assert "has ended" in doctor(engine)


def test_a_call_that_hangs_in_another_process_is_told_with_its_time(engine: StoreEngine, worker: RunningWorker) -> None:
    publish(engine, "k", "hang")
    wait_until(lambda: "handler send_mail has been working" in told(engine, "k")[0].sentence, "it is told")
    assert "time limit is 600 s" in told(engine, "k")[0].sentence
    assert "Group g: group g is working on events: 1 record is to be read" in doctor(engine)
