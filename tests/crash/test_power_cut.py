"""The power goes while a log in files is written: all acknowledged is there; without fsync it is not.

The log lies on a file system of its own, in an image behind a loop device. What is not synced is in the
memory of that file system only: the image, copied while its writer stands still, is the disk as a power cut
leaves it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.test_files import WriteResult
from tests.services.budget import Budget

MIB = 1 << 20


class Machine:
    """A file system in an image, mounted at `root`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.image, self.after = folder / "disk", folder / "image", folder / "after"
        self.root.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 * MIB)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop,commit=300", str(self.image), str(self.root))

    def unmount(self) -> None:
        _run("umount", str(self.root))

    def cut(self, writer: subprocess.Popen[str]) -> None:
        """Cut the power: the writer is gone, and the disk holds what it has been given until now."""
        writer.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)  # all its threads stand still
        shutil.copyfile(self.image, self.after)
        writer.kill()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Give a machine whose power can be cut; skipped where no image can be mounted."""
    try:
        found = Machine(tmp_path)
    except OSError as exc:
        pytest.skip(f"no file system in an image can be mounted here ({exc})")
    try:
        yield found
    finally:
        found.unmount()


def cut_under_load(machine: Machine, written: WriteResult, seed: int, **arguments: object) -> None:
    """Write until the power goes at some moment; then start the machine again from what its disk holds."""
    process = written.start(seed=seed, rounds=100_000, **arguments)
    assert process.stdout is not None
    heard = "".join(process.stdout.readline() for _ in range(random.Random(seed).randint(50, 400)))
    machine.cut(process)
    written.hear(heard + process.communicate(timeout=60)[0])
    machine.unmount()  # this reaches the old image only
    os.replace(machine.after, machine.image)
    machine.mount()


@pytest.mark.slow
def test_after_a_power_cut_all_that_was_acknowledged_is_there(machine: Machine, budget: Budget) -> None:
    written = WriteResult(machine.root)
    _run("sync", "-f", str(machine.root))
    for each in budget("crash.power_cut"):
        cut_under_load(machine, written, each.seed)
        assert written.check()


@pytest.mark.slow
def test_without_fsync_a_power_cut_loses_what_was_acknowledged(machine: Machine) -> None:
    """The control: were this green too, the test above would show nothing."""
    written = WriteResult(machine.root)
    _run("sync", "-f", str(machine.root))
    cut_under_load(machine, written, 1, durability="os", segment_bytes=MIB, tends=False)
    assert written.lost() > 0
