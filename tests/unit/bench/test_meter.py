import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from bench import NotMeasured, Resident
from bench.meter import ProcessMeter, Reading, measures_of
from bench.processes import ProcessTree, Spending

BURN = """
import subprocess, sys, time
def burn():
    end = time.process_time() + 0.05
    while time.process_time() < end: pass
"""
WORKER = (
    BURN
    + """
for line in sys.stdin:
    if line == "child\\n":
        subprocess.run([sys.executable, "-c", sys.argv[1] + "burn()"], check=True)
    else:
        burn()
    print("done", flush=True)
"""
)


class Worker:
    """A process that burns 0.05 s of CPU when it is told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def work(self, how: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(how + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def stop(self) -> None:
        self.process.communicate()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    if worker.process.returncode is None:
        worker.stop()


def burn() -> None:
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass


def test_our_cpu_counts_every_thread() -> None:
    def call() -> None:
        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()
        burn()

    assert ProcessMeter().measure(call, {})[0].own_cpu_seconds >= 0.1


def test_a_watched_process_is_counted_from_the_start_of_the_call(worker: Worker) -> None:
    worker.work("burn")
    worker.work("burn")

    watched = {"worker": [worker.process.pid]}
    idle, _ = ProcessMeter().measure(lambda: None, watched)
    busy, _ = ProcessMeter().measure(lambda: worker.work("burn"), watched)

    assert idle.watched_cpu_seconds["worker"] < 0.05 <= busy.watched_cpu_seconds["worker"]
    assert busy.cpu_seconds == busy.own_cpu_seconds + busy.watched_cpu_seconds["worker"]


def test_a_watched_child_that_the_call_waits_for_counts_without_its_past(worker: Worker) -> None:
    for _ in range(10):
        worker.work("burn")

    def call() -> None:
        worker.work("burn")
        worker.stop()

    reading, _ = ProcessMeter().measure(call, {"worker": [worker.process.pid]})

    assert 0.04 <= reading.cpu_seconds < 0.5
    assert reading.watched_cpu_seconds == {"worker": 0}


def test_a_watched_process_that_is_gone_is_named(worker: Worker) -> None:
    worker.stop()

    with pytest.raises(NotMeasured, match=r"the process worker \(\d+\) is gone"):
        ProcessMeter().measure(lambda: None, {"worker": [worker.process.pid]})


def test_the_cpu_of_watched_processes_is_shown_apart() -> None:
    reading = Reading(wall_seconds=4.0, own_cpu_seconds=1.0, watched_cpu_seconds={"postgres": 2.0})

    measures = measures_of(reading, 1_000_000, None)

    assert measures["cpu_us"] == 3
    assert (measures["own_cpu_us"], measures["postgres_cpu_us"]) == (1, 2)


def test_an_extra_measure_cannot_replace_one_of_the_harness() -> None:
    with pytest.raises(ValueError, match="cpu_us is the harness' own"):
        measures_of(Reading(wall_seconds=1.0, own_cpu_seconds=1.0), 1, {"cpu_us": 0.0})


def test_a_round_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="no cost per record"):
        measures_of(Reading(wall_seconds=1.0, own_cpu_seconds=1.0), 5, {"records": 0})


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="memory peaks need Linux's /proc")
def test_resident_memory_remembers_a_peak_that_has_passed() -> None:
    with Resident() as memory:
        bytearray(b"x" * 40_000_000)  # so much is always asked of the system, and given back to it

        assert memory.growth_mb() >= 25
        assert memory.peak_mb() >= memory.growth_mb()


ORPHANS = (
    BURN
    + """
import os
if os.fork():
    os.wait()  # for the one between, not for its child
    print("left", flush=True)
elif not os.fork():
    burn()
    print("burnt", flush=True)
    sys.stdin.readline()
    os._exit(0)
else:
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
"""
)


def test_a_process_that_outlives_its_parent_takes_nothing_off_what_was_spent() -> None:
    words = [sys.executable, "-c", ORPHANS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        spending = Spending(process.pid)
        assert process.stdout.readline() == "burnt\n"
        spent, tree = spending.seconds(), ProcessTree("tree", process.pid)
        before = tree.cpu_seconds()
        (between,) = tree._root.children()
        between.kill()
        assert process.stdout.readline() == "left\n"
        assert spending.seconds() >= spent >= 0.05
        assert (tree.cpu_seconds() or 0.0) < (before or 0.0), "the control: the total of the tree falls"
        process.stdin.write("\n\n\n")


def test_what_a_child_used_counts_once_when_it_has_ended(worker: Worker) -> None:
    spending, tree = Spending(worker.process.pid), ProcessTree("tree", worker.process.pid)
    before = tree.cpu_seconds() or 0.0
    for how in ("child", "burn", "child"):
        worker.work(how)
        spent = spending.seconds()
    assert spent == pytest.approx((tree.cpu_seconds() or 0.0) - before, abs=0.04)  # 10 ms for each process
    assert spent >= 0.15
