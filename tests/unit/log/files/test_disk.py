"""The lock of the one process that writes a log in files, and who asks for it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock.errors import WriterElsewhere
from penstock.log.files.disk import LOCK_NAME, WriterLock, writer_pid

HOLDER = """
import sys
from pathlib import Path
from penstock.log.files.disk import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Give a process that holds the lock until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_who_holds_the_lock_writes_and_nobody_else(tmp_path: Path) -> None:
    assert writer_pid(tmp_path) is None
    lock = WriterLock(tmp_path)
    assert writer_pid(tmp_path) == os.getpid()
    with pytest.raises(WriterElsewhere, match=str(os.getpid())):
        WriterLock(tmp_path)
    lock.release()
    assert writer_pid(tmp_path) is None


def test_a_writer_that_was_killed_writes_no_more_whoever_has_its_number_now(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        assert writer_pid(tmp_path) == process.pid
    assert (tmp_path / LOCK_NAME).read_text() == f"{process.pid}\n", "a kill leaves its number"
    assert writer_pid(tmp_path) is None
    (tmp_path / LOCK_NAME).write_text(f"{os.getppid()}\n")  # it lives, and is another program
    assert writer_pid(tmp_path) is None


def test_who_asks_keeps_no_writer_out(tmp_path: Path) -> None:
    stopped = Event()

    def ask() -> None:
        while not stopped.is_set():
            writer_pid(tmp_path)

    askers = [Thread(target=ask) for _ in range(4)]
    for each in askers:
        each.start()
    try:
        for _ in range(3000):
            WriterLock(tmp_path).release()
    finally:
        stopped.set()
        for each in askers:
            each.join()
