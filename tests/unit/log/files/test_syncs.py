"""What is acknowledged was synced before: asked of the system calls, for a test cannot cut the power."""

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.log.batches import Write
from penstock.log.files.disk import Disk, write_whole
from tests.unit.log.files.test_batch_log import Opened, a_batch
from tests.unit.log.files.test_upkeep import Tended, tended  # noqa: F401

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to see which file is synced")


class SyncCalls:
    """The calls that let the disk have something, in their order, and what each file held then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.held: dict[str, bytes] = {}
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, self._noting(name))
        replace = os.replace

        def replaced(old: Path, new: Path) -> None:
            self.names.append(f"replace {Path(new).name}")
            replace(old, new)

        monkeypatch.setattr(os, "replace", replaced)

    def _noting(self, name: str):  # type: ignore[no-untyped-def]
        sync = getattr(os, name)

        def synced(fd: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            sync(fd)
            self.names.append(f"{name} {path.name}")
            if path.is_file():
                self.held[path.suffix] = path.read_bytes()

        return synced


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "log")
    yield opened
    opened.store.close()


def test_the_disk_has_a_batch_before_it_is_acknowledged(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    log.send(b"the segment is there")
    calls = SyncCalls(monkeypatch)
    for value in (b"first-canary", b"second-canary"):
        assert log.send(value).error is None
        assert value in calls.held.pop(".log")


def test_the_disk_has_batches_of_two_partitions_before_they_are_acknowledged(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.send(b"a", partition=0)
    log.send(b"b", partition=1)
    calls = SyncCalls(monkeypatch)
    written = log.write([Write(log.topic, each, a_batch(b"v")) for each in (0, 1)])
    assert [each.error for each in written] == [None, None]
    assert sum(name.startswith("fdatasync") and name.endswith(".log") for name in calls.names) == 2


def test_a_small_file_is_synced_before_it_gets_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = SyncCalls(monkeypatch)
    write_whole(Disk(), tmp_path / "small", b"content")
    first, second, third = calls.names
    assert first.startswith("fdatasync small")
    assert (second, third) == ("replace small", f"fsync {tmp_path.name}")


def test_the_disk_has_a_rewritten_segment_before_the_old_one_goes(
    tended: Tended,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tended.log.compact(tended.topic, None)
    for number in range(20):
        tended.put(*((f"k{each}", b"%d " % number * 60) for each in range(5)))
    tended.clock.advance(timedelta(seconds=5))
    calls = SyncCalls(monkeypatch)
    tended.tend()
    swaps = [at for at, name in enumerate(calls.names) if name.startswith("replace") and name.endswith(".log")]
    assert swaps
    for at in swaps:
        base = calls.names[at].removeprefix("replace ").removesuffix(".log")
        assert calls.names[at - 1].startswith(f"fdatasync {base}.")
        assert calls.names[at + 1] == "fsync 0"  # the folder of the partition
