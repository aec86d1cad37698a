"""Damage that Kafka clients meet: they are told a number, and people are told where it is."""

import logging
from pathlib import Path

import pytest

from penstock.log.sql.migrations import migrate
from penstock.log.store import open_store
from penstock.testing.records import a_record
from penstock.wire.kafka.apis.records import FETCH
from penstock.wire.kafka.error_numbers import ErrorNumber
from tests.kafka.raw import RawClient
from tests.kafka.served import Served


def test_damage_is_logged_once_however_often_clients_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"file://{tmp_path}/log"
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    store = open_store(url)
    migrate(store.database)
    store.log.create_topic("t", partitions=1)
    for number in range(30):
        store.log.append("t", [a_record(data=b"%03d" % number * 200)])
    store.close()
    first = min(tmp_path.rglob("*.log"))
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)

    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    asked = {"replica_id": -1, "max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
    numbers = []
    with (
        caplog.at_level(logging.ERROR, logger="penstock.broker"),
        Served(url) as served,
        RawClient(served.address) as client,
    ):
        for offset in (0, 1, 2, 3, 4, 5) * 2:
            topics = [{"topic": "t", "partitions": [part | {"fetch_offset": offset}]}]
            answer = client.ask(FETCH, {**asked, "topics": topics}, 4)
            numbers.append(answer["responses"][0]["partitions"][0]["error_code"])
    assert numbers[0] == ErrorNumber.NONE  # what stands before it is served
    assert numbers.count(ErrorNumber.KAFKA_STORAGE_ERROR) >= 2
    (line,) = [each.getMessage() for each in caplog.records if "is damaged at byte" in each.getMessage()]
    assert first.stem in line
