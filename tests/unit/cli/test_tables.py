"""Tables are never cut: wide ones become a block per record, and without a terminal nothing is broken."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.cli import output
from penstock.cli.output import print_table
from tests.unit.cli.program import penstock

COLUMNS = ("group", "record", "key", "id", "reason")
ID = "01a1e786-49a8-74fc-978f-7d921b97b15a"
ROWS = [
    ("mailer", "events/166/123456789012", "o-1", ID, "ValueError: no address for the customer of this order"),
    ("an-index-with-a-long-name", "events/3/0", "[bold]日本[/] :heart:", ID.replace("0", "f"), "no"),
]
Shown = Callable[[int | None], str]
NAMES = [text for row in ROWS for text in row[:4]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Give a way to print the table on a terminal of some width, or on none."""

    def shown(width: int | None) -> str:
        monkeypatch.setattr(output, "terminal_width", lambda: width)
        print_table(COLUMNS, ROWS, prose=("reason",))
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 130, 160, 250, None])
def test_names_ids_and_offsets_are_whole_at_every_width(shown: Shown, width: int | None) -> None:
    out = shown(width)
    for name in NAMES:
        assert name in out, (width, name)
    assert "…" not in out


def test_a_narrow_terminal_gets_a_block_per_record(shown: Shown) -> None:
    first, second = shown(60).strip().split("\n\n")
    assert first.splitlines() == [f"{name + ':':<8}{text}" for name, text in zip(COLUMNS, ROWS[0], strict=True)]
    assert second.splitlines()[0] == "group:  an-index-with-a-long-name"


def test_prose_is_broken_between_words_and_names_are_not(shown: Shown) -> None:
    head, *lines = shown(140).splitlines()
    assert head.split() == list(COLUMNS)
    assert len(lines) > len(ROWS)
    assert all(len(line.rstrip()) <= 140 for line in lines)


def test_without_a_terminal_a_row_is_a_line_whatever_the_environment_says(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = shown(None)
    for name, value in (("COLUMNS", "40"), ("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    assert shown(None) == plain
    head, *lines = plain.splitlines()
    assert [line.split("  ")[0] for line in lines] == [row[0] for row in ROWS]
    assert lines[0].index(ID) == head.index("id ")
    assert not any(line != line.rstrip() for line in plain.splitlines())


def test_the_width_is_that_of_the_terminal(tmp_path: Path) -> None:
    """With a real terminal of 60 columns."""
    url = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox(url)
    outbox.migrate()
    with outbox.transaction() as conn:
        id = outbox.publish(conn, "order.placed", 1, key="o-1")
    outbox.close()
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "dumb"}
    command = penstock("events", "list", "--state", "staged", "--url", url)
    assert subprocess.run(command, stdout=theirs, env=environment, check=False).returncode == 0
    os.close(theirs)
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert f"id:     {id}" in said
    assert "topic:  events" in said
