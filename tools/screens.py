"""What commands print on terminals of several widths, from a real small store with a fixed clock.

A screen is a row of `SCREENS`: a heading, what to say of it, and what prints it.
"""

import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from tempfile import TemporaryDirectory
from typing import NamedTuple

from penstock import Fixed, Outbox, Record, cli
from penstock.cli import output
from penstock.model import ids
from penstock.operate import groups
from penstock.testing import FakeClock
from penstock.worker.status import log_start

WIDTHS = (60, 100, 160)
_START = datetime(2026, 11, 16, 2, 0, tzinfo=UTC)
_NEVER = Fixed(timedelta(minutes=5), max_retries=0)
_LATER = Fixed(timedelta(minutes=5), max_retries=3)


class Screen(NamedTuple):
    """One command and what makes it print; `run` gets the address of the store."""

    command: str
    said: str
    run: Callable[[str], None]


def _command(*words: str) -> Callable[[str], None]:
    def run(url: str) -> None:
        cli.group.main([*words, "--url", url], standalone_mode=False)

    return run


def _banner(url: str) -> None:
    """Print what a worker logs when it has joined; the member and the store have fixed names."""
    outbox = _program(url, FakeClock(_START))
    printed, logger = logging.StreamHandler(sys.stdout), logging.getLogger("penstock.worker")
    logging.disable(logging.NOTSET)
    level, logger.level = logger.level, logging.INFO
    logger.addHandler(printed)
    try:
        subscriptions = list(outbox._handlers.subscriptions())
        log_start("/srv/shop/shop.db", subscriptions, "0c4f3d1e-7a52-4b8e-9a57-3f1d2b6c8e90", 2)
    finally:
        logger.removeHandler(printed)
        logger.level = level
        logging.disable(logging.CRITICAL)
        outbox.close()


SCREENS = (
    Screen("penstock worker", "What a worker logs when it has joined; log lines are never wrapped.", _banner),
    Screen("penstock groups list", "How far each group is behind, and what waits.", _command("groups", "list")),
    Screen("penstock dead list", "The records that handlers gave up.", _command("dead", "list")),
)


def screens_page() -> Iterator[str]:
    """Yield every screen at every width, and without a terminal."""
    yield "# Screens"
    yield (
        "What commands print on terminals of several widths. Names, ids and offsets are never cut: a table "
        "that is too wide for the terminal becomes one block per record. Without a terminal, as in a pipe or "
        "a file, a row is always one line, and the width does not count; for programs there is `--json`."
    )
    with TemporaryDirectory() as folder, _same_ids(), _silence():
        url = f"sqlite:///{folder}/shop.db"
        _fill(url)
        for screen in SCREENS:
            yield f"## `{screen.command}`"
            yield screen.said
            for width in (*WIDTHS, None):
                yield "In a pipe or a file:" if width is None else f"At {width} columns:"
                yield f"```text\n{_printed(screen, url, width)}\n```"


def _printed(screen: Screen, url: str, width: int | None) -> str:
    real, out = output.terminal_width, StringIO()
    output.terminal_width = lambda: width
    try:
        with redirect_stdout(out):
            screen.run(url)
    finally:
        output.terminal_width = real
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()


@contextmanager
def _silence() -> Iterator[None]:
    """Let nothing be logged of what fails on purpose."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def _same_ids() -> Iterator[None]:
    """Let the ids of events be the same in every run."""
    ids.draw_from(random.Random(7).randbytes)
    try:
        yield
    finally:
        ids.draw_from(os.urandom)


def _fill(url: str) -> None:
    """Make a store with three groups: with dead letters, with a lane that waits, and behind."""
    clock = FakeClock(_START)
    outbox = _program(url, clock)
    outbox.migrate()
    _publish(outbox, clock, range(1001, 1006))
    outbox.drain()
    groups.pause(outbox, "billing", clock=clock)
    _publish(outbox, clock, range(1006, 1009))
    outbox.drain()
    groups.resume(outbox, "billing", clock=clock)
    outbox.close()


def _program(url: str, clock: FakeClock) -> Outbox:
    outbox = Outbox(url, clock=clock)

    @outbox.handler("order.*", group="mailer", id="shop.send", retry=_NEVER)
    def send(record: Record) -> None:
        if record.key in ("o-1002", "o-1004"):
            raise LookupError("the customer has no address, so no mail can be sent")

    @outbox.handler("order.*", group="index-of-orders", id="shop.index", retry=_LATER)
    def index(record: Record) -> None:
        if record.key == "o-1003":
            raise TimeoutError("the index does not answer")

    @outbox.handler("order.*", group="billing", id="shop.bill")
    def bill(record: Record) -> None: ...

    return outbox


def _publish(outbox: Outbox, clock: FakeClock, numbers: range) -> None:
    for number in numbers:
        clock.advance(timedelta(seconds=41))
        with outbox.transaction() as conn:
            outbox.publish(conn, "order.placed", {"order": number}, key=f"o-{number}")
