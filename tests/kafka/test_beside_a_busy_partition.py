"""How long an honest producer waits beside a locked partition, and beside a large transaction: printed."""

from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from penstock.clock import SYSTEM
from tests.kafka.served import Served, ServedProcess
from tests.kafka.test_confluent import SECONDS
from tests.kafka.test_locked_partition import Sending, locked_heads, transacting

pytestmark = pytest.mark.slow

LOCKED_SECONDS = 3.0
RECORDS, TRANSACTIONS = 40_000, 3


class ServedApart(Served):
    """A broker in a process of its own; here is its store."""

    process: ServedProcess

    @property
    def address(self) -> str:
        """Where clients connect."""
        return self.process.address


@pytest.fixture
def served(postgres_store: str) -> Iterator[Served]:
    """Give a broker over PostgreSQL with a busy topic and a calm one."""
    made = ServedApart(postgres_store)
    made.topic("busy", 4)
    made.topic("calm")
    with ServedProcess(postgres_store) as made.process:
        yield made
    made.batches.close()
    made.store.close()


def _honest_waits(served: Served, connected: Event, ended: Event) -> list[float]:
    """Send one record after the other to a calm topic until something has ended; return the waits."""
    honest, waits = Sending(served), list[float]()
    honest.send("calm")
    assert honest.flush() == 0  # it is connected and has its id
    connected.set()
    while not ended.is_set() or not waits:
        begun = SYSTEM.monotonic()
        honest.send("calm")
        assert honest.flush() == 0
        waits.append(SYSTEM.monotonic() - begun)
    return sorted(waits)


def _lock(served: Served) -> None:
    waiting = Sending(served)
    with locked_heads(served, "busy"):
        waiting.send("busy", count=100)
        Event().wait(LOCKED_SECONDS)
    assert waiting.flush() == 0


def _transact(served: Served) -> None:
    pouring = transacting(served, "pouring")
    for transaction in range(TRANSACTIONS):
        if transaction:
            pouring.producer.begin_transaction()
        for number in range(RECORDS):
            pouring.producer.produce("busy", b"x" * 100, partition=number % 4)
        assert pouring.producer.flush(SECONDS * 4) == 0
        pouring.producer.commit_transaction(SECONDS * 4)


@pytest.mark.parametrize("beside", [_lock, _transact])
def test_an_honest_producer_is_served_beside_a_busy_partition(
    served: Served, beside: Callable[[Served], None], capsys: pytest.CaptureFixture[str]
) -> None:
    begun, ended = Event(), Event()

    def run() -> None:
        begun.wait()
        try:
            beside(served)
        finally:
            ended.set()

    thread = Thread(target=run)
    thread.start()
    waits = _honest_waits(served, begun, ended)
    thread.join()
    with capsys.disabled():
        median, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        name = f"\nbeside {beside.__name__.strip('_')}: {len(waits)} sent"
        print(f"{name}, median {median:.3f} s, p99 {p99:.3f} s, max {waits[-1]:.3f} s")
