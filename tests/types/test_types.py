"""A user's program in the strict modes of mypy and pyright: what is right passes, what is wrong does not."""

from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.types.checkers import mypy, pyright

Checker = Callable[[list[Path], Path], dict[Path, list[str]]]
SHOP = Path(__file__).with_name("shop.py")
ROOT = SHOP.parents[2]
# A right line that is marked as wrong, and a wrong one that is not marked.
PLANTED = """
import sqlite3
from penstock import Outbox
def breach(outbox: Outbox, conn: sqlite3.Connection) -> None:
    outbox.publish(conn, "t", 1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    outbox.publish(conn, 5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_users_program_is_typed_and_what_is_planted_is_found(checker: Checker, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED, "utf-8")
    found = checker([SHOP, planted], tmp_path)
    assert found[SHOP] == []
    assert len(found[planted]) == 2, found


def test_the_wheel_says_that_it_is_typed(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as archive:
        assert "penstock/py.typed" in archive.namelist()
