"""What a worker of Spark imports to read and to write: there are ten for a pipeline, and each begins anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("pandas", "polars", "pyiceberg", "sqlalchemy", "penstock.app")


@pytest.mark.parametrize("module", ["source.data_source", "lake.sink", "writeback"])
def test_nothing_heavy_comes_with_what_reads_and_writes(module: str) -> None:
    told = f"print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, penstock.pipeline.{module}\n{told}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
