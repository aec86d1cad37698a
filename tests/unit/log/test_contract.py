"""What the contract itself does on top of an engine."""

from penstock.log.contract import Position, Topic
from tests.suites.list_log import ListLog
from tests.suites.records import a_record


class Noting(ListLog):
    """A log that notes what it was asked to make durable."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Position] = []

    def durable(self, topic: Topic, position: Position) -> None:
        self.asked.append(position)


def test_an_append_returns_when_the_last_record_of_each_partition_is_durable() -> None:
    log = Noting()
    log.create_topic("t", partitions=3)
    given = log.append("t", [a_record(f"k-{n}") for n in range(20)])
    last = {number: max(offset for place, offset in given if place == number) for number, _ in given}
    assert sorted(log.asked) == sorted(last.items())
    assert len(last) > 1
