"""A log in files on a disk that loses what was not synced: many histories; planted bugs must show."""

import random
import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import Error
from penstock.log.files import partition as partition_module
from penstock.log.files import rewriting, tail
from penstock.log.files.heads import HeadsFile
from penstock.log.files.index import SegmentEnd, SparseIndex
from penstock.log.files.partition import PartitionLog
from penstock.wire.kafka.record_batch import read_header
from tests.property.file_histories import STEPS, History, Violation
from tests.property.simulated_disk import SimulatedDisk, SimulatedFile

HISTORIES = 500
some_steps = st.lists(st.sampled_from(STEPS), min_size=4, max_size=25)
seeds = st.integers(0, 2**32)


@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow])
@given(some_steps, seeds)
def test_nothing_acknowledged_is_lost_and_no_offset_changes(steps: Sequence[str], seed: int) -> None:
    History(seed).run(steps)


@pytest.mark.parametrize("durability", ["interval", "os"])
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(some_steps, seeds)
def test_what_is_acknowledged_early_is_lost_from_its_end_only(durability: str, steps: Sequence[str], seed: int) -> None:
    History(seed, durability).run(steps)


# -- planted bugs: each must be found

Patch = pytest.MonkeyPatch


def _no_sync(patch: Patch) -> None:
    patch.setattr(PartitionLog, "sync", lambda self: None)


def _published_before_sync(patch: Patch) -> None:
    write = PartitionLog.write

    def early(self: PartitionLog, batches: Sequence[partition_module.PlacedBatch], size: int) -> None:
        write(self, batches, size)
        self.commit(synced=True)

    patch.setattr(PartitionLog, "write", early)


def _folder_not_synced(patch: Patch) -> None:
    patch.setattr(SimulatedDisk, "sync_folder", lambda self, path: None)


def _renamed_before_sync(patch: Patch) -> None:
    def beside(*args: object) -> object:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimulatedFile, "sync", lambda self: None)
            return write_beside(*args)  # type: ignore[arg-type]

    write_beside = rewriting.write_beside
    patch.setattr(rewriting, "write_beside", beside)


def _index_trusted(patch: Patch) -> None:
    decode = SparseIndex.decode.__func__  # type: ignore[attr-defined]

    def trusting(cls: type[SparseIndex], content: bytes, end: SegmentEnd, distance: int) -> object:
        base, generation, _, position, offset = struct.unpack_from(">8xqIIqq", content)
        return decode(cls, content, SegmentEnd(base, generation, position, offset), distance)

    patch.setattr(SparseIndex, "decode", classmethod(trusting))


def _offsets_given_again(patch: Patch) -> None:
    fail = PartitionLog.fail

    def failing(self: PartitionLog, exc: OSError) -> object:
        found = fail(self, exc)
        self.next_offset = self.end
        self._must_roll = False
        return found

    patch.setattr(PartitionLog, "fail", failing)


def _tail_served_unsynced(patch: Patch) -> None:
    patch.setattr(partition_module, "write_again", lambda *_: None)


def _sync_retried(patch: Patch) -> None:
    sync = PartitionLog.sync

    def again(self: PartitionLog) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    patch.setattr(PartitionLog, "sync", again)


def _torn_tail_overwritten(patch: Patch) -> None:
    patch.setattr(tail, "filled_until", lambda _, position: position)


def _heads_not_synced(patch: Patch) -> None:
    patch.setattr(HeadsFile, "sync", lambda self: None)


def _checksums_not_looked_at(patch: Patch) -> None:
    patch.setattr(tail, "check_batch", read_header)


BUGS: list[Callable[[Patch], None]] = [
    _no_sync,
    _published_before_sync,
    _folder_not_synced,
    _renamed_before_sync,
    _index_trusted,
    _offsets_given_again,
    _tail_served_unsynced,
    _sync_retried,
    _torn_tail_overwritten,
    _heads_not_synced,
    _checksums_not_looked_at,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda each: each.__name__.strip("_"))
def test_a_planted_bug_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    plant(monkeypatch)
    for seed in range(3 * HISTORIES):
        source = random.Random(seed)
        steps = [source.choice(STEPS) for _ in range(source.randint(4, 25))]
        if plant is _torn_tail_overwritten:  # it takes a batch that fits exactly where a torn one was
            steps = ["append", "cut short", "append", "crash"]
        try:
            History(seed).run(steps)
        except (Violation, Error, OSError):
            return
    pytest.fail("no history has shown it")


def test_a_reservation_that_is_not_kept_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(partition_module, "read_reservation", lambda *_: 0)
    for seed in range(HISTORIES):
        source = random.Random(seed)
        try:
            History(seed, "os").run([source.choice(STEPS) for _ in range(source.randint(4, 25))])
        except Violation:
            return
    pytest.fail("no history has shown it")
