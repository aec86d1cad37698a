"""A partition that is worked as one lane: its order survives owners that come, die and change their minds."""

import random

import pytest

from penstock.delivery.lane import LaneId
from penstock.delivery.machine import Partition
from penstock.delivery.verdict import Dead, Parked, Passed, Verdict
from tests.property.delivery_model import Rows

RECORDS = 60


class Life:
    """One partition, its rows, and what is settled; owners die at random before they have settled."""

    def __init__(self, seed: int, *, changes: bool) -> None:
        self._rng, self._changes, self._now_ms = random.Random(seed), changes, 0
        self._rows = Rows()
        self._keys = [self._rng.choice("abc#") for _ in range(RECORDS)]
        self._wanted = [self._rng.random() < 0.85 for _ in range(RECORDS)]
        self._settled = {offset for offset, wanted in enumerate(self._wanted) if not wanted}
        self._one_lane = True

    def run(self) -> None:
        """Let owners work until all is settled."""
        for _ in range(2_000):
            if len(self._settled) == RECORDS and not self._rows.lanes:
                return
            if self._changes and self._rng.random() < 0.3:
                self._one_lane = not self._one_lane
            self._own()
        raise AssertionError("it does not come to an end")

    def _own(self) -> None:
        partition = self._rows.load()
        if self._one_lane:
            partition.work_as_one_lane()
        ended = set(self._settled)
        for _ in range(self._rng.randrange(1, 8)):
            self._feed(partition)
            self._work(partition, ended)
            self._now_ms += self._rng.choice((0, 100, 1000))
            if self._rng.random() < 0.2:
                return  # it died
            settlement = partition.settlement()
            if settlement is not None:
                self._rows.apply(settlement)
                self._settled |= ended
                partition.confirm(skips=True)

    def _feed(self, partition: Partition) -> None:
        if partition.is_stopped:
            return
        for offset in partition.missing():
            partition.feed(offset, self._keys[offset], self._wanted[offset])
        count = min(partition.room(), self._rng.randrange(12), RECORDS - partition.position)
        for offset in range(partition.position, partition.position + count):
            partition.feed(offset, self._keys[offset], self._wanted[offset])

    def _work(self, partition: Partition, ended: set[int]) -> None:
        failed = set[LaneId]()
        for each in partition.take(self._now_ms, self._rng.randrange(1, 9), self._rng.randrange(1, 5)):
            if each.lane in failed:
                continue
            before = [offset for offset in range(each.offset) if offset not in ended]
            if self._one_lane and not self._changes:
                assert before == [], "it has overtaken another record"
            assert not [offset for offset in before if self._keys[offset] == self._keys[each.offset]]
            verdict = self._verdict(each.failures)
            partition.finish(each.offset, verdict)
            if isinstance(verdict, Parked):
                failed.add(each.lane)
                self._take_back(partition, each.lane)
            else:
                ended.add(each.offset)

    def _take_back(self, partition: Partition, lane: LaneId) -> None:
        """Take back what was out behind a record that failed, the last one first."""
        waiting = set(partition.stored(lane))
        for offset in sorted(partition.out_offsets() & waiting, reverse=True):
            partition.untake(offset)

    def _verdict(self, failures: int) -> Verdict:
        chance = self._rng.random()
        if chance < 0.2 and failures < 3:
            return Parked(self._now_ms + 500, failures + 1, "no")
        return Dead(failures + 1, "no", hold=False) if chance < 0.25 else Passed()


@pytest.mark.parametrize("seed", range(40))
def test_no_record_overtakes_another(seed: int) -> None:
    Life(seed, changes=False).run()


@pytest.mark.parametrize("seed", range(40))
def test_no_record_overtakes_another_of_its_key_when_the_option_changes(seed: int) -> None:
    Life(seed, changes=True).run()


def test_its_lane_is_never_spilled() -> None:
    partition = Partition(0)
    partition.work_as_one_lane()
    for offset in range(500):
        assert partition.feed(offset, f"k{offset}", wanted=True)
    partition.relieve()
    assert partition.stored_count == partition.entry_count == 0
    assert [each.offset for each in partition.take(0, 1000, 1000)] == list(range(100))
