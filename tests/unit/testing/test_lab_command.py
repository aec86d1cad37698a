"""`penstock lab`: what it prints, how it ends, and that a seed means the same in every process."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.testing.lab.laboratory import FIRST_DRAWN
from tests.unit.cli.program import penstock
from tests.unit.ground.child import SOURCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def run(*args: str, hash_seed: str = "0") -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own, where the tests can be imported."""
    paths = os.pathsep.join([str(SOURCE), str(ROOT)])
    given = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(penstock("lab", *args), capture_output=True, text=True, check=False, env=given)


@pytest.mark.slow
def test_a_finding_is_exactly_the_same_in_every_process() -> None:
    """Whatever the order of its hashes, and whether it is played among others or alone."""
    with ThreadPoolExecutor(2) as pool:  # mostly they wait for the disk
        both = partial(run, "tests.unit.testing.bank:adding", "--json")
        done = list(pool.map(lambda seed: both(hash_seed=seed), ("1", "2")))
    assert [each.returncode for each in done] == [1, 1], done[0].stderr
    assert done[0].stdout == done[1].stdout
    found: dict[str, Any] = json.loads(done[0].stdout)
    drawn = [each for each in found["findings"] if each["seed"] > FIRST_DRAWN]
    assert not found["ok"]
    assert drawn, "no round of two kills found it"
    again = run("tests.unit.testing.bank:adding", "--json", "--seed", str(drawn[0]["seed"]), hash_seed="3")
    assert json.loads(again.stdout)["findings"] == drawn[:1]


@pytest.mark.slow
def test_people_are_told_how_to_play_it_again() -> None:
    done = run("tests.unit.testing.bank:adding", "--seed", "13")
    assert done.returncode == 1, done.stderr
    assert "NOT IDEMPOTENT: add\n" in done.stdout
    assert "replay it: penstock lab tests.unit.testing.bank:adding --seed 13\n" in done.stdout
    assert done.stderr == ""


def test_a_clean_laboratory_ends_well() -> None:
    done = run("tests.unit.testing.bank:marking", "--seed", "13")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("idempotent: 1 rounds")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("tests.unit.testing.bank:PAID", "tests.unit.testing.bank:PAID is list, not a CrashLab"),
        ("tests.unit.testing.bank", "must be MODULE:NAME, such as tests.lab:lab"),
        ("tests.unit.testing.bank:nobody", "has no 'nobody'"),
    ],
)
def test_what_is_no_laboratory_is_refused(target: str, words: str) -> None:
    done = run(target)
    assert done.returncode == 2
    assert words in done.stderr
