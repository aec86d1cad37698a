"""What the pages of the console cost on a store with a million records, and what an open page costs.

256 partitions, 30 groups, 10,000 parked lanes and 1,000 dead letters, in a SQLite file, so that statements
are in the CPU of the process that serves. Each page is asked for more than a second after the one before it:
what the console keeps for a moment is asked anew.
"""

import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.brokers.server import Server, ServerProcess, free_port, running
from bench.consoles.large_store import LARGE, fill
from bench.consoles.program import STATEMENTS
from bench.doors.servers import is_open
from bench.processes import ProcessTree
from bench.segments import folder
from penstock.console.history import LOOK_SECONDS

PAGES = {
    "overview": "",
    "partitions": "partitions?group=group-00",
    "topics": "topics",
    "topic": "topic?name=events",
    "topic, of a key": "topic?name=events&key=parked-7",
    "topic, of a type": "topic?name=events&type=nothing",
    "record": "record?topic=events&partition=0&offset=0",
    "groups": "groups",
    "group with parked": "group?name=group-00",
    "group behind": "group?name=group-01",
    "key": "key?key=parked-7",
    "failures": "failures?group=group-00",
    "lanes": "lanes?group=group-00",
    "scheduled": "scheduled",
    "periodic": "periodic",
    "members": "members",
    "pipelines": "pipelines",
    "access": "access",
    "audit": "audit",
}
_MOST_STATEMENTS = 60
_CAUSES = {
    "topic, of a key": "a filter looks at up to 5,000 records, 50 of a partition with each statement",
    "topic, of a type": "a filter looks at up to 5,000 records, 50 of a partition with each statement",
}
_LIVE_SECONDS = 2.0  # between two looks of a page that is live


@contextmanager
def opened(run: Run) -> Iterator[Server]:
    """Fill a store and serve its console; for `run.once`."""
    with folder(run) as path:
        url = f"sqlite:///{path}/shop.db"
        fill(url, LARGE)
        port = free_port()
        command = [sys.executable, "-m", "bench.consoles.program", url, str(port)]
        started = ServerProcess(command, path / "console.txt", f"127.0.0.1:{port}")
        with running(started, is_open) as server:
            yield server


@contextmanager
def console(run: Run) -> Iterator[Server]:
    """Give the console of a large store."""
    yield run.once(opened)


def look(path: str, run: Run, server: Server) -> Extra:
    """Ask for a page."""
    time.sleep(LOOK_SECONDS * 1.1)
    process = ProcessTree("console", server.pid)
    asked, cpu = _asked(server), process.cpu_seconds() or 0.0
    _get(server, f"/console/{path}")
    used = (process.cpu_seconds() or 0.0) - cpu
    return {"page_cpu_ms": used * 1000, "statements": _asked(server) - asked}


def stay(run: Run, server: Server) -> Extra:
    """Keep the overview open."""
    seconds = run.size(quick=20, full=60) if run.round else 2
    process = ProcessTree("console", server.pid)
    cpu, until = process.cpu_seconds() or 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        _get(server, "/console/", {"x-live": "1"})
        time.sleep(_LIVE_SECONDS)
    return {"core_percent": ((process.cpu_seconds() or 0.0) - cpu) / seconds * 100}


def _asked(server: Server) -> int:
    return int(_get(server, STATEMENTS))


def _get(server: Server, path: str, headers: dict[str, str] | None = None) -> bytes:
    request = urllib.request.Request(f"http://{server.address}{path}", headers=headers or {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def _page(path: str) -> Callable[[Run, Server], Extra]:
    return partial(look, path)


CASE = Case(
    name="console",
    about="pages of the console: 1,000,000 records, 10,000 parked lanes, 256 partitions, 30 groups; SQLite",
    rounds=Size(quick=3, full=5),
    variants=[
        *(Variant(name, _page(path), setup=console) for name, path in PAGES.items()),
        Variant("live overview", stay, setup=console),
    ],
    targets=[
        *(Target(f"{name}, cpu", Value(name, "page_cpu_ms"), at_most=100) for name in PAGES),
        *(
            Target(f"{name}, asked", Value(name, "statements"), at_most=_MOST_STATEMENTS, cause=_CAUSES.get(name))
            for name in PAGES
        ),
        Target("live", Value("live overview", "core_percent"), at_most=3),
    ],
)
