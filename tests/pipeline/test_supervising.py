"""`pipeline run` watches over its query: what passes is tried again, what does not ends in a sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline import register
from tests.pipeline.conftest import Command, Done
from tests.pipeline.read_back import read_back
from tests.pipeline.stores import TOPIC, LogStore

BATCH = 100
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


class Fragile:
    """A pipeline whose workers do what records say, and the command that runs it."""

    def __init__(self, store: LogStore, folder: Path, command: Command) -> None:
        self.store, self.folder, self._command = store, folder, command
        self.to = folder / "table"

    def fill(self, **told: Any) -> None:
        """Append two batches, with a record in the second that has its worker do something."""
        for many, says in ((BATCH + 20, {}), (1, told), (BATCH - 21, {})):
            self.store.fill(many, data=json.dumps(says | {"to": str(self.folder)}).encode(), key="k")

    def run(self) -> Done:
        where = ["--url", self.store.url, "--topic", TOPIC, "--to", str(self.to)]
        words = [*where, "--once", "--batch-records", str(BATCH)]
        return self._command("pipeline", "run", "tests.pipeline.fragile_pipeline:fragile", *words)

    def deaths(self) -> int:
        return len((self.folder / "deaths").read_text())

    def places(self) -> list[tuple[int, int]]:
        return sorted(read_back(self.to, ["partition", "offset"]))


@pytest.fixture
def fragile(sqlite_store: LogStore, tmp_path: Path, command: Command) -> Fragile:
    return Fragile(sqlite_store, tmp_path, command)


def check_ended_in(done: Done, code: int, sentence: str) -> None:
    assert done.code == code
    assert done.err.splitlines()[-1] == sentence
    for word in ("Traceback", "\tat ", "Py4J"):
        assert word not in done.err


def test_a_query_that_loses_its_worker_starts_again_until_it_comes_through(fragile: Fragile) -> None:
    fragile.fill(deaths=2)
    done = fragile.run()
    assert (done.code, done.out) == (0, f"done: {2 * BATCH} rows in 2 batches\n"), done.err
    assert fragile.deaths() == 3
    said = "the pipeline was interrupted: a Python worker was lost; retrying for at most 600 s\n"
    assert done.err.count(said) == 1, "twice, and said once"
    assert fragile.places() == sorted(fragile.store.records())


def test_a_query_that_loses_its_worker_for_too_long_ends(fragile: Fragile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PIPELINE_RETRY_SECONDS", "1")
    fragile.fill(deaths=1_000)
    done = fragile.run()
    check_ended_in(done, 3, "error: the pipeline was interrupted: a Python worker was lost")
    assert fragile.deaths() == 2
    assert len(fragile.places()) == BATCH


def test_a_query_that_fails_by_its_data_is_not_tried_again(fragile: Fragile) -> None:
    fragile.fill(divide_by=0)
    done = fragile.run()
    check_ended_in(done, 1, "error: the pipeline stopped: ZeroDivisionError: division by zero")
    assert "retrying" not in done.err
    assert len(fragile.places()) == BATCH


def test_a_worker_that_does_not_connect_in_time_is_waited_for(
    fragile: Fragile, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark gives the worker that reads a stream's offsets ten seconds; this one needs longer, once."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"  *python_streaming_source_runner*) mkdir {tmp_path}/late 2>/dev/null && exec sleep 11 ;;\n"
        "esac\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    fragile.fill()
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", str(python))
        done = fragile.run()
    register(spark)  # other tests have the same session
    assert (done.code, done.out) == (0, f"done: {2 * BATCH} rows in 2 batches\n"), done.err
    assert (tmp_path / "late").exists()
    said = "the pipeline was interrupted: a Python worker did not start in time; retrying for at most 600 s"
    assert done.err.count(said) == 1
    assert fragile.places() == sorted(fragile.store.records())
