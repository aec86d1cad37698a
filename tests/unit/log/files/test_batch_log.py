"""A log in files by batches: sequences, transactions, and what a restart knows of them."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from penstock import Outbox
from penstock.cli import main
from penstock.clock import from_ms
from penstock.database.migrations import migrate
from penstock.errors import (
    Error,
    ForeignPartition,
    InvalidBatch,
    InvalidTransaction,
    OffsetOutOfRange,
    OutOfSequence,
    ProducerFenced,
    StoreUnreachable,
    UnknownTopic,
)
from penstock.log.batches import Aborted, BatchLog, LogPlace, Write, WriteResult
from penstock.log.contract import Batch, OffsetRange, Producer, Topic
from penstock.log.entry import content_of
from penstock.log.files.appender import ProducerNotes
from penstock.log.files.log import FileLog
from penstock.log.files.rewriting import rewrite
from penstock.log.files.segment import HEADER_BYTES
from penstock.log.store import Store, open_batches, open_store
from penstock.model.partition import KAFKA
from penstock.operate.groups import groups
from penstock.operate.reconcile import reconcile
from penstock.operate.retention import retain
from penstock.testing.clock import FakeClock
from penstock.wire.kafka.record_batch import batches_in, headers_in, read_header, sealed
from penstock.wire.kafka.records import KafkaRecord, compressed, decode_records, encode_records, record_bytes
from tests.suites.records import a_record
from tests.suites.refusal import refusal


class Opened:
    """A store in files, opened again at will."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open()

    def open(self) -> None:
        self.store: Store = open_store(f"{self.folder}/")
        migrate(self.store.database)
        self.batches: BatchLog = open_batches(self.store, batch_bytes=1 << 20)
        self.topic: Topic = self.store.log.create_topic("t", partitions=2, partitioner=KAFKA)

    def again(self, *, lose: str | None = None) -> None:
        """Stop and start; `lose`: without the files of that kind."""
        self.store.close()
        for each in self.folder.rglob(f"*{lose}") if lose else ():
            each.unlink()
        self.open()

    def send(self, *values: bytes, partition: int = 0, **producer: Any) -> WriteResult:
        name = "tx" if producer.get("transactional") else None
        (written,) = self.write([Write(self.topic, partition, a_batch(*values, **producer), name)])
        return written

    def write(self, writes: Sequence[Write]) -> list[WriteResult]:
        done, found = Event(), list[WriteResult]()

        def told(results: Sequence[WriteResult]) -> None:
            found.extend(results)
            done.set()

        self.batches.write(writes, told)
        assert done.wait(30)
        return found

    def add_transaction(self, *, state: str = "open", epoch: int = 0, places: str = "[[1,0],[1,1]]") -> int:
        """Write a producer with an open transaction into the tables, as the coordinator does."""

        def add(tx: Any) -> int:
            tx.change("log", "kafka_producer_add", id=1, transactional_id="tx", timeout_ms=1, now_ms=1)
            self.put(tx, 1, state, epoch, places)
            return 1

        return self.store.database.run(add)

    def put(self, tx: Any, id: int, state: str, epoch: int, places: str) -> None:
        tx.conn.execute(
            "UPDATE penstock_kafka_producer SET state = ?, epoch = ?, partitions = ? WHERE id = ?",
            (state, epoch, places, id),
        )

    def values(self, *, committed: bool, partition: int = 0) -> list[bytes | None]:
        """Return what a client sees: it leaves out markers and, if committed, what was taken back."""
        offset, found = 0, list[bytes | None]()
        while True:
            fetched = self.batches.fetch(self.topic, partition, offset, max_bytes=150, committed=committed)
            if not fetched.pieces:
                return found
            for piece in fetched.pieces:
                for position, header in batches_in(piece):
                    if not header.is_control and not self._is_aborted(header, fetched.aborted, partition):
                        whole = memoryview(piece)[position : position + header.size]
                        found += [each.value for each in decode_records(whole)]
                    offset = header.next_offset

    def _is_aborted(self, header: Any, aborted: Sequence[Aborted], partition: int) -> bool:
        return header.is_transactional and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset for each in aborted
        )


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "log")
    yield opened
    opened.store.close()


def a_batch(*values: bytes, **producer: Any) -> bytearray:
    return encode_records(
        [KafkaRecord(number, 10 + number, b"k", value, []) for number, value in enumerate(values)], **producer
    )


def refused(written: WriteResult, kind: type[Error]) -> None:
    assert isinstance(written.error, kind), written


def test_batches_come_back_as_they_went_in_but_for_their_place(log: Opened) -> None:
    first, second = a_batch(b"a", b"b"), a_batch(b"c")
    sent = bytes(first), bytes(second)
    (written,) = log.write([Write(log.topic, 0, bytes(first + second))])
    assert (written.base_offset, written.start, written.error) == (0, 0, None)
    fetched = log.batches.fetch(log.topic, 0, 1, max_bytes=10_000, committed=True)
    (piece,) = fetched.pieces
    found = [bytes(piece[at : at + header.size]) for at, header in batches_in(piece)]
    assert [read_header(each).base_offset for each in found] == [0, 2]
    assert [each[16:] for each in found] == [each[16:] for each in sent]
    assert (fetched.start, fetched.end, fetched.stable) == (0, 3, 3)


def test_a_damaged_batch_is_refused_and_the_others_are_not(log: Opened) -> None:
    broken = a_batch(b"a")
    broken[-1] ^= 1
    writes = [Write(log.topic, 0, broken), Write(log.topic, 1, a_batch(b"b")), Write(log.topic, 0, b"")]
    damaged, whole, nothing = log.write(writes)
    refused(damaged, InvalidBatch)
    refused(nothing, InvalidBatch)
    assert whole.base_offset == 0
    assert log.store.log.bounds("t", 0) == (0, 0)


def test_offsets_out_of_range_and_unknown_topics_are_refused(log: Opened) -> None:
    log.send(b"a")
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.batches.fetch(log.topic, 0, offset, max_bytes=1, committed=False)
    assert log.batches.fetch(log.topic, 0, 1, max_bytes=1, committed=False).pieces == ()
    log.store.log.delete_topic("t")
    refused(log.send(b"a"), UnknownTopic)
    with pytest.raises(UnknownTopic):
        log.batches.fetch(log.topic, 0, 0, max_bytes=1, committed=False)


def test_those_who_watch_are_told_when_an_end_rises(log: Opened) -> None:
    moved, heard = list[tuple[int, int]](), Event()

    def hear(*place: int) -> None:
        moved.append(place)  # type: ignore[arg-type]
        heard.set()

    stop = log.batches.watch(hear)
    log.send(b"a", partition=1)
    assert heard.wait(30)
    stop()
    log.send(b"b", partition=1)
    assert moved == [(log.topic.id, 1)]


def test_a_key_in_a_foreign_partition_of_an_outbox_topic_is_refused(log: Opened) -> None:
    topic = log.store.log.create_topic("outbox", partitions=8)
    found = log.write([Write(topic, number, a_batch(b"v")) for number in range(8)])
    right = [each for each in found if each.error is None]
    assert len(right) == 1
    assert {type(each.error) for each in found if each.error} == {ForeignPartition}


# -- idempotent producers


def sent(log: Opened, sequence: int, count: int = 1, epoch: int = 0, **more: Any) -> WriteResult:
    values = [b"%d" % (sequence + n) for n in range(count)]
    return log.send(*values, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **more)


@pytest.mark.parametrize("lose", [None, ".snapshot", ".index", "heads"])
def test_a_batch_sent_again_gives_its_first_offset_also_after_a_restart(log: Opened, lose: str | None) -> None:
    for number in range(6):
        assert sent(log, number * 2, 2).base_offset == number * 2
    log.again(lose=lose)
    for number in range(1, 6):  # the last five
        assert sent(log, number * 2, 2).base_offset == number * 2
    assert log.store.log.bounds("t", 0) == (0, 12)
    refused(sent(log, 0, 2), OutOfSequence)
    refused(sent(log, 13), OutOfSequence)
    assert sent(log, 12).base_offset == 12


@pytest.mark.parametrize("lose", [None, ".snapshot"])
def test_other_bytes_under_known_sequences_are_no_repetition_also_after_a_restart(
    log: Opened, lose: str | None
) -> None:
    own = {"producer_id": 7, "producer_epoch": 0}
    assert log.send(b"first", **own, base_sequence=0).base_offset == 0
    assert log.send(b"last", **own, base_sequence=1).base_offset == 1
    for _ in range(2):
        for sequence in (0, 1):
            refused(log.send(b"other", **own, base_sequence=sequence), OutOfSequence)
        assert log.send(b"first", **own, base_sequence=0).base_offset == 0
        assert log.send(b"last", **own, base_sequence=1).base_offset == 1
        log.again(lose=lose)


@pytest.mark.parametrize("lose", [None, ".snapshot"])
def test_a_batch_without_a_time_is_known_again_by_the_bytes_that_were_sent(log: Opened, lose: str | None) -> None:
    """The log gives it a time, so that it has another checksum there: what only the log says is unknown."""
    batch = encode_records([KafkaRecord(0, -1, b"k", b"v", [])], producer_id=7, producer_epoch=0, base_sequence=0)
    other = encode_records([KafkaRecord(0, -1, b"k", b"w", [])], producer_id=7, producer_epoch=0, base_sequence=0)
    for restarts in range(2):
        (again,) = log.write([Write(log.topic, 0, bytes(batch))])
        assert (again.base_offset, again.error) == (0, None)
        (foreign,) = log.write([Write(log.topic, 0, bytes(other))])
        if restarts and lose:
            assert (foreign.base_offset, foreign.error) == (0, None)
        else:
            refused(foreign, OutOfSequence)
        log.again(lose=lose)


def test_a_batch_is_known_again_after_its_segment_was_rewritten(log: Opened) -> None:
    """Its checksum is another then: nobody can say any more what was sent, so it is taken for the same."""
    own = {"producer_id": 7, "producer_epoch": 0}
    assert log.send(b"v" * 4000, **own, base_sequence=0).base_offset == 0
    assert isinstance(log.store.log, FileLog)
    partition = log.store.log.partition(log.topic, 0)
    writer = log.store.log.writer
    writer.call(partition.roll)
    (segment, _) = partition.segments
    writer.call(lambda: rewrite(partition, segment, compressed))
    log.again(lose=".snapshot")
    fetched = log.batches.fetch(log.topic, 0, 0, max_bytes=10_000, committed=True)
    assert read_header(fetched.pieces[0]).codec
    assert log.send(b"v" * 4000, **own, base_sequence=0).base_offset == 0


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_nobody_knows_is_refused(log: Opened, early: Opened, codec: int) -> None:
    batch = a_batch(b"v")
    unknown = sealed(read_header(batch)._replace(attributes=codec), record_bytes(batch))
    for each in (log, early):
        assert each.send(b"before").error is None
        assert at_once(each, bytearray(unknown)) is None
        (written,) = each.write([Write(each.topic, 0, unknown)])
        refused(written, InvalidBatch)
        assert each.values(committed=True)[-1:] == [b"before"]


def test_each_partition_counts_by_itself(log: Opened) -> None:
    assert sent(log, 0, partition=0).base_offset == 0
    assert sent(log, 0, partition=1).base_offset == 0
    assert sent(log, 1, partition=1).base_offset == 1


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(log: Opened) -> None:
    sent(log, 0)
    refused(sent(log, 1, epoch=1), OutOfSequence)
    assert sent(log, 0, epoch=1).base_offset == 1
    refused(sent(log, 1, epoch=0), ProducerFenced)
    log.again()
    refused(sent(log, 1, epoch=0), ProducerFenced)


def test_repetitions_and_successors_in_one_round_are_known_for_what_they_are(log: Opened) -> None:
    batches = [a_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=n) for n in (0, 1, 1, 3, 2)]
    found = log.write([Write(log.topic, 0, each) for each in batches])
    assert [each.base_offset for each in found] == [0, 1, 1, -1, 2]
    refused(found[3], OutOfSequence)


# -- transactions


def transactional(log: Opened, id: int, value: bytes, sequence: int, **more: Any) -> WriteResult:
    producer = {"producer_id": id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
    return log.send(value, **(producer | more))


@pytest.mark.parametrize("lose", ["nothing", None, ".snapshot", "heads"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_counts_when_its_marker_says_so(log: Opened, committed: bool, lose: str | None) -> None:
    log.send(b"before")
    id = log.add_transaction()
    assert transactional(log, id, b"in", 0).base_offset == 1
    log.send(b"beside")
    assert transactional(log, id, b"also in", 1).base_offset == 3
    assert log.values(committed=True) == [b"before"]
    assert [each.data for each in log.store.log.read("t", 0)] == [b"before"]
    assert log.store.log.bounds("t", 0) == (0, 1), "readers of ours stop at the last stable offset"
    if lose != "nothing":
        log.again(lose=lose)
    fetched = log.batches.fetch(log.topic, 0, 0, max_bytes=10_000, committed=False)
    assert (fetched.end, fetched.stable) == (4, 1)
    for _ in range(2):  # again, as a coordinator that has crashed would
        log.batches.mark(id, 0, [LogPlace(log.topic.id, 0), LogPlace(log.topic.id, 1)], committed=committed)
    if lose != "nothing":
        log.again(lose=lose)
    inside = [b"in", b"also in"] if committed else []
    wanted = [b"before", *inside[:1], b"beside", *inside[1:]]
    assert log.values(committed=True) == wanted
    assert [each.data for each in log.store.log.read("t", 0)] == wanted
    assert log.values(committed=False) == [b"before", b"in", b"beside", b"also in"]
    assert log.store.log.bounds("t", 0) == (0, 5), "one marker, though it was asked for twice"
    assert log.store.log.bounds("t", 1) == (0, 0), "none where nothing was sent"


def test_a_transaction_that_nobody_opened_is_refused(log: Opened) -> None:
    refused(transactional(log, 99, b"x", 0), Error)
    id = log.add_transaction(places="[[1,1]]")
    refused(transactional(log, id, b"x", 0), InvalidTransaction)
    assert transactional(log, id, b"x", 0, partition=1).base_offset == 0
    refused(transactional(log, id, b"x", 0, producer_epoch=1), InvalidTransaction)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 1)], committed=True)
    log.store.database.run(lambda tx: log.put(tx, id, "empty", 0, "[]"))
    refused(transactional(log, id, b"late", 1, partition=1), InvalidTransaction)
    assert log.store.log.bounds("t", 1) == (0, 2)


def test_the_producers_of_a_partition_are_listed(log: Opened) -> None:
    sent(log, 5, 3)
    id = log.add_transaction()
    transactional(log, id, b"x", 0)
    found = {each.producer_id: each for each in log.batches.producers(log.topic, 0)}
    assert (found[7].epoch, found[7].last_sequence, found[7].open_since) == (0, 7, -1)
    assert (found[id].last_sequence, found[id].open_since) == (0, 3)


def test_a_snapshot_beyond_the_end_is_of_a_history_that_did_not_last(log: Opened) -> None:
    """The tail is lost, by a disk that lied; its snapshot was not."""
    for number in range(3):
        sent(log, number)
    log.again()
    (snapshot,) = log.folder.rglob("*.snapshot")
    assert snapshot.stem == f"{3:020}"
    (segment,) = log.folder.rglob("*.log")
    content = segment.read_bytes()
    log.store.close()
    positions = [at for at, _ in headers_in(content[128:])]
    segment.write_bytes(content[: 128 + positions[1]])
    (log.folder / "topics").joinpath(segment.parts[-3], "heads").unlink()
    log.open()
    assert log.store.log.bounds("t", 0) == (0, 1)
    assert sent(log, 1).base_offset == 1, "not taken for a repetition"


def test_what_is_trimmed_is_not_told_as_aborted(log: Opened) -> None:
    id = log.add_transaction()
    transactional(log, id, b"x", 0)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=False)
    log.send(b"y")
    assert log.batches.fetch(log.topic, 0, 0, max_bytes=9999, committed=True).aborted == [(id, 0)]
    log.store.log.trim(log.topic, [OffsetRange(0, 0, 2)])
    fetched = log.batches.fetch(log.topic, 0, 2, max_bytes=9999, committed=True)
    assert (fetched.start, list(fetched.aborted)) == (2, [])


def test_a_start_moves_over_what_was_taken_back_only_with_records_that_go(log: Opened) -> None:
    """A group of Kafka's that stands before an aborted head finds its offset, and all behind it."""
    id = log.add_transaction()
    transactional(log, id, b"x", 0)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=False)
    log.send(b"old")
    clock = FakeClock(from_ms(20))  # ten milliseconds after the record
    assert retain(log.store, clock=clock).deleted == {}
    assert log.store.log.bounds("t", 0) == (0, 3)
    assert [each.offset for each in log.store.log.read("t", 0, 0)] == [2]
    clock.advance(timedelta(days=8))
    assert retain(log.store, clock=clock).count
    assert log.store.log.bounds("t", 0) == (3, 3)


def test_dump_shows_how_a_transaction_has_ended(log: Opened, capsys: pytest.CaptureFixture[str]) -> None:
    id = log.add_transaction()
    for sequence, committed in enumerate((True, False)):
        transactional(log, id, b"x", sequence)
        log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=committed)
    refusal(SystemExit, main, ["log", "dump", f"{log.folder}/"])
    kinds = [line.split(", ")[3] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["transactional", "commit marker", "transactional", "abort marker"]


# -- what is not for readers, and those who count


def test_groups_pass_what_is_no_record_and_reconcile_lists_it(log: Opened) -> None:
    id = log.add_transaction()
    log.send(b"1")
    transactional(log, id, b"2", 0)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=True)
    transactional(log, id, b"3", 1)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=False)
    outbox = Outbox(log.store)
    seen: list[bytes | None] = []
    outbox.handler(None, group="g", id="g", topic="t")(lambda record: seen.append(record.data))
    assert outbox.drain().delivered == 2
    assert seen == [b"1", b"2"]
    found = reconcile(outbox, "t")
    assert found.agrees, found
    assert {each.name: each.count for each in found.figures} == {"logged": 2, "delivered[g]": 2, "void": 3}
    (shown,) = groups(outbox).items
    assert shown.lag == 0
    log.send(b"4")
    assert outbox.drain().delivered == 1
    assert reconcile(outbox, "t").agrees


def test_a_lost_segment_is_not_taken_for_void(log: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    log.store.close()
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    log.open()
    for number in range(100):
        log.send(b"%d" % number * 50)
    assert reconcile(log.store, "t").agrees
    log.store.close()
    sorted(log.folder.rglob("*.log"))[1].unlink()
    log.open()
    found = reconcile(log.store, "t")
    assert not found.agrees
    assert "is not in the log" in str(found.figures[0].faults)


def test_a_transaction_behind_damage_is_still_taken_back(log: Opened) -> None:
    id = log.add_transaction()
    log.send(b"plain")
    log.send(b"gone", producer_id=id, producer_epoch=0, base_sequence=0, transactional=True)
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=False)
    log.send(b"more")
    (segment,) = log.folder.rglob("*.log")
    log.store.close()
    for each in [*log.folder.rglob("*.snapshot"), *log.folder.rglob("*.index")]:
        each.unlink()
    content = bytearray(segment.read_bytes())
    content[HEADER_BYTES + 3] ^= 1  # of the first batch's offset
    segment.write_bytes(content)
    log.open()
    view = file_log(log).view(log.topic, 0)
    assert [each.value for each in view.entries(1, 100)] == [b"more"]


def test_what_an_append_left_behind_an_open_transaction_is_not_appended_again(
    log: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = log.add_transaction()
    log.send(b"open", producer_id=id, producer_epoch=0, base_sequence=0, transactional=True)
    batch = Batch("t", [content_of(a_record(key="k"))], 0, Producer("p", 1, 0))
    failure = StoreUnreachable("the tables", "they are away")
    with monkeypatch.context() as patch:
        patch.setattr(ProducerNotes, "put", lambda *_: (_ for _ in ()).throw(failure))
        with pytest.raises(StoreUnreachable):
            log.store.log.append_all([batch])
    log.store.log.append_all([batch])
    log.batches.mark(id, 0, [LogPlace(log.topic.id, 0)], committed=True)
    view = file_log(log).view(log.topic, 0)
    assert [each.offset for each in view.entries(0, 100)] == [0, 1]


@pytest.mark.parametrize("partition", [0, 1], ids=["of a partition that holds something", "of an empty one"])
@pytest.mark.parametrize("writing", [True, False], ids=["while it writes", "while nobody does"])
def test_skipped_offsets_stay_skipped(log: Opened, partition: int, writing: bool) -> None:
    log.send(b"a")
    if not writing:
        file_log(log).directory.stop_writing()
    log.store.log.skip_to(log.topic, {partition: 10})
    log.again()
    assert log.send(b"b", partition=partition).base_offset == 10


def file_log(log: Opened) -> FileLog:
    assert isinstance(log.store.log, FileLog)
    return log.store.log


# -- in the thread of who asks


@pytest.fixture
def early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Give a log that does not wait for the disk."""
    monkeypatch.setenv("PENSTOCK_FILES_DURABILITY", "os")
    opened = Opened(tmp_path / "early")
    assert opened.send(b"first").base_offset == 0
    yield opened
    opened.store.close()


def at_once(log: Opened, batch: bytearray, partition: int = 0) -> WriteResult | None:
    return log.batches.write_at_once(Write(log.topic, partition, memoryview(batch)))


def test_what_is_written_at_once_is_what_it_is_otherwise(early: Opened) -> None:
    assert at_once(early, a_batch(b"a", b"b")) == WriteResult(1, 0)
    assert early.send(b"c").base_offset == 3
    assert at_once(early, a_batch(b"d")) == WriteResult(4, 0)
    assert early.values(committed=True) == [b"first", b"a", b"b", b"c", b"d"]
    early.again()
    assert early.values(committed=True) == [b"first", b"a", b"b", b"c", b"d"]


def test_a_producer_is_known_whichever_way_its_batches_come(early: Opened) -> None:
    def numbered(sequence: int, epoch: int = 0) -> bytearray:
        return a_batch(b"%d" % sequence, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    assert at_once(early, numbered(0)) == WriteResult(1, 0)
    (handed,) = early.write([Write(early.topic, 0, numbered(1))])
    assert handed.base_offset == 2
    assert at_once(early, numbered(1)) == WriteResult(2, 0), "it was sent before"
    assert at_once(early, numbered(0)) == WriteResult(1, 0)
    gap = at_once(early, numbered(5))
    assert gap is not None
    refused(gap, OutOfSequence)
    assert at_once(early, numbered(0, epoch=1)) == WriteResult(3, 0)
    fenced = at_once(early, numbered(2))
    assert fenced is not None
    refused(fenced, ProducerFenced)
    early.again()
    assert early.send(b"x", producer_id=7, producer_epoch=1, base_sequence=1).base_offset == 4
    assert early.values(committed=True) == [b"first", b"0", b"1", b"0", b"x"]


def test_what_is_out_of_the_ordinary_is_left_to_the_writer(early: Opened) -> None:
    good, damaged = a_batch(b"a"), a_batch(b"a")
    damaged[-1] ^= 1
    assert at_once(early, damaged) is None
    assert at_once(early, good + good) is None
    assert at_once(early, good, partition=1) is None, "nobody has looked at it yet"
    opening = a_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert at_once(early, opening) is None
    assert early.batches.write_at_once(Write(early.topic, 0, bytes(good))) is None, "it is not ours to change"
    keyed = early.store.log.create_topic("keyed", partitions=1)
    early.write([Write(keyed, 0, a_batch(b"a"))])
    assert early.batches.write_at_once(Write(keyed, 0, memoryview(a_batch(b"a")))) is None
    early.store.log.delete_topic("t")
    assert at_once(early, good) is None
