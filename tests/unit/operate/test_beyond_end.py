"""A log in files lost its end and its groups did not: they are named, and nothing new is passed over."""

import asyncio
import shutil
from pathlib import Path
from threading import Event

import pytest

from penstock import Outbox, Record
from penstock.errors import CursorBeyondEnd
from penstock.log.files.log import FileLog, _read_passed
from penstock.log.store import open_store
from penstock.operate.drop import restored
from penstock.operate.store_doctor import examine_stalls
from penstock.operate.why.answer import Code
from penstock.operate.why.question import why
from tests.suites.records import a_record


def opened(path: Path, group: str) -> tuple[Outbox, list[str]]:
    outbox, seen = Outbox(open_store(f"{path}/log/")), list[str]()

    @outbox.handler("order.*", group=group, topic="t")
    def handle(record: Record) -> None:
        seen.append(record.id)

    return outbox, seen


def test_a_group_beyond_the_end_is_named_and_others_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "is stopped: it stands at offset 30 of t/0" in answer.sentence
    assert f"the log has lost its records from offset {end}" in answer.sentence
    assert "penstock restored" in answer.commands
    assert why(outbox.store, "behind")[0].code is Code.DELIVERED
    told = [each for each in examine_stalls(outbox.store) if each.part == "Group ahead"]
    assert any("it is stopped" in each.found for each in told)

    # More comes than was lost: the others go on, and it stays stopped, also in the next process.
    new = [f"new-{number}" for number in range(40)]
    assert outbox.log.append("t", [a_record(id=each) for each in new])[0].offset == 30
    outbox.drain()
    assert behind[end:] == new
    outbox.close()
    for _ in range(2):
        outbox, seen = opened(tmp_path, "ahead")
        with pytest.raises(CursorBeyondEnd, match=r"group 'ahead' is stopped: it stands at offset 30 of t/0"):
            outbox.drain()
        assert not seen
        assert "it is stopped" in str(why(outbox.store, "ahead")[0])
        outbox.close()

    outbox, seen = opened(tmp_path, "ahead")
    restored(outbox.store)
    outbox.drain()
    assert seen == new
    assert why(outbox.store, "ahead")[0].code is Code.DELIVERED
    outbox.close()


def test_a_worker_stops_a_group_beyond_the_end_and_serves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox, seen = opened(tmp_path, "ahead")
    outbox.migrate()
    outbox.log.create_topic("t", partitions=1)
    outbox.log.append("t", [a_record(id=f"old-{number}") for number in range(3)])
    outbox.drain()
    outbox.close()
    shutil.rmtree(tmp_path / "log" / "topics")

    outbox, seen = opened(tmp_path, "ahead")
    others, done = list[str](), Event()

    @outbox.handler("order.*", group="others", topic="t")
    def handle(record: Record) -> None:
        others.append(record.id)
        if len(others) == 4:
            done.set()

    async def work() -> None:
        async with outbox.running():
            for number in range(4):
                outbox.log.append("t", [a_record(id=f"new-{number}")])
            assert await asyncio.to_thread(done.wait, 30)

    asyncio.run(work())
    assert seen == []
    assert "group 'ahead' is stopped: it stands at offset 3 of t/0" in caplog.text
    assert others == [f"new-{number}" for number in range(4)]
    restored(outbox.store)
    outbox.drain()
    assert seen == others
    outbox.close()


def test_what_was_done_behind_a_cursor_counts_as_passed(tmp_path: Path) -> None:
    outbox, seen = opened(tmp_path, "ahead")
    outbox.migrate()
    outbox.log.create_topic("t", partitions=1)
    failing = True

    @outbox.handler("shop.*", group="stuck", topic="t")
    def handle(record: Record) -> None:
        seen.append(record.id)
        if failing and record.id == "0":
            raise ValueError("later")

    outbox.log.append("t", [a_record(f"k{n}", id=str(n), type="shop.sold") for n in range(6)])
    outbox.drain()
    assert _read_passed(outbox.database, outbox.log.topic("t").id, 0) == 6
    outbox.close()


def test_a_group_ahead_of_the_tail_in_interval_mode_goes_on_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen what the power cut took; new records stand behind the reservation, so it is not stopped."""
    monkeypatch.setenv("PENSTOCK_FILES_DURABILITY", "interval")
    monkeypatch.setenv("PENSTOCK_FILES_INTERVAL_SECONDS", "1000")
    outbox, seen = opened(tmp_path, "ahead")
    outbox.migrate()
    outbox.log.create_topic("t", partitions=1)
    outbox.log.append("t", [a_record(id=f"old-{number}") for number in range(5)])
    outbox.drain()
    assert len(seen) == 5
    cut = tmp_path / "cut"
    shutil.copytree(tmp_path / "log", cut / "log")
    outbox.close()
    (segment,) = cut.rglob("*.log")
    segment.write_bytes(segment.read_bytes()[:128])  # what was not synced
    for each in cut.rglob("heads"):
        each.unlink()

    outbox, seen = opened(cut, "ahead")
    (first,) = outbox.log.append("t", [a_record(id="new")])
    assert first.offset > 5
    outbox.drain()
    assert seen == ["new"]
    assert why(outbox.store, "ahead")[0].code is Code.DELIVERED
    outbox.close()
