"""Files that are gone, or of another time, while nobody writes: readers, verify and reconcile say so."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from penstock import Outbox, Record
from penstock.errors import Damaged, LogMismatch
from penstock.log.files.log import FileLog
from penstock.log.files.verify import Finding, Kind, PartitionWalk, partition_folders, topic_folders
from penstock.log.store import open_store
from penstock.operate.reconcile import reconcile
from penstock.operate.reset import reset
from tests.suites.records import a_record

COUNT = 120


def filled(path: Path, *, base: int = 0) -> None:
    """Append records to topic `orders`, in two partitions of several segments each."""
    with closing(Outbox(f"file://{path}")) as outbox:
        outbox.migrate()
        outbox.log.create_topic("orders", partitions=2)
        for first in range(base, base + COUNT, 10):
            records = [
                Record(f"id-{each}", f"k{each % 5}", b"v", "order.placed", (), 1_700_000_000_000 + each)
                for each in range(first, first + 10)
            ]
            outbox.log.append("orders", records)


def drained(path: Path) -> tuple[list[str], Exception | None]:
    """Drain group g; return what it was handed, and how the drain ended."""
    ids = list[str]()
    with closing(Outbox(f"file://{path}")) as outbox:
        outbox.handler(group="g", topic="orders", id="h")(lambda record: ids.append(record.id))
        try:
            outbox.drain()
        except Exception as exc:
            return ids, exc
    return ids, None


def findings(path: Path) -> list[Finding]:
    return [
        each
        for topic, folder in topic_folders(path).items()
        for partition in partition_folders(topic, folder)
        for each in PartitionWalk(partition, written=False)
    ]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory with records, which nobody writes."""
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    filled(tmp_path / "data")
    return tmp_path / "data"


def cut_in_its_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def ids_in(path: Path, partition: int) -> set[str]:
    with closing(Outbox(f"file://{path}")) as outbox:
        return {each.id for each in outbox.log.read("orders", partition, 0)}


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("change", [Path.unlink, cut_in_its_header])
def test_a_lost_segment_is_named_by_everybody_and_no_cursor_passes_it(
    path: Path, which: int, partition: int, change: Callable[[Path], None], tmp_path: Path
) -> None:
    assert not [each for each in findings(path) if each.kind is Kind.DAMAGE]
    segment = sorted(path.glob(f"topics/*/{partition}/*.log"))[which]
    others = ids_in(path, 1 - partition)
    shutil.copyfile(segment, tmp_path / "saved")
    change(segment)
    (found,) = [each for each in findings(path) if each.kind is Kind.DAMAGE and each.position == 0][:1]
    assert found.file.endswith(segment.name)
    first, error = drained(path)
    assert isinstance(error, Damaged)
    assert segment.name in str(error)
    assert f"penstock groups reset GROUP --partition {partition} --to OFFSET" in str(error)
    assert others <= set(first), "the other partition goes on"
    assert len(first) == len(others) + int(segment.stem)
    with closing(Outbox(f"file://{path}")) as outbox:
        compared = reconcile(outbox, "orders")
        assert not compared.agrees
        assert f"partition {partition}, {int(segment.stem)} to before" in str(compared.figures)
        assert "not in the log" in str(compared.figures)
    shutil.copyfile(tmp_path / "saved", segment)
    second, error = drained(path)
    assert error is None
    assert sorted(first + second) == sorted(f"id-{each}" for each in range(COUNT))


def test_a_partition_without_any_segment_is_damage(path: Path) -> None:
    shutil.rmtree(next(path.glob("topics/*/0")))
    assert [each.partition for each in findings(path) if each.kind is Kind.DAMAGE] == [0]
    with closing(Outbox(f"file://{path}")) as outbox:
        assert outbox.log.bounds("orders", 0).end > 0
        with pytest.raises(Damaged):
            outbox.log.read("orders", 0, 0)


def test_what_was_trimmed_is_not_missing_whatever_an_old_head_says(path: Path) -> None:
    (heads,) = path.glob("topics/*/heads")
    old = heads.read_bytes()
    with closing(Outbox(f"file://{path}")) as outbox:
        topic = outbox.log.topic("orders")
        outbox.log.clear(topic)
    filled(path, base=COUNT)
    heads.write_bytes(old)
    assert drained(path) == ([], None)  # an old head says nothing of what came after it
    filled(path, base=2 * COUNT)
    assert sorted(drained(path)[0]) == sorted(f"id-{each}" for each in range(COUNT, 3 * COUNT))


def test_a_group_goes_on_behind_damage_when_it_is_told_to(path: Path) -> None:
    segment, following = sorted(path.glob("topics/*/0/*.log"))[:2]
    segment.unlink()
    first, error = drained(path)
    assert isinstance(error, Damaged)
    assert f"offsets 0 to before {int(following.stem)}" in str(error)
    store = open_store(f"file://{path}")
    reset(store, "g", topic="orders", to=int(following.stem), partition=0)
    store.close()
    second, error = drained(path)
    assert error is None
    assert len(first + second) == COUNT - int(following.stem)


# -- heads


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"x" * 128)])
def test_lost_heads_are_found_again_in_the_segments(path: Path, change: Callable[[Path], None]) -> None:
    with closing(Outbox(f"file://{path}")) as outbox:
        bounds = [outbox.log.bounds("orders", number) for number in range(2)]
    (heads,) = path.glob("topics/*/heads")
    change(heads)
    with closing(Outbox(f"file://{path}")) as outbox:
        assert [outbox.log.bounds("orders", number) for number in range(2)] == bounds
        assert f"logged={COUNT}" in reconcile(outbox, "orders").line()
    assert {each.file.split("/")[-1] for each in findings(path)} == {"heads"}
    ids, error = drained(path)
    assert error is None
    assert len(ids) == COUNT


# -- backups of two times


@pytest.mark.parametrize("of", ["tables", "segments"])
def test_parts_of_two_times_are_settled_by_nobody(path: Path, tmp_path: Path, of: str) -> None:
    shutil.copytree(path, tmp_path / "backup")
    assert len(drained(path)[0]) == COUNT
    filled(path, base=COUNT)
    assert len(drained(path)[0]) == COUNT
    if of == "tables":
        shutil.copyfile(tmp_path / "backup/penstock.db", path / "penstock.db")
    else:
        for name in ("topics", "identity"):
            shutil.rmtree(path / name, ignore_errors=True)
        shutil.copytree(tmp_path / "backup/topics", path / "topics")
        shutil.copyfile(tmp_path / "backup/identity", path / "identity")
    ids, error = drained(path)
    assert ids == []
    assert isinstance(error, LogMismatch)
    assert "penstock restored" in str(error)
    with closing(Outbox(f"file://{path}")) as outbox, pytest.raises(LogMismatch):
        reconcile(outbox, "orders")


def test_a_worker_serves_other_groups_while_one_stands_before_damage(path: Path) -> None:
    """The damage is met in every turn; nobody else waits for that."""
    outbox = Outbox(f"{path}/")
    outbox.migrate()
    for topic in ("broken", "sound"):
        outbox.log.create_topic(topic, partitions=1)
        outbox.log.append(topic, [a_record(id=f"{topic}-{number}") for number in range(3)])
    outbox.close()
    outbox = Outbox(f"{path}/")
    broken, sound, done = list[str](), list[str](), Event()

    @outbox.handler("order.*", group="a", topic="broken")
    def first(record: Record) -> None:
        broken.append(record.id)

    @outbox.handler("order.*", group="b", topic="sound")
    def second(record: Record) -> None:
        sound.append(record.id)
        if len(sound) == 6:
            done.set()

    log = outbox.log
    assert isinstance(log, FileLog)
    segment = log.partition(log.topic("broken"), 0).last.path
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)

    async def work() -> None:
        async with outbox.running():
            for number in range(3, 6):
                outbox.log.append("sound", [a_record(id=f"sound-{number}")])
            assert await asyncio.to_thread(done.wait, 20)

    asyncio.run(work())
    assert not broken
    assert sound == [f"sound-{number}" for number in range(6)]
    outbox.close()
