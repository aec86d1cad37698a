"""The program of the fault runs: five groups of different kinds on one topic, each noting what it is given.

`penstock worker tests.faults.shop:outbox`; where its store and its notes are stands in the environment.
"""

import asyncio
import ctypes
import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from penstock import Fixed, Outbox, Record
from penstock.membership.sharing import SharingMember
from penstock.worker.served_groups import LeaseCheck
from tests.faults.arrivals import AHEAD, HELD, KILLER, NOTES, TOPIC, URL, Arrival

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


class SetClock:
    """The clock of a machine whose time of day somebody sets, for all its processes."""

    monotonic = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        """Return the time of day, as it is set."""
        return time.time_ns() // 1_000_000 + 1000 * int(Path(os.environ[AHEAD]).read_text() or 0)


def may_be_held(owner: type, method: str, name: str) -> None:
    """Let a test hold the threads that call a method: they wait while a file is there, and make another."""
    path, plain = Path(os.environ[HELD]) / f"{os.getpid()}.{name}", getattr(owner, method)

    def held(self: object) -> object:
        while path.exists():
            path.with_name(f"{path.name}.held").touch()
            time.sleep(0.02)
        return plain(self)

    setattr(owner, method, held)


may_be_held(SharingMember, "neighbours_died", "membership")  # each turn of its thread begins with it
may_be_held(LeaseCheck, "may_start", "handlers")
outbox = Outbox(os.environ[URL], clock=SetClock()) if AHEAD in os.environ else Outbox(os.environ[URL])
_notes = os.open(os.environ[NOTES], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
_mark = "%s" if outbox.url.startswith("postgresql") else "?"
_rng = random.Random(os.getpid())
_often = Fixed(delay=timedelta(milliseconds=50), max_retries=100)


def _note(group: str, *records: Record) -> None:
    """Write down deliveries as they begin, in one write: a line is there whole or not at all."""
    os.write(_notes, "".join(Arrival.of(group, each).text() for each in records).encode())


@outbox.handler(group="plain", topic=TOPIC)
def plain(record: Record) -> None:
    """Take a moment; the killer's record ends the process."""
    _note("plain", record)
    if record.type == KILLER:
        os._exit(1)
    time.sleep(_rng.uniform(0, 0.004))


@outbox.handler(group="loop", topic=TOPIC)
async def loop(record: Record) -> None:
    """Take a moment in the event loop."""
    _note("loop", record)
    await asyncio.sleep(_rng.uniform(0, 0.004))


@outbox.handler(group="batch", topic=TOPIC, batch=20)
def batch(records: list[Record]) -> None:
    """Take a moment for many."""
    _note("batch", *records)
    time.sleep(_rng.uniform(0, 0.004))


@outbox.handler(group="exact", topic=TOPIC, transaction=True)
def exact(record: Record) -> None:
    """Write a row that commits with the cursor."""
    _note("exact", record)
    record.tx.execute(f"INSERT INTO effect VALUES ({_mark}, {_mark})", (record.partition, record.offset))


@outbox.handler(group="retried", topic=TOPIC, retry=_often)
def retried(record: Record) -> None:
    """Fail the first two times for one record of ten."""
    _note("retried", record)
    assert record.offset is not None
    if record.offset % 10 == 0 and record.attempt <= 2:
        raise ValueError("meant to fail")
