"""A rate holds over the cluster: whoever owns what, all processes together begin no more than it says."""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.worker.calling.rate import Bucket

PARTITIONS = 8
BURST_SECONDS = 0.1

moves = st.tuples(st.just("move"), st.integers(0, PARTITIONS - 1), st.integers(0, 3))
drops = st.tuples(st.just("drop"), st.integers(0, PARTITIONS - 1), st.just(0))
restarts = st.tuples(st.just("restart"), st.integers(0, 3), st.just(0))
takes = st.tuples(st.just("take"), st.integers(0, 3), st.integers(1, 30))
waits = st.tuples(st.just("wait"), st.integers(1, 3000), st.just(0))
steps = st.lists(st.one_of(moves, moves, drops, restarts, takes, takes, waits, waits), max_size=120)
SPREAD = [("move", partition, partition % 4) for partition in range(PARTITIONS)]
ALL = [("take", process, 30) for process in range(4)]
rates = st.floats(0.05, 500.0)
batches = st.integers(1, 20)


@dataclass
class Cluster:
    """A few processes with a bucket each, and what each owns; partitions have one owner or none."""

    rate: float
    batch: int
    now: float = 1000.0
    owners: dict[int, int] = field(default_factory=dict)
    buckets: dict[int, Bucket] = field(default_factory=dict)
    took: list[tuple[float, int, float]] = field(default_factory=list)  # when, how many, brought by a start

    @property
    def burst(self) -> float:
        """What may go at once."""
        return max(self.batch, self.rate * BURST_SECONDS)

    def share(self, process: int) -> float:
        """Return the part of the partitions that a process owns."""
        return sum(owner == process for owner in self.owners.values()) / PARTITIONS

    def own(self, partition: int, process: int | None) -> None:
        """Let a partition change hands: the old owner knows before the new one."""
        before = self.owners.pop(partition, None)
        self.tell(before)
        if process is not None:
            self.owners[partition] = process
            self.tell(process)

    def tell(self, process: int | None) -> None:
        """Tell a process its share; its bucket is made when it first has one."""
        if process is None:
            return
        share = self.share(process)
        if process in self.buckets:
            self.buckets[process].change_share(share, self.now)
        elif share:
            self.buckets[process] = Bucket(self.rate, self.batch, self.now, share)
            self.took.append((self.now, 0, self.burst * share))

    def restart(self, process: int) -> None:
        """End a process; its partitions go back to it when it is there again, with an empty memory."""
        mine = [each for each, owner in self.owners.items() if owner == process]
        for each in mine:
            del self.owners[each]
        self.buckets.pop(process, None)
        for each in mine:
            self.own(each, process)

    def take(self, process: int, wanted: int) -> None:
        """Let a process begin as much as its bucket gives."""
        if process in self.buckets:
            self.took.append((self.now, self.buckets[process].take(wanted, self.now), 0.0))

    def apply(self, step: tuple[str, int, int]) -> None:
        """Let one thing happen."""
        match step:
            case "move", partition, process:
                self.own(partition, process)
            case "drop", partition, _:
                self.own(partition, None)
            case "restart", process, _:
                self.restart(process)
            case "take", process, wanted:
                self.take(process, wanted)
            case "wait", ms, _:
                self.now += ms / 1000


@given(rate=rates, batch=batches, happened=steps)
@example(rate=10.0, batch=20, happened=[*SPREAD, ("wait", 3000, 0), ("wait", 3000, 0), *ALL])  # all are full
@example(rate=10.0, batch=20, happened=[*SPREAD, *ALL])  # all are new
def test_all_processes_together_keep_the_rate_whatever_they_own(
    rate: float, batch: int, happened: list[tuple[str, int, int]]
) -> None:
    cluster = Cluster(rate, batch)
    for step in happened:
        cluster.apply(step)
    processes = 4
    for first, (begin, _, _) in enumerate(cluster.took):
        taken, brought = 0, 0.0
        for then, count, started in cluster.took[first:]:
            taken, brought = taken + count, brought + started
            most = rate * (then - begin) + cluster.burst + processes + brought
            assert taken <= most + 1e-6, f"{taken} in {then - begin} s"


@given(rate=rates, owners=st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS))
def test_shares_that_make_up_the_whole_use_the_whole_rate(rate: float, owners: list[int]) -> None:
    cluster = Cluster(rate, 1)
    for partition, process in enumerate(owners):
        cluster.own(partition, process)
    end = cluster.now + 50 / rate
    while (due := min(bucket.due(cluster.now) for bucket in cluster.buckets.values())) <= end:
        cluster.now = due
        for process in cluster.buckets:
            cluster.take(process, 10_000)
    assert sum(count for _, count, _ in cluster.took) >= 50 - len(cluster.buckets)


@given(rate=rates, shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_a_changed_share_brings_no_tokens(rate: float, shares: list[float]) -> None:
    bucket = Bucket(rate, 1, now=0.0)
    bucket.take(10_000, now=0.0)
    for share in shares:
        bucket.change_share(share, now=0.0)
        assert bucket.take(10_000, now=0.0) == 0
    assert bucket.take(10_000, now=0.0) == 0
    assert bucket.take(10_000, now=3600.0) <= max(1.0, rate * 3600 * shares[-1])
