"""The same conversation with Apache Kafka and with Penstock: what differs is meant, and written down.

What Apache Kafka answered is kept beside the script; the long set asks it again.
"""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.wire.kafka.apis import APIS
from tests.kafka.apache import ApacheKafka, apache_kafka  # noqa: F401
from tests.kafka.conversation.compare import differences, kept
from tests.kafka.conversation.script import held_with
from tests.kafka.served import Served

PAGE = Path(__file__).parents[2] / "docs/reference/kafka-differences.md"
_ROW = re.compile(r"^\| ([\w ]+/.+?) \| (.*?) \| (.*?) \| (.*?) \|$", re.M)
SLOW_CHAPTER = "growing"  # a topic that grows waits some seconds until everybody has heard of it
EVERYWHERE, IN_FILES, IN_A_DATABASE = "every store", "files", "a database"


def meant(kind: str) -> dict[str, tuple[str, str]]:
    """Return what the page says of a kind of store."""
    rows = _ROW.findall(PAGE.read_text("utf-8"))
    found = {step: (theirs, ours) for step, where, theirs, ours in rows if where in (EVERYWHERE, kind)}
    assert len(found) == sum(where in (EVERYWHERE, kind) for _, where, _, _ in rows), "a step stands there twice"
    return found


def test_a_database_answers_as_the_page_says(sqlite_store: str) -> None:
    def others(steps: dict[str, Any]) -> dict[str, Any]:
        return {step: each for step, each in steps.items() if not step.startswith(f"{SLOW_CHAPTER}/")}

    with Served(sqlite_store, partitions=1, join_delay=timedelta(0)) as served:
        found = differences(others(kept()), held_with(served.address, without=[SLOW_CHAPTER]))
    assert found == others(meant(IN_A_DATABASE))


@pytest.mark.slow
def test_answers_differ_from_apache_kafkas_where_the_page_says_so(kafka_url: str) -> None:
    with Served(kafka_url, partitions=1, join_delay=timedelta(0)) as served:
        found = differences(kept(), held_with(served.address))
    kind = IN_FILES if kafka_url.startswith("file:") else IN_A_DATABASE
    assert found == meant(kind)


def test_the_conversation_is_a_long_one() -> None:
    assert len(kept()) >= 400


def test_no_version_is_offered_that_apache_kafka_does_not_have() -> None:
    theirs = {key: (low, high) for key, low, high in kept()["versions/all of them"]}
    for api in APIS.values():
        low, high = theirs[api.key]
        assert low <= api.versions[0] <= api.versions[1] <= high, api.name


@pytest.mark.slow
def test_apache_kafka_answers_as_it_is_kept(apache_kafka: ApacheKafka) -> None:  # noqa: F811
    assert differences(kept(), held_with(apache_kafka.address)) == {}
