"""How many rounds a round-based test runs: the reader of `tests/budget.toml`.

"At least k rounds, then until s seconds are used": a slow machine still sees k rounds, a fast one
uses its time. Every round has a seed made from the run's base seed, the test's name and the round's
number, so a failure can be repeated with PENSTOCK_SEED whatever else ran.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "budget.toml"
LEVELS = ("fast", "slow", "long")


class BudgetError(Exception):
    """The table, a name or an environment variable is wrong; the text says which and what would be right."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one test may use at one level."""

    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of a test. Seed your `random.Random` with `seed` and nothing else."""

    number: int
    seed: int


class Budget:
    """Hands out rounds and remembers the last one for the report of a failure."""

    def __init__(
        self,
        table: dict[str, dict[str, Allowance]],
        level: str,
        base_seed: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._level = level
        self._now = now
        self.base_seed = base_seed
        self.last: tuple[str, Round] | None = None

    def __call__(self, name: str) -> Iterator[Round]:
        """Yield the rounds of the test called `name`. Raises BudgetError."""
        if name not in self._table:
            known = ", ".join(sorted(self._table)) or "none"
            raise BudgetError(f"no budget is called {name!r} in {TABLE.name}; add a table for it (known: {known})")
        return self._rounds(name, self._table[name][self._level])

    def _rounds(self, name: str, allowed: Allowance) -> Iterator[Round]:
        end = self._now() + allowed.seconds
        number = 0
        while number < allowed.rounds or self._now() < end:
            number += 1
            turn = Round(number, round_seed(self.base_seed, name, number))
            self.last = (name, turn)
            yield turn

    def account(self) -> str:
        """Say which round was the last and how to repeat it."""
        if self.last is None:
            return f"no round was begun; base seed {self.base_seed}"
        name, turn = self.last
        return (
            f"{name}: round {turn.number}, seed {turn.seed}, level {self._level}; "
            f"repeat with PENSTOCK_SEED={self.base_seed}"
        )


def round_seed(base_seed: int, name: str, number: int) -> int:
    """Return the seed of one round: the same on every machine and every Python."""
    digest = hashlib.sha256(f"{base_seed}/{name}/{number}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def read_table(path: Path = TABLE) -> dict[str, dict[str, Allowance]]:
    """Return every allowance by name (`[crash.publish]` is "crash.publish") and level. Raises BudgetError."""
    return dict(_named_tables(tomllib.loads(path.read_text("utf-8")), ""))


def level_from_environment() -> str:
    """Return PENSTOCK_BUDGET, which `scripts/test` sets. Raises BudgetError."""
    level = os.environ.get("PENSTOCK_BUDGET") or "fast"
    if level not in LEVELS:
        raise BudgetError(f"PENSTOCK_BUDGET is {level!r}; it must be one of {', '.join(LEVELS)}")
    return level


def seed_from_environment() -> int:
    """Return PENSTOCK_SEED, or a new seed. Raises BudgetError."""
    text = os.environ.get("PENSTOCK_SEED") or str(secrets.randbelow(2**32))
    try:
        return int(text)
    except ValueError:
        raise BudgetError(f"PENSTOCK_SEED is {text!r}; it must be a whole number") from None


def _named_tables(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Allowance]]]:
    for key, value in table.items():
        name = prefix + key
        if not isinstance(value, dict):
            raise BudgetError(f"{name} in {TABLE.name} stands outside a table")
        if not set(value) & set(LEVELS):
            yield from _named_tables(value, f"{name}.")
        elif unknown := set(value) - set(LEVELS):
            raise BudgetError(f"{name} in {TABLE.name} has unknown levels: {', '.join(sorted(unknown))}")
        else:
            yield name, {level: _allowance(f"{name}.{level}", value.get(level)) for level in LEVELS}


def _allowance(name: str, numbers: Any) -> Allowance:
    match numbers:
        case {"rounds": int(rounds), "seconds": int() | float() as seconds, **others} if not others:
            if rounds >= 1 and seconds >= 0:
                return Allowance(rounds, seconds)
    raise BudgetError(f"{name} in {TABLE.name} must be {{rounds = 1 or more, seconds = 0 or more}}, not {numbers!r}")
