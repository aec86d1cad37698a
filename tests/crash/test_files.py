"""kill -9 on the process that writes a log in files: all acknowledged is there, no offset changes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import points
from penstock.database.migrations import migrate
from penstock.log.contract import OffsetRange
from penstock.log.files import batch_log, rewriting  # noqa: F401 - they declare points
from penstock.log.store import open_store
from penstock.model.limits import ERASED
from tests.crash.children import ROOT, SOURCE
from tests.services.budget import Budget

ROOMS = ("partition.", "rewriting.")
POINTS = sorted(point for point in points.declared() if point.startswith(ROOMS))
FAST = {"partition.batches_written", "partition.roll_made", "rewriting.written"}  # one of each act
Place = tuple[int, int]


class WriteResult:
    """What all processes said of one log."""

    def __init__(self, folder: Path) -> None:
        self.path = f"{folder}/data"
        store = open_store(self.path + "/")
        migrate(store.database)
        store.close()
        self.acknowledged: dict[Place, str] = {}
        self.erased: set[Place] = set()
        self.seen: dict[Place, str] = {}

    def start(self, **arguments: object) -> subprocess.Popen[str]:
        """Start a process that writes."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.crash.file_programs", json.dumps({"path": self.path, **arguments})],
            env=os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self, output: str) -> bool:
        """Take over what a process said; return whether it came to its end."""
        for line in output.splitlines():
            word, *rest = line.split()
            if word == "ack":
                place = int(rest[0]), int(rest[1])
                assert place not in self.acknowledged, f"{place} was given twice"
                self.acknowledged[place] = rest[2]
            elif word == "erase":
                self.erased.add((int(rest[0]), int(rest[1])))
        return output.endswith("done\n")

    def lost(self) -> int:
        """Return how many records that were acknowledged are not there, in a log that trims nothing."""
        store = open_store(self.path + "/")
        try:
            log, topic = store.log, store.log.topic("t")
            log.claim()
            ranges = [OffsetRange(number, *each) for number, each in log.all_bounds(topic).items()]
            found = {each.id for each in log.read_ranges(topic, ranges, max_bytes=1 << 40).entries}
        finally:
            store.close()
        return len(set(self.acknowledged.values()) - found)

    def check(self) -> int:
        """Open the log as its next writer does and compare; return how many records it holds."""
        store = open_store(self.path + "/")
        try:
            log = store.log
            topic = log.topic("t")
            log.writer.call(lambda: None)  # type: ignore[attr-defined]
            found: dict[Place, str] = {}
            starts = {}
            for number, (start, end) in log.all_bounds(topic).items():
                starts[number] = start
                for each in log.read_ranges(topic, [OffsetRange(number, start, end)], max_bytes=1 << 40).entries:
                    found[each.partition, each.offset] = each.id
                    assert each.type != ERASED or (number, each.offset) in self.erased
            for place, id in self.acknowledged.items():
                if place[1] >= starts[place[0]]:
                    assert found.get(place) == id, f"{place} was acknowledged for {id}"
            for place, id in self.seen.items():
                if place[1] >= starts[place[0]]:
                    assert found.get(place) == id, f"{place} held {id}"
            assert len(set(found.values())) == len(found), "a record stands at two offsets"
            self.seen = found
        finally:
            store.close()
        left = [each.name for each in Path(self.path).rglob("*.new")]
        assert not left, "what was cut short is removed"
        return len(found)


@pytest.mark.parametrize(
    "point", [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in POINTS]
)
def test_killed_at_a_point_nothing_acknowledged_is_lost(point: str, tmp_path: Path) -> None:
    written = WriteResult(tmp_path)
    for visit in (1, 4):
        process = written.start(seed=visit, kill_at=point, visit=visit, rounds=2000)
        output, _ = process.communicate(timeout=120)
        assert not written.hear(output), f"the program never came to {point}"
        assert process.returncode == -9
        written.check()
    process = written.start(seed=9, rounds=5)
    assert written.hear(process.communicate(timeout=120)[0])
    assert written.check()


@pytest.mark.slow
def test_killed_under_load_again_and_again_nothing_acknowledged_is_lost(tmp_path: Path, budget: Budget) -> None:
    written = WriteResult(tmp_path)
    for each in budget("crash.files"):
        source = random.Random(each.seed)
        process = written.start(seed=each.seed, rounds=100_000)
        assert process.stdout is not None
        heard = "".join(process.stdout.readline() for _ in range(source.randint(1, 400)))
        process.kill()
        written.hear(heard + process.communicate(timeout=60)[0])
        written.check()
