"""Files of a log that were cut, changed, lost or put in from elsewhere: found, named, and never served."""

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.database.migrations import migrate
from penstock.errors import Damaged, LogMismatch
from penstock.log.contract import Compaction
from penstock.log.files.compaction import Compacted, read_compacted, write_compacted
from penstock.log.files.directory import TopicFiles
from penstock.log.files.disk import Disk, DiskFile
from penstock.log.files.log import FileLog
from penstock.log.files.open_files import OpenFiles
from penstock.log.files.partition_view import PartitionReader
from penstock.log.files.search import NameKind, may_hold
from penstock.log.files.segment import HEADER_BYTES
from penstock.log.files.small_files import read_policy, read_reservation, read_shortened, write_policy, write_shortened
from penstock.log.files.verify import Kind, PartitionWalk
from penstock.log.store import open_store
from tests.suites.records import a_record
from tests.unit.log.files.partitions import TOPIC, OpenPartition, filled, open_partition

FLIPS = 40


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.log"))


def read_one_by_one(opened: OpenPartition) -> tuple[dict[int, str], list[Damaged]]:
    """Read each offset by itself; return what was served, and what was named as damaged."""
    served, damaged = dict[int, str](), list[Damaged]()
    for offset in range(opened.partition.start, opened.partition.end):
        try:
            served |= {each.offset: each.id for each in opened.partition.entries(offset, offset + 1)}
        except Damaged as exc:
            damaged.append(exc)
    return served, damaged


# -- a torn tail


class _QuickFile(DiskFile):
    def sync(self) -> None:
        pass


class QuickDisk(Disk):
    """The real disk without waiting for it: the test itself says what it has."""

    def create(self, path: Path) -> DiskFile:
        return _QuickFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))

    def open(self, path: Path, *, write: bool = False) -> DiskFile:
        return _QuickFile(os.open(path, os.O_RDWR if write else os.O_RDONLY))

    def sync_folder(self, path: Path) -> None:
        pass


def test_cut_at_every_byte_behind_the_last_sync_it_opens_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    with open_partition(whole, clean=False) as opened:
        opened.append("a", "b")
        opened.append("c")
        synced, heads = opened.partition.synced_position, (opened.folder / "heads").read_bytes()
        opened.append("d", "e")
        end = opened.partition.synced_position
    (segment,) = segments(whole)
    content = segment.read_bytes()
    for cut in range(synced, end + 1):
        tail = bytes(len(content) - cut) if cut % 2 else b""  # the file ends there, or has zeros
        copy = tmp_path / "cut"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        segments(copy)[0].write_bytes(content[:cut] + tail)
        (copy / str(TOPIC) / "heads").write_bytes(heads)
        with open_partition(copy, clean=False, disk=QuickDisk()) as opened:
            wanted = {0: "a", 1: "b", 2: "c"} | ({3: "d", 4: "e"} if cut == end else {})
            assert opened.ids() == wanted, cut
            base = opened.append("f").base_offset
        with open_partition(copy, clean=False, disk=QuickDisk()) as opened:
            assert opened.ids() == wanted | {base: "f"}


def test_what_stands_behind_the_last_batch_and_is_none_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_partition(tmp_path, clean=False) as opened:
        opened.append("a")
        first = opened.partition.synced_position
        opened.append("b")
        end = opened.partition.synced_position
    (segment,) = segments(tmp_path)
    content = bytearray(segment.read_bytes())
    content[end : 2 * end - first] = random.Random(1).randbytes(end - first)
    segment.write_bytes(content)
    with caplog.at_level(logging.WARNING), open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", 1: "b"}
        assert opened.append("c").base_offset == 2
    assert f"torn tail from byte {end}, offset 2" in caplog.text
    with open_partition(tmp_path) as opened:
        assert opened.ids() == {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize("gap", [0, 5])
def test_a_whole_batch_that_does_not_follow_the_last_is_damaged_and_not_torn(
    tmp_path: Path, gap: int, caplog: pytest.LogCaptureFixture
) -> None:
    """All its bytes are there; its offset is under no checksum, and may have been another."""
    with open_partition(tmp_path, clean=False) as opened:
        opened.append("a")
        first = opened.partition.synced_position
        opened.append("b")
        end = opened.partition.synced_position
    (segment,) = segments(tmp_path)
    content = bytearray(segment.read_bytes())
    last = content[first:end]
    last[7] += gap
    content[end : end + len(last)] = last
    segment.write_bytes(content)
    with caplog.at_level(logging.ERROR), open_partition(tmp_path) as opened:
        served, damaged = read_one_by_one(opened)
        assert served == {0: "a", 1: "b"}
        assert [each.offset for each in damaged] == [2]
        assert opened.append("c").base_offset == 3
    assert f"a batch at byte {end}, offset 2, is damaged" in caplog.text


# -- bit flips


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """Give a partition of several segments with every kind of file, and what it holds."""
    folder = tmp_path_factory.mktemp("filled")
    ids = filled(folder, 40)
    with open_partition(folder) as opened:
        for each in opened.partition.segments:
            may_hold(opened.partition, each, NameKind.ID, b"x")
    return folder, ids


@pytest.fixture
def copied(filled_once: tuple[Path, dict[int, str]], tmp_path: Path) -> tuple[Path, dict[int, str]]:
    """Give a copy to be damaged."""
    shutil.copytree(filled_once[0], tmp_path / "copy")
    return tmp_path / "copy", filled_once[1]


def flips(size: int, seed: str) -> Iterator[tuple[int, int]]:
    source = random.Random(seed)
    for _ in range(FLIPS):
        yield source.randrange(size), 1 << source.randrange(8)


@pytest.mark.parametrize("which", [0, 1, -2, -1])
def test_a_flipped_bit_in_a_segment_is_found_and_only_its_batch_is_not_served(
    copied: tuple[Path, dict[int, str]], which: int
) -> None:
    folder, ids = copied
    path = segments(folder)[which]
    content = path.read_bytes()
    with open_partition(folder) as opened:
        end = opened.partition.segments[which].end_position
    for position, bit in flips(end, f"segment {which}"):
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        with open_partition(folder, clean=False) as opened:
            served, damaged = read_one_by_one(opened)
        assert served.items() <= ids.items(), position
        missing = ids.keys() - served.keys()
        if position >= 128:
            assert missing, f"the flip at {position} was not found"
            assert {each.where.split("/")[-1] for each in damaged} == {path.name}
            assert all(each.offset in ids for each in damaged)
        assert len(missing) <= 12, f"the flip at {position} took {missing}"  # its batch, or to the next mark
        assert path.exists()
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ["*.index", "*.filter", "*.snapshot", "heads"])
def test_a_flipped_bit_in_any_other_file_is_found_and_nothing_is_missing(
    copied: tuple[Path, dict[int, str]], kind: str
) -> None:
    folder, ids = copied
    files = sorted(folder.rglob(kind))
    assert files
    for path in files[:2]:
        content = path.read_bytes()
        for position, bit in flips(len(content), f"{kind} {path.name}"):
            path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
            with open_partition(folder, clean=False) as opened:
                assert opened.ids() == ids
                for each in opened.partition.segments[:-1]:
                    assert may_hold(opened.partition, each, NameKind.ID, ids[each.base_offset].encode())
                assert opened.partition.next_offset == len(ids)
        path.write_bytes(content)


def test_a_flipped_bit_in_a_reservation_is_found_and_no_offset_is_given_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 4, clean=False, durability="os")
    (path,) = tmp_path.rglob("reserved")
    content = path.read_bytes()
    reserved = read_reservation(Disk(), path.parent)
    assert reserved > 12
    for position, bit in flips(len(content), "reserved"):
        path.write_bytes(content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :])
        caplog.clear()
        assert read_reservation(Disk(), path.parent) == reserved
        assert "reserved is damaged" in caplog.text


def test_a_flipped_bit_in_a_small_file_is_found(tmp_path: Path) -> None:
    """What is compacted, how far that came, and what was lost: each says so, or is done again."""
    disk, whole = Disk(), Compaction(86_400_000)
    write_policy(disk, tmp_path, whole)
    with open_partition(tmp_path / "p") as opened:
        opened.append("a")
        done = Compacted(7, 9)
        write_compacted(opened.partition, done)
        folder = opened.partition.folder.path
        write_shortened(disk, folder, 3, 9)
        for path, read in (
            (tmp_path / "policy", lambda: read_policy(disk, tmp_path)),
            (folder / "compacted", lambda: read_compacted(opened.partition)),
            (folder / "shortened", lambda: read_shortened(disk, folder)),
        ):
            content = path.read_bytes()
            assert read() in (whole, done, (3, 9))
            for position in range(len(content)):
                for bit in range(8):
                    flipped = bytes([content[position] ^ 1 << bit])
                    path.write_bytes(content[:position] + flipped + content[position + 1 :])
                    if path.name == "policy":
                        with pytest.raises(ValueError, match="is damaged"):
                            read()
                    else:
                        assert read() in (Compacted(), (-1, (1 << 63) - 1)), (path.name, position, bit)
            path.write_bytes(content)


def test_a_flipped_bit_in_the_identity_is_refused_or_makes_no_difference(tmp_path: Path) -> None:
    url, records = f"{tmp_path}/log/", [a_record(key=f"k{each}") for each in range(5)]
    store = open_store(url)
    migrate(store.database)
    store.log.create_topic("t", partitions=1)
    store.log.append("t", records)
    store.close()
    path = tmp_path / "log" / "identity"
    refused = 0
    for position, bit in flips(len(path.read_bytes()), "identity"):
        content = path.read_bytes()  # each start that is let in draws a new mark
        damaged = content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :]
        path.write_bytes(damaged)
        store = open_store(url)
        try:
            assert isinstance(store.log, FileLog)
            store.log.writer  # noqa: B018  # it is compared when a writer starts
        except LogMismatch:
            refused += 1
            assert path.read_bytes() == damaged
            path.write_bytes(content)
        assert [each.id for each in store.log.read("t", 0)] == [each.id for each in records]
        store.close()
    assert refused > FLIPS / 3


@pytest.mark.parametrize("kind", ["*.index", "*.filter", "*.snapshot", "heads"])
def test_a_file_that_is_missing_or_empty_is_made_again(copied: tuple[Path, dict[int, str]], kind: str) -> None:
    folder, ids = copied
    for change in (Path.unlink, lambda path: path.write_bytes(b"")):
        for path in folder.rglob(kind):
            change(path)
        with open_partition(folder) as opened:
            assert opened.ids() == ids
            assert opened.partition.next_offset == len(ids)


# -- segments that are cut, lost, renamed or foreign


def test_a_closed_segment_that_is_cut_is_named_and_the_rest_is_served(copied: tuple[Path, dict[int, str]]) -> None:
    folder, ids = copied
    path = segments(folder)[1]
    path.write_bytes(path.read_bytes()[:-50])
    with open_partition(folder) as opened:
        served, damaged = read_one_by_one(opened)
        assert served.items() <= ids.items()
        assert 0 < len(ids) - len(served) <= 6
        assert {each.where.split("/")[-1] for each in damaged} == {path.name}
        assert opened.append("new").base_offset == len(ids)


def test_the_last_segment_cut_before_what_was_synced_is_damage_and_not_a_torn_tail(
    copied: tuple[Path, dict[int, str]],
) -> None:
    folder, ids = copied
    path = segments(folder)[-1]
    with open_partition(folder) as opened:
        end = opened.partition.last.end_position
    path.write_bytes(path.read_bytes()[: end - 1])
    with open_partition(folder) as opened:
        served, damaged = read_one_by_one(opened)
        assert len(damaged) == 3
        assert served.items() <= ids.items()
        assert opened.append("new").base_offset == len(ids), "no offset that was given is given again"


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:100])])
def test_a_lost_segment_is_named_and_not_passed_and_comes_back(
    copied: tuple[Path, dict[int, str]], which: int, change: Callable[[Path], None], tmp_path: Path
) -> None:
    folder, ids = copied
    path = segments(folder)[which]
    saved = shutil.copyfile(path, tmp_path / "saved")
    change(path)
    for place in (len(ids), len(ids) + 1):  # the second time what the head said is in a segment's header
        with open_partition(folder) as opened:
            served, damaged = read_one_by_one(opened)
            missing = ids.keys() - served.keys()
            assert missing
            assert {each.offset for each in damaged} == missing
            assert {each.where.split("/")[-1] for each in damaged} == {path.name}
            with pytest.raises(Damaged):
                opened.ids()
            assert opened.append("new").base_offset == place
    shutil.copyfile(saved, path)
    with open_partition(folder) as opened:
        assert opened.ids() == ids | {len(ids): "new", len(ids) + 1: "new"}


def test_a_segment_under_another_name_and_foreign_files_are_left_alone(
    copied: tuple[Path, dict[int, str]], caplog: pytest.LogCaptureFixture
) -> None:
    folder, ids = copied
    first = segments(folder)[0]
    foreign = [first.with_name(f"{700:020}.log"), first.with_name("notes.txt"), first.with_name("1.log")]
    for each in foreign:
        shutil.copyfile(first, each)
    with caplog.at_level(logging.ERROR), open_partition(folder) as opened:
        assert opened.ids() == ids
        assert opened.append("new").base_offset == len(ids)
    assert f"{700:020}.log belongs to partition 0" in caplog.text
    assert all(each.exists() for each in foreign)


def test_a_file_whose_making_was_cut_short_is_removed(copied: tuple[Path, dict[int, str]]) -> None:
    folder, ids = copied
    unborn = segments(folder)[0].with_name(f"{len(ids):020}.log")
    for content in (b"", bytes(65536), b"PENSTSEG" + bytes(500)):
        unborn.write_bytes(content)
        with open_partition(folder) as opened:
            assert opened.ids() == ids
        assert not unborn.exists()


# -- damage in the last segment, and nobody who says how far the disk had it


def _lost(heads: Path, old: bytes) -> None:
    heads.unlink()


def _flipped(heads: Path, old: bytes) -> None:
    content = bytearray(heads.read_bytes())
    content[40] ^= 1
    heads.write_bytes(content)


def _of_earlier(heads: Path, old: bytes) -> None:
    heads.write_bytes(old)


# A last batch whose length reaches into what was never written may be torn, by what an old head says.
HURT = [
    (heads, byte, which)
    for heads in (_lost, _flipped, _of_earlier)
    for byte in (5, 10, 20, 62)
    for which in (0, 3, 7)
    if (heads, byte, which) != (_of_earlier, 10, 7)
]


@pytest.mark.parametrize(("heads", "byte", "which"), HURT)
def test_damage_in_the_last_segment_is_no_torn_tail_where_the_head_is_lost(
    tmp_path: Path, heads: Callable[[Path, bytes], None], byte: int, which: int
) -> None:
    """What stands behind it is served, stays where it is, and no offset of it is given again."""
    places = []
    with open_partition(tmp_path, clean=False, disk=QuickDisk()) as opened:
        opened.append("early")
        file = opened.folder / "heads"
        old = file.read_bytes()
        for number in range(8):
            places.append(opened.partition.synced_position)
            opened.append(f"{number}-a", f"{number}-b")
        end, ids = opened.partition.synced_position, opened.ids()
    heads(file, old)
    (segment,) = segments(tmp_path)
    content = bytearray(segment.read_bytes())
    content[places[which] + byte] ^= 0x10
    segment.write_bytes(content)
    hurt = {1 + 2 * which, 2 + 2 * which}
    topic = TopicFiles(Disk(), file.parent, TOPIC, 1)
    reader = PartitionReader(OpenFiles(Disk(), 4), topic.folder(0), topic.heads, 400, topic.id, lambda: 0)
    reader.refresh(reader._heads.get(0))
    if heads is not _of_earlier:  # where there is a head, it says how far a reader may look
        assert reader.end >= len(ids)
    found = [each for each in PartitionWalk(reader.folder, written=False) if each.kind is Kind.DAMAGE]
    assert [(each.position, each.offset) for each in found] == [(places[which], min(hurt))]
    last = len(ids)
    for turn in range(2):
        with open_partition(tmp_path, clean=False, disk=QuickDisk()) as opened:
            served, damaged = read_one_by_one(opened)
            kept = {offset: id for offset, id in served.items() if offset in ids}
            assert kept == {offset: id for offset, id in ids.items() if offset not in hurt}
            assert {each.where.split("/")[-1] for each in damaged} == {segment.name}
            assert min(each.offset for each in damaged) == min(hurt)
            given = opened.append(f"new {turn}").base_offset
            assert given >= last
            last = given + 1
        assert segment.read_bytes()[:end] == content[:end]


def test_whole_batches_behind_a_torn_one_are_left_where_they_are(tmp_path: Path) -> None:
    """The disk had the later sectors and not the earlier ones: nothing of it was acknowledged."""
    with open_partition(tmp_path, clean=False, disk=QuickDisk()) as opened:
        opened.append("a")
        heads, first = (opened.folder / "heads").read_bytes(), opened.partition.synced_position
        opened.append("b" * 300)
        second = opened.partition.synced_position
        opened.append("c")
        end = opened.partition.synced_position
    (tmp_path / str(TOPIC) / "heads").write_bytes(heads)
    (segment,) = segments(tmp_path)
    content = bytearray(segment.read_bytes())
    sector = -(-first // 512) * 512
    assert sector + 512 <= second
    content[sector : sector + 512] = bytes(512)
    segment.write_bytes(content)
    with open_partition(tmp_path, clean=False, disk=QuickDisk()) as opened:
        assert opened.ids() == {0: "a"}
        assert opened.append("d").base_offset == 3
    assert segment.read_bytes()[:end] == content[:end]
    with open_partition(tmp_path, clean=False, disk=QuickDisk()) as opened:
        assert opened.ids() == {0: "a", 3: "d"}


# -- the first batch of a segment


@pytest.mark.parametrize("count", [3, 60])
def test_a_first_batch_that_is_damaged_is_named_also_without_an_index(tmp_path: Path, count: int) -> None:
    filled(tmp_path, count, clean=False)
    damaged = segments(tmp_path)[0 if count == 3 else 1]
    content = bytearray(damaged.read_bytes())
    content[HEADER_BYTES + 3] ^= 1  # of its base offset
    damaged.write_bytes(content)
    damaged.with_suffix(".index").unlink(missing_ok=True)
    with open_partition(tmp_path, clean=False) as opened, pytest.raises(Damaged):
        opened.ids()
