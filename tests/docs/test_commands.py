"""Every command that the documentation shows exists, with the options it is given."""

from pathlib import Path

import pytest

from tests.docs.commands import command_lines, fault
from tests.docs.pages import Block, blocks_of, name_of, pages


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_commands_of_the_page_exist(page: Path) -> None:
    for block in blocks_of(page, "console", "bash"):
        for line, words in command_lines(block):
            assert (said := fault(words)) is None, f"{name_of(page)}:{line}: {said}"


def test_in_a_console_block_only_lines_behind_a_dollar_are_commands() -> None:
    block = Block("console", "$ penstock demo\nreconciled: 1\n$ A=1 penstock \\\n  doctor # look\n", 10)
    assert list(command_lines(block)) == [(10, ["penstock", "demo"]), (12, ["penstock", "doctor"])]


def test_in_a_bash_block_every_line_is_a_command() -> None:
    assert list(command_lines(Block("bash", "# look\ngit status\n", 3))) == [(4, ["git", "status"])]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("penstock demmo", "has no command demmo"),
        ("penstock demo --order 3", "has no option --order"),
        ("penstock demo --orders", "requires an argument"),
        ("penstock doctor --jsn", "has no option --jsn"),
        ("./scripts/gone", "is not there"),
        ("./scripts/check --fax", "does not know --fax"),
        ("./scripts/demo --order 3", "has no option --order"),
        ("python -m tools.gone", "no module tools.gone"),
        ("python gone.py", "no example has gone.py"),
        ("pip install 'penstock-outbox[gone]'", "no extra gone"),
        ("pip install '.[gone]'", "no extra gone"),
        ("penstok demo", "no command of ours"),
    ],
)
def test_a_planted_fault_is_found(line: str, words: str) -> None:
    ((_, command),) = command_lines(Block("bash", line, 1))
    assert words in (fault(command) or "")


@pytest.mark.parametrize(
    "line",
    [
        "penstock --version",
        "penstock demo --orders 3 --dir shop",
        "penstock demo --orders=3",
        "./scripts/test --slow -x",
        "./scripts/demo --orders 3",
        "python -m tools.reference --check",
        "pip install 'penstock-outbox[pydantic]'",
        "git clone x",
        "python manage.py migrate",
    ],
)
def test_a_lawful_command_is_not_reported(line: str) -> None:
    ((_, command),) = command_lines(Block("bash", line, 1))
    assert fault(command) is None
