"""Those who write to a database take turns: who pours keeps nobody waiting for more than a transaction."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from penstock.database.migrations import migrate
from penstock.log.batches import Write, WriteResult
from penstock.log.contract import Topic
from penstock.log.sql import write_threads
from penstock.log.sql.batches import SqlBatchLog
from penstock.log.sql.write_threads import WaitingWrite, WriteTurns
from penstock.log.store import open_batches, open_store
from penstock.model.partition import KAFKA
from penstock.wire.kafka.records import KafkaRecord, encode_records

TOPIC = Topic(1, "t", 1, KAFKA)
SECONDS = 60


def a_write(topic: Topic, value: bytes, records: int = 1) -> list[Write]:
    """Return what one request writes."""
    return [Write(topic, 0, encode_records([KafkaRecord(at, 1000, None, value, []) for at in range(records)]))]


def ignore(_: Sequence[WriteResult]) -> None:
    """Hear what became of a write."""


class Turns(WriteTurns):
    """Turns whose writes go by names, which begin with the one of their source."""

    def hand(self, *names: str, records: int = 1, bytes: int = 1) -> None:
        """Let sources hand over a write each, of a topic that has its name."""
        for name in names:
            self.add(name[0], a_write(TOPIC._replace(name=name), b"x" * bytes, records), ignore)

    def next(self) -> list[str]:
        """Return the names of what is written together next."""
        taken = self.take()
        self.end(taken, [WriteResult()] * len(taken))
        return [each.write.topic.name for each in taken]


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_what_waits_is_written_together(turns: Turns) -> None:
    turns.hand("a1", "a2", "b1", "a3")
    assert turns
    assert turns.next() == ["a1", "b1", "a2", "a3"]
    assert not turns


def test_one_write_of_another_goes_with_the_next_transaction_however_much_waits(turns: Turns) -> None:
    turns.hand(*(f"a{n:02}" for n in range(60)), records=1000)
    first = turns.next()
    assert first == ["a00", "a01", "a02", "a03", "a04"]
    turns.hand("b")
    assert "b" in turns.next()


def test_a_small_write_goes_with_one_that_is_more_than_a_transaction_should_be(turns: Turns) -> None:
    turns.hand("a1", "a2", records=9000)
    assert turns.next() == ["a1"]
    turns.hand("b")
    assert turns.next() == ["a2", "b"]


def test_the_writes_of_a_source_stay_in_order(turns: Turns) -> None:
    turns.hand(*(f"{source}{n}" for n in range(9) for source in "abc"), records=700)
    written: list[str] = []
    while turns:
        written += turns.next()
    for source in "abc":
        assert [each for each in written if each[0] == source] == [f"{source}{n}" for n in range(9)]


def test_many_who_pour_share_what_a_transaction_holds(turns: Turns) -> None:
    """None is left out for longer than it takes to come to its turn."""
    sources = "abcdefgh"
    turns.hand(*(f"{source}{n}" for source in sources for n in range(3)), records=9000)
    rounds: list[str] = []
    while turns:
        rounds += turns.next()
    assert rounds == [f"{source}{n}" for n in range(3) for source in sources]


def test_bytes_count_as_records_do(turns: Turns) -> None:
    turns.hand("a1", "a2", "a3", bytes=3 << 20)
    assert turns.next() == ["a1", "a2"]
    turns.hand("b", "c", "d", "e", "f", "g", bytes=5 << 20)
    assert turns.next() == ["a3", "b", "c", "d"], "as much as one transaction takes of all"


def test_what_is_no_batch_is_handed_on(turns: Turns) -> None:
    """It is refused where it is decoded."""
    for data in (b"", b"x", b"\xff" * 61):
        turns.add("a", [Write(TOPIC, 0, data)], ignore)
    assert len(turns.take()) == 3


def _to(*partitions: int) -> list[Write]:
    """Return one record for each of some partitions."""
    return [a_write(TOPIC, b"x")[0]._replace(partition=each) for each in partitions]


def _partitions(taken: Sequence[WaitingWrite]) -> list[int]:
    return [each.place.partition for each in taken]


def test_a_partition_is_in_one_transaction_at_a_time(turns: Turns) -> None:
    turns.add("a", _to(0), ignore)
    first = turns.take()
    turns.add("a", _to(0, 1), ignore)
    assert _partitions(turns.take()) == [1]
    assert turns.take() == []
    turns.end(first, [WriteResult()])
    assert _partitions(turns.take()) == [0]


def test_a_request_is_answered_once_all_its_partitions_are(turns: Turns) -> None:
    answers: list[Sequence[WriteResult]] = []
    turns.add("a", _to(0, 1), answers.append)
    taken = turns.take()
    assert turns.end(taken, [None, WriteResult(7)]) == []
    (request,) = turns.end(turns.take(now=1.0), [WriteResult(5)])
    request.answer()
    assert [each.base_offset for each in answers[0]] == [5, 7]


def test_writes_that_found_a_lock_go_before_those_that_came_later(turns: Turns) -> None:
    turns.hand("a1", "a2")
    taken = turns.take()
    turns.hand("a3")
    turns.end(taken, [None, None])
    assert [each.write.topic.name for each in turns.take(now=1.0)] == ["a1", "a2", "a3"]


def test_a_contested_partition_is_tried_less_and_less_often_and_waited_for_in_turn(turns: Turns) -> None:
    turns.add("a", _to(0, 1, 2), ignore)
    turns.end(turns.take(), [None, WriteResult(), None])
    assert turns.take(now=0.019) == []
    turns.end(turns.take(now=0.02), [None, None], now=0.02)
    assert turns.take(now=0.059) == []
    assert _partitions(turns.take_contested()) == [0]
    assert _partitions(turns.take_contested()) == [2]
    assert not turns.is_contested, "somebody waits for each of them"


def test_a_contested_partition_of_which_nothing_waits_is_forgotten(turns: Turns) -> None:
    turns.add("a", _to(0), ignore)
    turns.end(turns.take(), [None])
    taken = turns.take_contested()
    assert _partitions(taken) == [0]
    turns.end(taken, [WriteResult()])
    assert not turns
    assert not turns.is_contested


def test_a_connection_is_written_with_the_next_transaction_while_another_pours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_threads, "MORE_RECORDS", 3)
    began, go_on, done = Event(), Event(), Event()
    rounds: list[list[bytes]] = []
    write = SqlBatchLog._write

    def noted(self: SqlBatchLog, writes: Sequence[Write], waits: bool) -> Any:
        rounds.append([bytes(each.batches[-2:-1]) for each in writes])
        began.set()
        assert go_on.wait(SECONDS)
        return write(self, writes, waits)

    monkeypatch.setattr(SqlBatchLog, "_write", noted)
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    migrate(store.database)
    topic = store.log.create_topic("t", partitions=1, partitioner=KAFKA)
    batches = open_batches(store, batch_bytes=1 << 20)
    found: list[WriteResult] = []
    batches.write(a_write(topic, b"a"), found.extend, source="a")
    assert began.wait(SECONDS)
    for _ in range(20):
        batches.write(a_write(topic, b"a"), found.extend, source="a")
    batches.write(a_write(topic, b"b"), lambda _: done.set(), source="b")
    go_on.set()
    assert done.wait(SECONDS)
    batches.close()
    store.close()
    assert [each.error for each in found] == [None] * 21
    assert [each.base_offset for each in found] == sorted(each.base_offset for each in found)
    assert rounds[:2] == [[b"a"], [b"a", b"b", b"a"]]
