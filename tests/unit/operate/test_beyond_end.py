"""A log in files lost its end and its groups did not: they are named, and nothing new is passed over."""

from pathlib import Path

import pytest

from penstock import Outbox, Record
from penstock.log.files.log import FileLog
from penstock.log.store import open_store
from penstock.operate.restored import restored
from penstock.operate.stalls import examine_stalls
from penstock.operate.why.answer import Code
from penstock.operate.why.asking import why
from penstock.testing.records import a_record


def opened(path: Path, group: str) -> tuple[Outbox, list[str]]:
    outbox, seen = Outbox(open_store(f"{path}/log/")), list[str]()

    @outbox.handler("order.*", group=group, topic="t")
    def handle(record: Record) -> None:
        seen.append(record.id)

    return outbox, seen


def test_a_group_beyond_the_end_is_named_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    outbox, seen = opened(tmp_path, "ahead")
    outbox.migrate()
    outbox.log.create_topic("t", partitions=1)
    for number in range(30):
        outbox.log.append("t", [a_record(id=f"old-{number}", data=b"x" * 300)])
    outbox.drain()
    assert len(seen) == 30
    assert why(outbox.store, "ahead")[0].code is Code.DELIVERED
    outbox.close()
    *_, last = sorted(tmp_path.rglob("*.log"))
    for each in [last, *tmp_path.rglob("heads"), *tmp_path.rglob("*.index"), *tmp_path.rglob("*.snapshot")]:
        each.unlink()  # as when the directory was put back from a backup, and the SQLite file was not

    outbox, behind = opened(tmp_path, "behind")
    assert isinstance(outbox.log, FileLog)
    outbox.log.writer  # noqa: B018  # it finds out what the segments hold
    outbox.drain()
    end = outbox.log.bounds("t", 0).end
    assert len(behind) == end
    assert 0 < end < 30
    (answer,) = why(outbox.store, "ahead")
    assert answer.code is Code.BEYOND_END
    assert f"stands at offset 30 of t/0, and the log ends at {end}" in answer.sentence
    assert "penstock restored" in answer.commands
    assert why(outbox.store, "behind")[0].code is Code.DELIVERED
    told = [each for each in examine_stalls(outbox.store) if each.part == "Group ahead"]
    assert any("the log ends at" in each.found for each in told)

    restored(outbox.store)
    outbox.log.append("t", [a_record(id="new")])
    outbox.drain()
    assert behind[end:] == ["new"]
    outbox.close()
    outbox, seen = opened(tmp_path, "ahead")
    outbox.drain()
    assert seen == ["new"]
    assert why(outbox.store, "ahead")[0].code is Code.DELIVERED
    outbox.close()
