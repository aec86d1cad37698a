"""Imports point downward, and the rule that says so finds what it must."""

from pathlib import Path

import pytest

from tests.architecture.rooms import ONLY, RANK, ROWS, breaches
from tests.architecture.source import PROJECT, ROOT, assert_none, modules, plant

FORBIDDEN = {
    "upward": ("model/x.py", "from penstock.outbox.event import StagedEvent", "model may not import outbox"),
    "neighbour": ("outbox/x.py", "import penstock.membership.member", "outbox may not import membership"),
    "lazy": ("model/x.py", "def f():\n    from penstock import app", "model may not import app"),
    "type checking": (
        "wire/x.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from penstock.log import contract",
        "wire may not import log",
    ),
    "relative": ("log/sql/x.py", "from ...outbox import event", "log may not import outbox"),
    "relative package": ("log/x.py", "from .. import outbox", "log may not import outbox"),
    "dynamic": ("log/x.py", "import_module('penstock.outbox.event')", "log may not import outbox"),
    "dynamic, by parts": ("log/x.py", "import_module(f'penstock.cli.{x}')", "log may not import cli"),
    "dynamic, unreadable": ("log/x.py", "import_module(name)", "not written down"),
    "ground to ground": ("settings.py", "from penstock import metrics", "settings may not import metrics"),
    "pipeline to operate": ("pipeline/x.py", "from penstock import operate", "may not import operate"),
    "pipeline to outbox": ("pipeline/x.py", "import penstock.outbox", "may not import outbox"),
    "testing": ("worker/x.py", "from penstock.testing import FakeClock", "worker may not import testing"),
    "façade": ("cli/x.py", "import penstock", "cli may not import the façade"),
    "façade's name": ("cli/x.py", "from penstock import Outbox", "cli may not import the façade (Outbox)"),
    "unknown room": ("cellar/x.py", "", "cellar is not a room of this house"),
    "unknown ground": ("utils.py", "", "utils is not a room of this house"),
}
LAWFUL = {
    "downward": ("outbox/x.py", "from penstock.model.record import Record"),
    "far down": ("cli/x.py", "from penstock import errors"),
    "same room": ("outbox/x.py", "from penstock.outbox.event import StagedEvent"),
    "relative, same room": ("outbox/x.py", "from .event import StagedEvent"),
    "dynamic, same room": ("outbox/adapters/__init__.py", "import_module(f'{__name__}.{kind}')"),
    "errors everywhere": ("settings.py", "from penstock.errors import Error"),
    "pipeline to log": ("pipeline/x.py", "from penstock.log import contract"),
    "outside": ("model/x.py", "import msgspec\nfrom collections.abc import Iterator"),
    "façade itself": ("__init__.py", "from penstock.app import Outbox"),
}


def test_every_import_points_downward() -> None:
    assert_none(breaches(ROOT))


def test_the_walker_sees_the_whole_house() -> None:
    assert len(modules(ROOT)) > 40
    assert set(ONLY) <= set(RANK)


def test_the_rows_in_the_contributors_page_are_these() -> None:
    drawn = "\n".join(" | ".join(sorted(row)) for row in ROWS)
    assert f"```text\n{drawn}\n```" in (PROJECT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.mark.parametrize("case", FORBIDDEN, ids=str)
def test_a_planted_breach_is_found(case: str, tmp_path: Path) -> None:
    file, text, words = FORBIDDEN[case]
    plant(tmp_path, file, text)
    (found,) = breaches(tmp_path)
    assert found.startswith(file)
    assert words in found


@pytest.mark.parametrize("case", LAWFUL, ids=str)
def test_a_lawful_import_is_not_reported(case: str, tmp_path: Path) -> None:
    plant(tmp_path, *LAWFUL[case])
    assert list(breaches(tmp_path)) == []
