"""Several processes and one log in files: one writes, the others read what it has published."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.database.migrations import migrate
from penstock.errors import LogMismatch, NoOutbox, WriterElsewhere
from penstock.log.contract import Batch, OffsetRange, Position, Producer
from penstock.log.entry import Content
from penstock.log.files.disk import Disk
from penstock.log.files.log import FileLog
from penstock.log.store import Store, open_store
from penstock.operate import log_files
from penstock.operate.drop import restored
from tests.suites.records import a_record, some_records

# Reads what another process writes, on the words that it is given; `append` tries what only the writer may.
READER = """
import json, sys
from penstock.errors import Error
from penstock.log.store import open_store
from penstock.model.record import Record
log = open_store(sys.argv[1]).log
for line in sys.stdin:
    try:
        if line.strip() == "append":
            log.append("t", [Record("r", "k", b"{}", "t", (), 1)])
        records = [[each.id, each.offset] for each in log.read("t", 0, log.bounds("t", 0).start)]
        print(json.dumps({"bounds": log.bounds("t", 0), "records": records}), flush=True)
    except Error as exc:
        print(json.dumps(str(exc)), flush=True)
"""


class Reader:
    """A process that reads."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, word: str = "read") -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.communicate(timeout=30)


def opened(path: Path) -> Store:
    store = open_store(f"{path}/")
    migrate(store.database)
    return store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    found = opened(tmp_path / "log")
    yield found
    found.close()


@pytest.fixture
def reader(store: Store, tmp_path: Path) -> Iterator[Reader]:
    found = Reader(f"{tmp_path}/log/")
    yield found
    found.close()


def test_another_process_reads_what_is_published_through_rolls_trims_and_erasures(store: Store, reader: Reader) -> None:
    topic = store.log.create_topic("t", partitions=1)
    assert '"records": []' in reader.ask()
    for turn in range(4):
        store.log.append("t", some_records(20, data=b"x" * 100))
        bounds = store.log.bounds("t", 0)
        expected = [[each.id, each.offset] for each in store.log.read("t", 0, bounds.start)]
        import json

        assert json.loads(reader.ask()) == {"bounds": list(bounds), "records": expected}, turn
        store.log.trim(topic, [OffsetRange(0, bounds.start, bounds.start + 7)])
        store.log.erase(topic, [Position(0, bounds.start + 10)])
        bounds = store.log.bounds("t", 0)
        expected = [[each.id, each.offset] for each in store.log.read("t", 0, bounds.start)]
        assert json.loads(reader.ask()) == {"bounds": list(bounds), "records": expected}, turn


def test_a_segment_that_goes_between_a_look_and_the_read_of_it_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's retention removed one just then, and who had listed it met FileNotFoundError."""
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    with closing(opened(tmp_path / "log")) as store:
        store.log.create_topic("t", partitions=1)
        for number in range(60):
            store.log.append("t", [a_record(data=b"%03d" % number * 60)])
    names: Callable[[Disk, Path], list[str]] = Disk.names
    gone: list[str] = []

    def names_before(disk: Disk, folder: Path) -> list[str]:
        found = names(disk, folder)
        segments = sorted(each for each in found if each.endswith(".log"))
        if not gone and len(segments) > 1:
            (folder / segments[0]).unlink()
            gone.append(segments[0])
        return found

    monkeypatch.setattr(Disk, "names", names_before)
    with closing(open_store(f"{tmp_path}/log/")) as reader:
        assert reader.log.bounds("t", 0).end == 60
    assert gone


def test_only_the_process_that_writes_may_append_and_the_others_are_told_which_it_is(
    store: Store, reader: Reader
) -> None:
    store.log.create_topic("t", partitions=1)
    store.log.append("t", [a_record()])
    assert f"process {os.getpid()} writes the log in" in reader.ask("append")
    store.log.close()
    assert '"bounds": [0, 2]' in reader.ask("append"), "once it has stopped, the next one writes"
    other = open_store(store.url)
    with pytest.raises(WriterElsewhere):
        other.log.append("t", [a_record()])
    other.close()


def test_all_who_open_a_directory_in_one_process_share_its_writer(store: Store, tmp_path: Path) -> None:
    store.log.create_topic("t", partitions=1)
    store.log.append("t", [a_record()])
    other = open_store(f"file://{tmp_path}/log")
    assert other.log.append("t", [a_record()]) == [(0, 1)]
    other.close()
    assert store.log.append("t", [a_record()]) == [(0, 2)]


def test_nothing_can_be_published_beside_a_log_in_files(tmp_path: Path) -> None:
    outbox = Outbox(f"{tmp_path}/log/")
    outbox.migrate()
    with closing(sqlite3.connect(tmp_path / "log" / "penstock.db")) as conn:
        conn.execute("BEGIN")
        with pytest.raises(NoOutbox, match=r"publish needs an outbox in a database.*outbox\.log\.append"):
            outbox.publish(conn, "order.placed", {"id": 1})
        with pytest.raises(NoOutbox):
            outbox.cancel(conn, "x")
    with pytest.raises(NoOutbox, match="a schedule needs an outbox"):
        outbox.periodic("hourly", 3600, type="t")
    with pytest.raises(NoOutbox, match="a schedule needs an outbox"):
        outbox.every(3600, type="t")
    with pytest.raises(NoOutbox, match="transaction=True needs an outbox"):
        outbox.handler("order.*", group="g", transaction=True)
    outbox.close()


def test_handlers_get_what_was_appended(tmp_path: Path) -> None:
    outbox = Outbox(f"{tmp_path}/log/")
    outbox.migrate()
    outbox.log.create_topic("events", partitions=4)
    seen: list[str] = []

    @outbox.handler("order.placed", group="g")
    def take(record):  # type: ignore[no-untyped-def]
        seen.append(record.id)

    records = [a_record(f"k{number}", id=f"{number}") for number in range(50)]
    outbox.log.append("events", records)
    assert outbox.drain().delivered == 50
    assert sorted(seen) == sorted(each.id for each in records)
    assert outbox.drain().delivered == 0
    outbox.close()


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "delete", "events", "--yes"],
        ["topics", "clear", "events", "--yes"],
        ["topics", "grow", "events", "--partitions", "2"],
        ["erase", "me", "--yes"],
        ["retain"],
        ["restored", "--yes"],
    ],
    ids=lambda words: " ".join(words),
)
def test_what_only_the_writer_may_do_is_refused_before_anything_changes(command: list[str], tmp_path: Path) -> None:
    outbox = Outbox(f"{tmp_path}/log/")
    outbox.migrate()
    outbox.log.create_topic("events", partitions=1)
    seen: list[str] = []
    outbox.handler(None, group="g", id="g")(lambda record: seen.append(record.id))
    outbox.log.append_all([Batch("events", [Content("1", None, "t", b"1", None, 1, owner="me")])])
    assert outbox.drain().delivered == 1
    with closing(sqlite3.connect(tmp_path / "log" / "penstock.db")) as conn:
        before = [*conn.iterdump()]
    program = "import sys; from penstock.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, *command, "--url", f"{tmp_path}/log/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert f"process {os.getpid()} writes the log in" in done.stderr
    with closing(sqlite3.connect(tmp_path / "log" / "penstock.db")) as conn:
        assert [*conn.iterdump()] == before
    assert outbox.drain().delivered == 0
    assert seen == ["1"]
    outbox.close()


# -- the two that belong together


def copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def test_a_directory_put_back_beside_newer_tables_is_refused_until_somebody_accepts_it(tmp_path: Path) -> None:
    for put_back in ("tables", "segments"):
        path, backup = tmp_path / put_back, tmp_path / f"backup of {put_back}"
        for turn in range(2):
            store = opened(path)
            store.log.create_topic("t", partitions=1)
            store.log.append("t", some_records(3))
            store.close()
            if turn == 0:
                copied(path, backup)
        kept = (path / "penstock.db").read_bytes()
        if put_back == "tables":
            (path / "penstock.db").write_bytes((backup / "penstock.db").read_bytes())
        else:
            copied(backup, path)
            (path / "penstock.db").write_bytes(kept)
        store = opened(path)
        with pytest.raises(LogMismatch, match=r"is older than the other.*penstock restored"):
            store.log.append("t", [a_record()])
        before = store.log.identity()
        assert len(store.log.read("t", 0)) >= 3, "reading is not refused"
        raised = restored(store)
        assert raised > before.incarnation
        assert store.log.append("t", [a_record()])[0].offset >= 3
        assert store.log.identity() == (before.id, raised)
        store.close()


def test_tables_that_do_not_know_a_topic_of_the_segments_are_refused_until_somebody_accepts_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    store = opened(path)
    for name in ("deleted", "kept"):
        store.log.create_topic(name, partitions=1)
        store.log.append(name, some_records(3))
    with closing(sqlite3.connect(path / "penstock.db")) as conn, closing(sqlite3.connect(tmp_path / "old")) as old:
        conn.backup(old)
    store.log.delete_topic("deleted")
    store.log.create_topic("newer", partitions=1)  # in the same start of the writer: the marks are the same
    store.log.append("newer", some_records(5))
    store.close()
    for each in path.glob("penstock.db*"):
        each.unlink()
    shutil.copy(tmp_path / "old", path / "penstock.db")
    store = opened(path)
    with pytest.raises(LogMismatch, match=r"do not know a topic that has segments.*penstock restored"):
        store.log.append("kept", [a_record()])
    with pytest.raises(LogMismatch, match="do not know a topic"):
        store.log.check_parts()
    found = log_files.verify(f"{path}/", log_files.log_folders(f"{path}/")).findings
    assert [each.file for each in found if "do not know a topic" in each.why] == ["penstock.db"]
    restored(store)
    store.log.append("kept", [a_record()])
    store.log.create_topic("another", partitions=1)
    assert store.log.read("another", 0) == [], "it does not take over the segments"
    store.close()


def test_the_folder_of_a_deleted_topic_is_not_taken_for_one_of_newer_segments(tmp_path: Path) -> None:
    store = opened(tmp_path / "log")
    store.log.create_topic("t", partitions=1)
    store.log.append("t", some_records(3))
    assert isinstance(store.log, FileLog)
    store.log.tables.delete_topic("t")  # and the process dies before it removes the files
    store.close()
    store = opened(tmp_path / "log")
    store.log.create_topic("t", partitions=1)
    store.log.append("t", some_records(1))
    store.close()


def test_a_group_that_is_ahead_of_segments_put_back_misses_nothing_that_comes_later(tmp_path: Path) -> None:
    path, backup = tmp_path / "log", tmp_path / "backup"
    seen: list[str] = []

    def work(*ids: str, accept: bool = False) -> None:
        outbox = Outbox(f"{path}/")
        outbox.migrate()
        outbox.log.create_topic("events", partitions=1)
        outbox.handler(None, group="g", id="g")(lambda record: seen.append(record.id))
        if accept:
            restored(outbox)
        outbox.log.append("events", [a_record(id=each) for each in ids])
        outbox.drain()
        outbox.close()

    work("a", "b")
    copied(path, backup)
    work("c", "d", "e")
    tables = (path / "penstock.db").read_bytes()
    copied(backup, path)
    (path / "penstock.db").write_bytes(tables)
    work("f", "g", accept=True)
    assert seen == ["a", "b", "c", "d", "e", "f", "g"]
    store = opened(path)
    assert [each.offset for each in store.log.read("events", 0)] == [0, 1, 5, 6]
    store.close()


def test_segments_of_another_log_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        store = opened(tmp_path / name)
        store.log.create_topic("t", partitions=1)
        store.log.append("t", [a_record()])
        store.close()
    shutil.copyfile(tmp_path / "a" / "penstock.db", tmp_path / "b" / "penstock.db")
    store = opened(tmp_path / "b")
    with pytest.raises(LogMismatch, match="the segments are of log"):
        store.log.append("t", [a_record()])
    store.close()
    (tmp_path / "b" / "identity").unlink()
    store = opened(tmp_path / "b")
    with pytest.raises(LogMismatch, match="`identity` is missing"):
        store.log.append("t", [a_record()])
    store.close()


def test_a_damaged_identity_is_refused_by_name(tmp_path: Path) -> None:
    store = opened(tmp_path / "a")
    store.log.create_topic("t", partitions=1)
    store.log.append("t", [a_record()])
    store.close()
    (tmp_path / "a" / "identity").write_bytes(b'{"log_id": "x"')
    store = opened(tmp_path / "a")
    with pytest.raises(LogMismatch, match="`identity` is damaged"):
        store.log.append("t", [a_record()])
    store.close()


# -- named producers, over a crash in the middle of an append


def test_of_an_append_that_was_cut_short_that_part_is_known_which_is_there(store: Store) -> None:
    log = store.log
    assert isinstance(log, FileLog)
    topic = log.create_topic("t", partitions=2)
    contents = [Content(f"{number}", None, "t", b"v", None, 1) for number in range(4)]
    log.append_all([Batch("t", contents[:2], 0, Producer("p", 1, 0))])
    batches = [Batch("t", contents[2:], None, Producer("p", 1, 2))]
    topics = {"t": (topic, 0)}
    log._notes.intend(batches, [None], [[_Part(0), _Part(1)]], topics)
    log.append_all([Batch("t", contents[3:], 1)])  # what the crash has left of it
    last = log.last_batch("p")
    assert last is not None
    assert (last.sequence, last.ids, last.positions) == (2, ("3",), ((1, 0),))
    (given,) = log.append_all([Batch("t", contents[2:3], 0, Producer("p", 1, 3))])
    assert given == [(0, 2)]
    log._notes.intend([Batch("t", contents[:1], 0, Producer("p", 1, 4))], [None], [[_Part(0)]], topics)
    last = log.last_batch("p")
    assert last is not None
    assert (last.sequence, last.ids) == (4, ()), "nothing of it is there"
    assert log.append_all([Batch("t", contents[:1], 0, Producer("p", 1, 4))]) == [[(0, 3)]]


class _Part:
    def __init__(self, partition: int) -> None:
        self.partition = partition
