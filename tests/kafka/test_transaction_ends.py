"""The end of a transaction in files, when others end it at the same time or a partition cannot be written."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from penstock.broker.call import Refused
from penstock.broker.transaction_store import ProducerId, TransactionStore
from penstock.clock import SYSTEM
from penstock.database.migrations import migrate
from penstock.errors import PartitionUnwritable
from penstock.log.batches import BatchLog, LogPlace, Write, WriteResult
from penstock.log.contract import Topic
from penstock.log.files.batch_log import FileBatchLog
from penstock.log.store import open_batches, open_store
from penstock.model.partition import KAFKA
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.records import KafkaRecord, encode_records


class Ending:
    """A log in files with one partition, and the transactions of its producers."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(f"{folder}/")
        migrate(self.store.database)
        self.batches: BatchLog = open_batches(self.store, batch_bytes=1 << 20)
        self.topic: Topic = self.store.log.create_topic("t", partitions=1, partitioner=KAFKA)
        self.transactions = TransactionStore(self.store, self.batches, SYSTEM)
        self.place = LogPlace(self.topic.id, 0)

    def begin(self, name: str, timeout_ms: int = 60_000) -> ProducerId:
        return self.transactions.begin(name, timeout_ms, None)

    def send(self, producer: ProducerId, name: str, sequence: int) -> None:
        """Add a record to a transaction, which it opens."""
        self.transactions.add_partitions(name, producer, [self.place])
        batch = encode_records(
            [KafkaRecord(0, 1000, b"k", name.encode(), [])],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        done, found = Event(), list[WriteResult]()

        def told(results: Sequence[WriteResult]) -> None:
            found.extend(results)
            done.set()

        self.batches.write([Write(self.topic, 0, batch, name)], told)
        assert done.wait(30)
        assert found[0].error is None

    @property
    def stable(self) -> int:
        return self.batches.fetch(self.topic, 0, 0, max_bytes=1, committed=True).stable


@pytest.fixture
def ending(tmp_path: Path) -> Iterator[Ending]:
    made = Ending(tmp_path / "log")
    yield made
    made.store.close()


def test_a_mark_that_comes_late_does_not_end_the_next_transaction(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = ending.begin("a")
    ending.send(producer, "a", 0)
    mark, late, go_on = FileBatchLog.mark, Event(), Event()

    def mark_late(self: FileBatchLog, *arguments: Any, **named: Any) -> None:
        if not late.is_set():
            late.set()
            assert go_on.wait(30)
        mark(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(FileBatchLog, "mark", mark_late)
        patch.setattr(TransactionStore, "finish", lambda *_: None)
        ending.transactions.end("a", producer, committed=True)  # decided; its marks are not written
    monkeypatch.setattr(FileBatchLog, "mark", mark_late)
    looking = Thread(target=ending.transactions.abort_late)  # finishes what was decided
    looking.start()
    assert late.wait(30)
    client = Thread(target=ending.transactions.finish, args=("a",))
    client.start()
    client.join(2)  # before the other one where that may be
    if client.is_alive():
        go_on.set()
        client.join(30)
        looking.join(30)
    ending.send(producer, "a", 1)
    go_on.set()
    looking.join(30)
    assert ending.stable == 2  # the second transaction is open: only the first, and its mark, count


def test_a_transaction_that_cannot_be_ended_does_not_keep_others_open(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = FileBatchLog.mark
    first, second = ending.begin("a", 1), ending.begin("b", 1)
    ending.send(first, "a", 0)
    ending.send(second, "b", 0)

    def fail_first(self: FileBatchLog, id: int, *arguments: Any, **named: Any) -> None:
        if id == first.id:
            raise PartitionUnwritable("partition 0", "the disk refuses")
        mark(self, id, *arguments, **named)

    monkeypatch.setattr(FileBatchLog, "mark", fail_first)
    while min(each.open_ms for each in ending.transactions.listed()) <= 1:
        pass  # until both are late
    ending.transactions.abort_late()
    states = {each.transactional_id: each.state.value for each in ending.transactions.listed()}
    assert states == {"a": "aborting", "b": "aborted"}


def test_a_decision_whose_marks_cannot_be_written_stands_and_clients_ask_again(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage error would let a Java producer give up on a transaction that is committed."""
    producer, mark = ending.begin("a"), FileBatchLog.mark
    ending.send(producer, "a", 0)

    def refuse(self: FileBatchLog, *arguments: Any, **named: Any) -> None:
        raise PartitionUnwritable("partition 0", "the disk refuses")

    monkeypatch.setattr(FileBatchLog, "mark", refuse)
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            ending.transactions.end("a", producer, committed=True)
        assert caught.value.number is ErrorNumber.CONCURRENT_TRANSACTIONS
    assert ending.stable == 0
    monkeypatch.setattr(FileBatchLog, "mark", mark)
    ending.transactions.abort_late()  # as the coordinator does from time to time
    ending.transactions.end("a", producer, committed=True)
    assert ending.stable == 2
