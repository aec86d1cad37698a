"""kill -9 within compaction and retention: no value comes back, no producer or lane loses what it needs."""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Outbox, Record, points
from penstock.delivery.retention import Retention
from penstock.delivery.retention_rule import RetentionSettings
from penstock.errors import OutOfSequence
from penstock.log.batches import WriteResult
from penstock.log.contract import Keep
from penstock.log.files.writer import PartitionWrite
from penstock.model.retry import Fixed
from penstock.wire.kafka.record_batch import read_header
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.unit.log.files.test_upkeep import Tended, lasts

SOON = timedelta(minutes=1)


@pytest.fixture
def tended(tmp_path: Path) -> Iterator[Tended]:
    """Give an empty log that is compacted."""
    made = Tended(tmp_path / "log")
    yield made
    made.store.close()


def killed(tended: Tended, point: str, visit: int, work: Callable[[], object]) -> bool:
    """Do something in a process that ends at a point; return whether it came there. Opens the log again."""
    tended.store.close()
    pid = os.fork()
    if pid == 0:
        try:
            tended.open()
            points.arm(point, points.kill, visit=visit)
            work()
        finally:
            os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    tended.open()
    return ended == -9


def test_killed_between_two_segments_nothing_that_was_deleted_comes_back(tended: Tended) -> None:
    tended.put(("gone", b"x" * 50))
    tended.fill()
    tended.put(("gone", None))
    tended.fill()
    plain = lasts(tended.entries(), 0)
    assert plain[b"gone"][1] is None
    tended.clock.advance(timedelta(days=2))  # tombstones may go
    kills = 0
    while killed(tended, "compaction.segment", 1, tended.tend):
        kills += 1
        for key, (offset, value) in lasts(tended.entries(), 0).items():
            assert (offset, value) == plain[key], f"{key!r} is what it was before it was replaced"
    assert kills > 2
    found = lasts(tended.entries(), 0)
    assert b"gone" not in found
    assert {key for key, (_, value) in plain.items() if value is not None} <= found.keys()


def a_sent_batch(tended: Tended, sequence: int) -> WriteResult:
    """Append a record of a Kafka producer."""
    news = [KafkaRecord(0, tended.clock.now_ms(), b"k0", b"v" * 20, [])]
    batch = bytearray(encode_records(news, producer_id=7, producer_epoch=0, base_sequence=sequence))
    partition = tended.log.partition(tended.topic, 0)
    found: list[WriteResult] = []
    tended.log.writer.append([PartitionWrite(partition, batch, [(0, read_header(batch))])], found.extend)
    tended.log.writer.call(lambda: None)
    return found[0]


def test_the_sequence_of_a_producer_outlives_its_records_twice(tended: Tended) -> None:
    tended.fill()
    beside = [("before", b"x"), ("behind", b"x")]
    tended.put(beside[0])
    first = [a_sent_batch(tended, sequence) for sequence in (0, 1)]
    tended.put(beside[1])
    for turn in range(2):
        if turn:  # its segment is rewritten again, with the header that the first pass has left
            tended.put(*beside)
        tended.fill()
        tended.fill()
        tended.tend()
        tended.store.close()
        for each in tended.folder.rglob("*.snapshot"):
            each.unlink()
        tended.open()
        found = {each.offset for each in tended.entries()}
        assert not found & {each.base_offset for each in first}
        assert a_sent_batch(tended, 1).base_offset == first[1].base_offset
        assert isinstance(a_sent_batch(tended, 3).error, OutOfSequence)


KILLS = ["retention.after_copy", "partition.trim_started", "partition.segment_removed", "retention.after_batch"]


@pytest.mark.parametrize("point", KILLS)
def test_killed_while_records_are_deleted_a_lane_has_its_record(tended: Tended, point: str) -> None:
    tended.log.compact(tended.topic, None)
    _park(tended)

    def delete() -> None:
        tended.log.writer  # noqa: B018  # only the writer trims
        tended.log.retain(tended.topic, Keep(-1, -1, 1))
        Retention(tended.store, RetentionSettings.load(), tended.clock).run()

    assert killed(tended, point, 1, delete)
    delete()
    assert tended.log.bounds("t", 0).start > 50
    assert _retried(tended) == [b"parked"]


@pytest.mark.parametrize("point", ["rewriting.swapped", "compaction.segment", "compaction.noted"])
def test_killed_while_records_are_compacted_a_lane_has_its_record(tended: Tended, point: str) -> None:
    _park(tended)

    def compact() -> None:
        tended.log.writer  # noqa: B018  # only the writer tends
        tended.log.retain(tended.topic, Keep(-1, -1, -1))
        Retention(tended.store, RetentionSettings.load(), tended.clock).run()

    assert killed(tended, point, 1, compact)
    compact()
    assert b"parked" not in {each.value for each in tended.entries()}
    assert _retried(tended) == [b"parked"]


def _park(tended: Tended) -> None:
    """Let a group fail on its first record and pass all that follow, some of the same key."""
    tended.put(("k", b"parked"))
    assert _retried(tended, fails=True) == [b"parked"]
    tended.put(("k", b"next"))
    tended.fill()
    _retried(tended, fails=True)


def _retried(tended: Tended, *, fails: bool = False) -> list[bytes | None]:
    """Drain; return what of key k was handed out first."""
    outbox, seen = Outbox(tended.store, clock=tended.clock), list[bytes | None]()

    @outbox.handler("order.*", group="g", topic="t", retry=Fixed(SOON))
    def handle(record: Record) -> None:
        if record.key == "k":
            seen.append(record.data)
            if fails:
                raise ValueError("not now")

    if not fails:
        tended.clock.advance(SOON)
    outbox.drain()
    return seen[:1]
