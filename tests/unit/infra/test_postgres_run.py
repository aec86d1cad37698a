"""One PostgreSQL per test run: shared by its processes, and gone however the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.services.budget import Budget
from tests.services.inner_run import ROOT, inner_pytest
from tests.services.postgres import PostgresServer

# `-s` hands these lines to us; then the test waits for the signal that ends its run. Where a shell runs us in
# the background, SIGINT is ignored in us and in all we start.
WAITING = """
import pathlib, psycopg, signal

signal.signal(signal.SIGINT, signal.default_int_handler)

def test_waits(postgres_url):
    with psycopg.connect(postgres_url) as conn:
        folder = conn.execute("SHOW data_directory").fetchone()[0]
    print("server:", pathlib.Path(folder, "postmaster.pid").read_text().split()[0], folder, flush=True)
    signal.pause()
"""

# Each worker notes where its server keeps its data, then fails: failures must not keep it alive.
FAILING = """
import pathlib, psycopg

def test_fails(postgres_url, worker_id):
    with psycopg.connect(postgres_url) as conn:
        folder = conn.execute("SHOW data_directory").fetchone()[0]
    pathlib.Path(__file__).with_name(worker_id).write_text(folder)
    assert False
"""


@pytest.fixture(autouse=True)
def _needs_postgres(postgres_server: PostgresServer) -> None:
    """Skip here, with the reason, rather than fail on an inner run that was skipped."""


@contextmanager
def a_waiting_run(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start an inner run that waits in its test; it leads a process group, as in a terminal."""
    inner = folder / "test_waits.py"
    inner.write_text(WAITING)
    command = inner_pytest(inner, "-s", "-n", "0")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            yield run
        finally:
            run.kill()


def server_of(run: subprocess.Popen[str]) -> tuple[int, Path]:
    """Read up to the line in which the inner test names its server: process id and run folder."""
    assert run.stdout is not None
    seen = []
    for line in run.stdout:
        seen.append(line)
        if "server: " in line:
            pid, folder = line.partition("server: ")[2].split()
            return int(pid), Path(folder).parents[1]
    pytest.fail("the inner run ended early:\n" + "".join(seen))


def is_alive(pid: int) -> bool:
    """A dead process that nobody waited for, as in a container without an init, does not count."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(folder: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while folder.exists():
        assert time.monotonic() < end, f"{folder} still exists"
        time.sleep(0.05)


def test_workers_share_one_server_that_stops_though_tests_fail(tmp_path: Path) -> None:
    inner = tmp_path / "test_fails.py"
    inner.write_text(FAILING)
    command = inner_pytest(inner, "-n", "2", "--dist", "each")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    (folder,) = {(tmp_path / worker).read_text() for worker in ("gw0", "gw1")}
    assert not Path(folder).parents[1].exists()


@pytest.mark.slow
def test_ctrl_c_stops_the_server(tmp_path: Path) -> None:
    with a_waiting_run(tmp_path) as run:
        pid, folder = server_of(run)
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait() == pytest.ExitCode.INTERRUPTED
    assert not folder.exists()
    assert not is_alive(pid)


@pytest.mark.slow
def test_a_killed_run_leaves_no_server(tmp_path: Path, budget: Budget) -> None:
    for _ in budget("infra.killed_run"):
        with a_waiting_run(tmp_path) as run:
            pid, folder = server_of(run)
            run.kill()
        wait_until_gone(folder)
        assert not is_alive(pid)
