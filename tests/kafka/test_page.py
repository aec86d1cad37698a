"""The snippets of the page "Use Kafka clients" run as they are, at another address."""

import re
from pathlib import Path

import pytest

from tests.kafka.served import Served

PAGE = Path(__file__).parents[2] / "docs/how-to/kafka-clients.md"
_SNIPPET = re.compile(r"<!-- client: (\w+) -->\n```text\n(.*?)```", re.S)


def test_the_snippets_run_as_they_are(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    found = dict(_SNIPPET.findall(PAGE.read_text("utf-8")))
    assert found.keys() == {"confluent", "admin"}
    for name in ("admin", "confluent"):
        exec(found[name].replace("127.0.0.1:9092", served.address), {})
    assert capsys.readouterr().out.strip() == """b'o-1' b'{"total": 42}'"""
