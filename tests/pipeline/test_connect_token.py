"""The address of a Spark Connect server may hold a token: it stands in nothing that a user is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.errors import InvalidOption
from penstock.pipeline.address import check_reach, said_of, without_token
from tests.pipeline.conftest import ROOT, WORKERS_PATH

# In a process of its own: Spark keeps the address of a server that was asked for.
ASKED = """
import sys, traceback
from penstock.errors import SparkNotStarted
from penstock.pipeline import spark_session
try:
    spark_session("told", master=sys.argv[1])
except SparkNotStarted as exc:
    print(exc)
    traceback.print_exc()
"""


@pytest.mark.parametrize(
    "server",
    [
        "sc://host:15002/;token=canary",
        "sc://host:15002/;use_ssl=true;token=canary;user_id=me",
        "sc://host:15002;token=canary",
        "sc://host:15002/;canary",
    ],
)
def test_the_command_names_the_server_without_it(server: str) -> None:
    assert without_token(server) == "sc://host:15002"
    assert without_token("sc://host:15002") == "sc://host:15002"
    with pytest.raises(InvalidOption, match=r"sc://host:15002") as refused:
        check_reach("postgresql://host/shop", server)
    assert "canary" not in str(refused.value)
    assert said_of(server, f"no answer from {server}") == "no answer from sc://host:15002"


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("sc:///;token=canary", "Hostname is missing"),
        ("sc://host:15002/;token=canary=", "key-value pair"),
        ("sc://host:15002/;canary", "key-value pair"),
    ],
)
def test_what_spark_says_of_the_address_is_told_without_it(server: str, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED, server],
        env=os.environ | {"PYTHONPATH": WORKERS_PATH},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told in done.stdout
    assert "SparkNotStarted" in done.stderr
    assert "canary" not in done.stdout + done.stderr
