"""`penstock serve` on a directory: the only process that writes it is the one that keeps it small."""

from pathlib import Path

import pytest

from penstock.database.migrations import migrate
from penstock.log.contract import Compaction, Keep
from penstock.log.store import open_store
from tests.crash.waiting import wait_until
from tests.kafka.served import ServedProcess
from tests.suites.records import a_record

SMALL = {"PENSTOCK_FILES_SEGMENT_BYTES": "4096", "PENSTOCK_RETENTION_INTERVAL": "0.05"}


def test_what_need_not_be_kept_goes_and_keys_are_compacted_while_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/log"
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    store = open_store(url)
    migrate(store.database)
    limited, compacted = (store.log.create_topic(name, partitions=1) for name in ("limited", "compacted"))
    store.log.retain(limited, Keep(-1, -1, 20))
    store.log.retain(compacted, Keep(-1, -1, -1))
    store.log.compact(compacted, Compaction(86_400_000))
    for number in range(60):
        for name in ("limited", "compacted"):
            store.log.append(name, [a_record(key=f"k{number % 4}", data=b"%03d" % number * 60)])
    store.close()
    with ServedProcess(url, env=SMALL) as served:
        reader = open_store(url)
        wait_until(lambda: reader.log.bounds("limited", 0).start == 40, "40 records are deleted")
        wait_until(lambda: list(tmp_path.rglob("compacted")), "a compaction is noted")
        records = reader.log.read("compacted", 0)
        reader.close()
        assert served.stop() == 0
    values = [(each.data or b"")[:3] for each in records]
    assert len(values) < 30
    assert values[-4:] == [b"056", b"057", b"058", b"059"]
