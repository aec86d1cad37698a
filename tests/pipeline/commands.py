"""Commands one after another in a process of its own, which keeps its Spark: to start one takes long.

`python -m tests.pipeline.commands MASTER CONF COMMAND…`: the settings of Spark and the words of each command
are JSON. After each command its exit code is said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.pipeline.conftest import ROOT, WORKERS_PATH


def begin(master: str, conf: dict[str, str], commands: Sequence[Sequence[str]], said: Path) -> subprocess.Popen[bytes]:
    """Start the commands; what they say goes to a file."""
    words = [json.dumps(each) for each in (conf, *([*words, "--master", master] for words in commands))]
    with said.open("wb") as sink:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.commands", master, *words],
            env=os.environ | {"PYTHONPATH": WORKERS_PATH},
            cwd=ROOT,
            stdout=sink,
            stderr=sink,
        )


def ended(code: int) -> str:
    """Return what is said when a command has ended."""
    return f"ended with {code}\n"


def main(master: str, conf: str, *commands: str) -> None:
    from penstock.cli import main as penstock
    from penstock.pipeline.session import spark_session

    spark = spark_session("commands", master=master, conf=json.loads(conf))
    for words in commands:
        try:
            penstock(json.loads(words))
        except SystemExit as left:
            print(ended(int(left.code or 0)), end="", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
