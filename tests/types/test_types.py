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
# Libraries without stubs, whose source pyright reads: what they give is taken for a connection, too.
UNTYPED = """
# pyright: basic
# mypy: ignore-errors
import asyncpg
from django.db import connection, connections
from penstock import Outbox
async def publish(outbox: Outbox) -> None:
    outbox.publish(connection, "t", 1)
    outbox.publish(connections["default"], "t", 1)
    await outbox.apublish(await asyncpg.connect(), "t", 1)
    async with asyncpg.create_pool() as pool, pool.acquire() as conn:
        await outbox.apublish(conn, "t", 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_users_program_is_typed_and_what_is_planted_is_found(checker: Checker, tmp_path: Path) -> None:
    planted, untyped = tmp_path / "planted.py", tmp_path / "untyped.py"
    planted.write_text(PLANTED, "utf-8")
    untyped.write_text(UNTYPED, "utf-8")
    found = checker([SHOP, planted, untyped], tmp_path)
    assert (found[SHOP], found[untyped]) == ([], [])
    assert len(found[planted]) == 2, found


def test_the_wheel_says_that_it_is_typed(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as archive:
        assert "penstock/py.typed" in archive.namelist()
