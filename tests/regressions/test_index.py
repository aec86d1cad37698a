"""The index: every known bug of the seeds that concerns an outbox, and the tests that would find it again.

Each file named here has a test that bears the bug's id. What has no test yet says which issue brings it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("tests", "src/penstock/testing")
IDS = [f"B-{number:02}" for number in (*range(1, 10), 14, *range(16, 27))]
# Of other faces than the outbox; their tests may bear their ids too.
OTHERS = {f"B-{number:02}" for number in (10, 11, 12, 13, 15, *range(27, 33))}
HERE, UNIT, SHIPPED = "tests/regressions", "tests/unit", "src/penstock/testing"
ATTEMPT = f"{UNIT}/worker/test_attempt.py"
COVERED: dict[str, list[str]] = {
    "B-01": [f"{HERE}/test_b_01_two_owners.py"],
    "B-02": [f"{HERE}/test_b_02_moves.py"],
    "B-03": [f"{HERE}/test_b_03_starved_heartbeat.py"],
    "B-04": [f"{UNIT}/delivery/test_machine.py", f"{SHIPPED}/handling_suite.py", ATTEMPT],
    "B-05": [f"{UNIT}/model/test_retry_delays.py", f"{UNIT}/delivery/test_verdict.py", ATTEMPT],
    "B-06": [f"{UNIT}/model/test_retry_decisions.py", ATTEMPT],
    "B-07": [f"{HERE}/test_b_07_stop.py"],
    "B-08": [f"{UNIT}/worker/test_binding.py"],
    "B-09": [f"{HERE}/test_b_09_silent_handlers.py", f"{UNIT}/cli/test_check.py"],
    "B-14": [f"{HERE}/test_b_14_defaults.py", f"{UNIT}/ground/test_settings.py"],
    "B-16": [f"{UNIT}/delivery/test_verdict.py", f"{HERE}/test_b_16_whole_chain.py", ATTEMPT],
    "B-17": [f"{HERE}/test_b_17_order.py"],
    "B-18": [f"{HERE}/test_b_18_no_handler.py"],
    "B-19": [f"{HERE}/test_b_19_killed_worker.py"],
    "B-20": [f"{HERE}/test_b_20_late_commit.py"],
    "B-21": [f"{HERE}/test_b_21_due_times.py"],
    "B-22": [f"{HERE}/test_b_22_groups_apart.py"],
    "B-23": [f"{HERE}/test_b_23_clear.py"],
    "B-24": [f"{HERE}/test_b_24_spread.py"],
    "B-25": [f"{HERE}/test_b_25_window.py"],
    "B-26": [f"{HERE}/test_b_26_unknown_commit.py"],
}
# In whole or in part: what has to come first.
WAITING = {
    "B-26": "issue 6: run_in_tx and CommitOutcomeUnknown with the staging token (T-27)",
}
BEARS = re.compile(r"test_b_?(\d\d)_")


@cache
def found(root: Path) -> dict[str, set[str]]:
    """Return the ids that tests bear in their names, each with the files of those tests."""
    ids: dict[str, set[str]] = defaultdict(set)
    for path in (each for place in PLACES for each in sorted((root / place).rglob("*.py"))):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "def test_b" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (bears := BEARS.match(node.name)):
                ids[f"B-{bears[1]}"].add(str(path.relative_to(root)))
    return ids


def test_every_bug_is_covered_or_waits_for_something() -> None:
    assert sorted({*COVERED, *WAITING}) == IDS


@pytest.mark.parametrize("id", sorted(COVERED))
def test_the_tests_of_a_bug_are_where_the_index_says(id: str) -> None:
    assert set(COVERED[id]) - found(ROOT)[id] == set()


def test_no_test_bears_an_id_that_is_none() -> None:
    assert set(found(ROOT)) <= {*IDS, *OTHERS}


def test_what_only_waits_has_no_test_yet() -> None:
    """When this fails, the bug's test has come: move it to COVERED."""
    assert {id for id in WAITING if id not in COVERED} & set(found(ROOT)) == set()


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ("def test_b_07_x(): ...", {"B-07"}),
        ("class Suite:\n    def test_b26_y(self): ...", {"B-26"}),
        ("def test_x_b_07(): ...", set()),
        ("test_b_07_x = 1  # def test_b_07_x(): ...", set()),
    ],
)
def test_a_test_that_is_gone_or_renamed_is_missed(tmp_path: Path, source: str, ids: set[str]) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(source)
    assert set(found(tmp_path)) == ids
