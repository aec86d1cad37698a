"""Round-based tests get their rounds, and a failed round can be repeated."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.budget import (
    Allowance,
    Budget,
    BudgetError,
    level_from_environment,
    read_table,
    round_seed,
    seed_from_environment,
)
from tests.services.inner_run import ROOT, inner_pytest

TABLE = {"a.test": {"fast": Allowance(2, 0), "slow": Allowance(2, 10), "long": Allowance(100, 0)}}


def a_clock(step: float) -> Callable[[], float]:
    """Return a clock that moves on by `step` seconds each time it is read."""
    readings = iter(range(10**6))
    return lambda: next(readings) * step


def a_budget(level: str = "fast", seed: int = 7, step: float = 1.0) -> Budget:
    return Budget(TABLE, level, seed, now=a_clock(step))


def test_the_smallest_number_of_rounds_is_run_when_time_is_up_at_once() -> None:
    assert [turn.number for turn in a_budget("fast")("a.test")] == [1, 2]


def test_rounds_go_on_until_the_seconds_are_used() -> None:
    assert len(list(a_budget("slow", step=1.0)("a.test"))) > 2


def test_a_slow_machine_still_gets_its_rounds() -> None:
    assert len(list(a_budget("slow", step=100.0)("a.test"))) == 2


def test_the_same_base_seed_gives_the_same_rounds() -> None:
    assert list(a_budget(seed=7)("a.test")) == list(a_budget(seed=7)("a.test"))
    assert list(a_budget(seed=7)("a.test")) != list(a_budget(seed=8)("a.test"))


def test_round_seeds_are_the_same_on_every_machine() -> None:
    assert round_seed(7, "a.test", 1) == 2662611185


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BudgetError, match=r"no budget is called 'b\.test'.*known: a\.test"):
        a_budget()("b.test")


def test_nested_tables_make_dotted_names(tmp_path: Path) -> None:
    path = tmp_path / "budget.toml"
    levels = "\n".join(f"{level} = {{rounds = 3, seconds = 0.5}}" for level in ("fast", "slow", "long"))
    path.write_text(f"[crash.publish]\n{levels}\n")
    assert read_table(path) == {"crash.publish": dict.fromkeys(("fast", "slow", "long"), Allowance(3, 0.5))}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a]\nfast = {rounds = 1, seconds = 1}", "a.slow .* not None"),
        ("[a]\nfast = {rounds = 0, seconds = 1}", "a.fast .* must be .rounds = 1 or more"),
        ("[a]\nfast = {rounds = 1, second = 1}", "a.fast .* must be"),
        ("[a]\nquick = {rounds = 1, seconds = 1}\nfast = {rounds = 1, seconds = 1}", "unknown levels: quick"),
        ("a = 3", "a .* outside a table"),
    ],
)
def test_a_wrong_table_names_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "budget.toml"
    path.write_text(text)
    with pytest.raises(BudgetError, match=complaint):
        read_table(path)


def test_a_wrong_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BUDGET", "quick")
    with pytest.raises(BudgetError, match="one of fast, slow, long"):
        level_from_environment()


def test_a_wrong_seed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SEED", "lucky")
    with pytest.raises(BudgetError, match="'lucky'; it must be a whole number"):
        seed_from_environment()


def test_a_failed_round_tells_how_to_repeat_it(tmp_path: Path) -> None:
    inner = tmp_path / "test_inner.py"
    inner.write_text(
        "def test_first_round_fails(budget):\n"
        "    for turn in budget('infra.killed_run'):\n"
        "        assert turn.seed < 0\n"
    )
    environment = os.environ | {"PENSTOCK_SEED": "41", "PENSTOCK_BUDGET": "fast"}
    run = subprocess.run(inner_pytest(inner), cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    seed = round_seed(41, "infra.killed_run", 1)
    assert re.search(rf"round 1, seed {seed}, level fast; repeat with PENSTOCK_SEED=41", run.stdout)
