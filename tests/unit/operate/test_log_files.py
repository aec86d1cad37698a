"""`penstock log verify|repair-index|dump`: every kind of damage is named, nothing sound is."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from penstock.cli import main
from penstock.database.migrations import migrate
from penstock.errors import InvalidUrl, UnknownTopic, WriterElsewhere
from penstock.log.files.disk import WriterLock
from penstock.log.files.log import FileLog
from penstock.log.files.settings import FilesSettings
from penstock.log.files.verify import Kind
from penstock.log.store import Store, open_store
from penstock.operate import log_files
from penstock.operate.log_files import Verified
from tests.suites.records import a_record
from tests.suites.refusal import refusal
from tests.unit.log.files.unreadable import refuse_segments

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give a log of two partitions and several segments, open for writing."""
    store = open_store(f"{tmp_path}/log/")
    assert isinstance(store.log, FileLog)
    store.log.directory.settings = FilesSettings.load(segment_bytes=4096, durability="os")
    migrate(store.database)
    store.log.create_topic("events", partitions=2)
    for turn in range(12):
        records = [a_record(key=f"k{number}", data=b"%d" % turn * 100) for number in range(6)]
        store.log.append("events", records)
    return store


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> str:
    """Give the same log, closed."""
    store.close()
    return f"{tmp_path}/log"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run a command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, list(args))
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def verified(folder: str) -> Verified:
    return log_files.verify(folder, log_files.log_folders(folder))


def segments(folder: str) -> list[Path]:
    return sorted(Path(folder).glob("topics/*/0/*.log"))


def test_a_sound_log_has_no_findings(folder: str) -> None:
    found = verified(folder)
    assert found.is_sound
    assert not found.findings
    assert found.walked.records == 72
    assert found.walked.segments > 4


def test_a_log_that_nobody_has_written_yet_is_empty_and_whole(run: Run, tmp_path: Path) -> None:
    fresh = f"{tmp_path}/fresh"
    assert run("migrate", "--url", fresh)[0] == 0
    assert run("log", "verify", fresh)[:2] == (0, "nothing has been written yet, and nothing is damaged\n")
    assert run("topics", "create", "t", "--url", fresh)[0] == 0
    assert run("log", "verify", fresh)[0] == 0


def test_a_log_whose_topics_are_gone_is_not_taken_for_an_empty_one(folder: str, run: Run) -> None:
    rmtree(f"{folder}/topics")
    assert run("log", "verify", folder)[0] == 3


def test_a_log_that_is_being_written_is_verified_as_far_as_it_is(store: Store, tmp_path: Path) -> None:
    found = verified(f"{tmp_path}/log")
    assert found.is_sound
    assert found.walked.records == 72
    store.close()


def test_every_flipped_bit_of_a_segment_is_found_and_the_rest_is_still_walked(folder: str) -> None:
    path = segments(folder)[1]
    content = path.read_bytes()
    whole = verified(folder).walked.batches
    for at in [*range(0, 190), *range(190, len(content), 97)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
        found = verified(folder)
        assert not found.is_sound, f"byte {at}"
        first = next(each for each in found.findings if each.kind is Kind.DAMAGE)
        assert first.file.endswith(path.name) or at < 128, f"byte {at}: {first}"
        assert found.walked.batches >= whole - 1, f"byte {at}"
    path.write_bytes(content)
    assert verified(folder).is_sound


def test_damage_in_the_last_segment_before_what_was_synced_is_no_torn_tail(folder: str) -> None:
    path = segments(folder)[-1]
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    assert not verified(folder).is_sound


def test_a_torn_tail_is_a_note(folder: str) -> None:
    path = segments(folder)[-1]
    with path.open("r+b") as file:
        file.seek(path.stat().st_size)
        file.write(b"half a batch that nobody was told of")
    found = verified(folder)
    assert found.is_sound
    assert ["torn" in each.why for each in found.findings] == [True]


def test_a_missing_segment_is_damage(folder: str) -> None:
    segments(folder)[1].unlink()
    assert any("missing" in each.why for each in verified(folder).findings)


def test_a_damaged_index_is_a_note_and_is_repaired(folder: str, run: Run) -> None:
    path = next(iter(sorted(Path(folder).glob("topics/*/0/*.index"))))
    before = path.read_bytes()
    path.write_bytes(before[:-5] + b"\xff" * 5)
    found = verified(folder)
    assert found.is_sound
    assert [each.kind for each in found.findings] == [Kind.NOTE]
    code, out, _ = run("log", "repair-index", folder, "--json")
    assert (code, json.loads(out)["differed"]) == (0, 1)
    assert path.read_bytes() == before


def test_indexes_are_not_repaired_under_a_writer(folder: str) -> None:
    lock = WriterLock(Path(folder))
    error = refusal(WriterElsewhere, log_files.repair_index, folder, log_files.log_folders(folder))
    assert str(os.getpid()) in str(error)
    lock.release()


def test_verify_prints_damage_with_segment_byte_and_offset_and_exits_with_1(folder: str, run: Run) -> None:
    assert run("log", "verify", folder)[:2] == (0, verify_line(folder))
    path = segments(folder)[0]
    content = bytearray(path.read_bytes())
    content[140] ^= 4
    path.write_bytes(content)
    code, out, _ = run("log", "verify", folder)
    assert code == 1
    assert out.startswith("damage: ")
    assert f"{path.name} (topic events, partition 0) at byte 128, offset 0" in out
    code, out, _ = run("log", "verify", folder, "--json")
    assert (code, json.loads(out)["sound"]) == (1, False)


def verify_line(folder: str) -> str:
    found = verified(folder).walked
    return (
        f"{found.batches} batches with 72 records, {found.bytes / 1000:.1f} kB, in {found.segments} segments "
        "of 2 partitions: nothing is damaged\n"
    )


def test_dump_shows_batches_and_records(folder: str, run: Run) -> None:
    code, out, _ = run("log", "dump", folder, "--partition", "0", "--records", "--json", "--limit", "1000")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    offsets = [record["offset"] for row in rows for record in row["records_list"]]
    assert offsets == list(range(len(offsets)))
    assert {row["topic"] for row in rows} == {"events"}
    late = run("log", "dump", folder, "--partition", "0", "--from", "12", "--limit", "1")[1]
    assert "offsets 12 to" in late


def test_dump_shows_a_time_that_no_calendar_has(store: Store, tmp_path: Path, run: Run) -> None:
    store.log.create_topic("odd", partitions=1)
    store.log.append("odd", [a_record(timestamp_ms=1 << 62)])
    (record,) = store.log.read("odd", 0)
    assert record.timestamp.year == 9999
    store.close()
    code, out, _ = run("log", "dump", f"{tmp_path}/log", "--topic", "odd")
    assert code == 0
    assert "9999-12-31" in out


def test_a_partition_that_is_not_there_is_refused_with_those_that_are(folder: str, run: Run) -> None:
    store = open_store(f"{folder}/")
    store.log.create_topic("wide", partitions=8)
    store.close()
    said = "topic 'wide' has partitions 0 to 7, not 77"
    assert said in run("log", "verify", folder, "--partition", "77")[2]
    assert said in run("log", "verify", folder, "--topic", "wide", "--partition", "77")[2]
    assert "0 to 1, not 2" in run("log", "verify", folder, "--topic", "events", "--partition", "2")[2]
    assert run("log", "verify", folder, "--topic", "wide", "--partition", "3")[0] == 0, "it holds nothing yet"


def test_dropping_the_tables_of_a_directory_says_what_is_lost(folder: str, run: Run) -> None:
    code, out, _ = run("drop", "--url", folder, "--yes")
    assert code == 0
    assert "1 topics, 72 records" in out
    assert f"the segments stay in {folder}" in out


def test_what_is_no_log_in_files_is_refused(folder: str, tmp_path: Path, run: Run) -> None:
    refusal(InvalidUrl, log_files.log_folders, f"sqlite:///{tmp_path}/shop.db")
    refusal(UnknownTopic, log_files.log_folders, folder, "nope")
    assert run("log", "verify", f"{tmp_path}/nothing/")[0] == 3


def test_verify_names_a_file_that_it_may_not_read_and_goes_on(
    folder: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_segments(monkeypatch, 0)
    code, said, complained = run("log", "verify", folder)
    assert code == 1
    assert "unreadable: " in said
    assert "/0/00000000000000000000.log (topic events, partition 0): it cannot be read: Permission" in said
    assert "chmod u+r" in said
    assert "of 2 partitions: nothing is damaged; files that cannot be read: 1" in said
    assert "PermissionError" not in complained
    assert 0 < verified(folder).walked.records < 72


def test_the_doctor_names_a_file_that_it_may_not_read_and_goes_on(
    folder: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_segments(monkeypatch, 0)
    _, said, complained = run("doctor", "--url", folder)
    assert complained == ""
    assert "/0/00000000000000000000.log: it cannot be read: Permission denied" in " ".join(said.split())
    assert "Bell" in said
