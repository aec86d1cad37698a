"""A broker over each kind of store in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.stores import *  # noqa: F403
from tests.kafka.served import Served

KINDS = ("sqlite", "postgres", "files")


@pytest.fixture(params=["sqlite", *(pytest.param(each, marks=pytest.mark.slow) for each in KINDS[1:])])
def kafka_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the address of an empty store of each kind."""
    if request.param == "files":
        return f"file://{tmp_path}/log"
    address: str = request.getfixturevalue(f"{request.param}_store")
    return address


@pytest.fixture
def served(kafka_url: str) -> Iterator[Served]:
    """Give a broker."""
    with Served(kafka_url, threads=4) as broker:
        yield broker
