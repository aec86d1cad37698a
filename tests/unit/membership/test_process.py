"""A process of this host that is gone is known to be; nobody else is judged dead."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.membership import process
from penstock.membership.process import Process, this_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Give a process that waits for its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def seen(pid: int) -> Process:
    """Return a running process as it would have described itself."""
    started = process._started(pid)
    assert started
    return replace(this_process(), pid=pid, started=started)


def test_a_process_that_asks_is_not_dead() -> None:
    assert this_process() == this_process()
    assert not this_process().is_surely_dead()


def test_a_living_process_is_not_dead(child: "subprocess.Popen[bytes]") -> None:
    assert not seen(child.pid).is_surely_dead()


def test_a_stopped_process_is_not_dead(child: "subprocess.Popen[bytes]") -> None:
    other = seen(child.pid)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    assert not other.is_surely_dead()


def test_a_process_that_has_ended_is_dead(child: "subprocess.Popen[bytes]") -> None:
    other = seen(child.pid)
    child.kill()
    child.wait()
    assert other.is_surely_dead()


def test_a_corpse_that_nobody_has_buried_is_dead(child: "subprocess.Popen[bytes]") -> None:
    other = seen(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    assert other.is_surely_dead()


def test_another_process_with_the_same_number_is_another_process() -> None:
    assert replace(this_process(), started="1").is_surely_dead()


def test_a_process_of_another_host_is_never_judged() -> None:
    assert not replace(this_process(), host="elsewhere", started="1").is_surely_dead()
    assert not Process("", 2**22 + 1, "1").is_surely_dead()


def test_a_process_that_is_hidden_from_us_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    hidden, me = seen(child.pid), this_process()
    monkeypatch.setattr(process, "this_host", lambda: me.host)
    monkeypatch.setattr(process, "_PROC", tmp_path)
    assert not hidden.is_surely_dead()
    child.kill()
    child.wait()
    assert hidden.is_surely_dead()


def test_where_nothing_can_be_known_there_is_no_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_PROC", tmp_path)
    assert this_process().host == ""
    assert not this_process().is_surely_dead()


def test_a_name_with_spaces_and_brackets_hides_nothing(tmp_path: Path) -> None:
    odd = tmp_path / "a ) Z (b"
    odd.symlink_to(sys.executable)
    with subprocess.Popen([odd, "-c", "input()"], stdin=subprocess.PIPE, executable=odd) as started:
        assert not seen(started.pid).is_surely_dead()
        started.kill()
