"""No request holds the loop of the Kafka port for long, whatever list it brings and whoever sends it.

Counted in the loop itself: the CPU time of its thread in each step, so that a busy machine blurs nothing.
"""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from penstock.access.access import Access
from penstock.access.audit_trail import AuditTrail
from penstock.access.policy import AccessPolicy
from penstock.access.rule import parse_rule
from penstock.broker.garbage import collect_rarely
from penstock.clock import SYSTEM, cpu_seconds
from penstock.wire.kafka.apis.cluster import FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import DESCRIBE_GROUPS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.apis.topics import METADATA
from tests.kafka.long_lists import LongRequest, long_requests
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served

LONGEST_SECONDS = 0.010
HALF = 0.55  # and what every step costs beside
REQUESTS = list(long_requests())
_REPRODUCED = {
    (METADATA.name, "topics"),
    (FIND_COORDINATOR.name, "coordinator_keys"),
    (DESCRIBE_GROUPS.name, "groups"),
}


class LoopWatch:
    """The CPU seconds of each step of a loop."""

    def __init__(self, served: Served) -> None:
        self._served, self.steps, self.began = served, list[float](), SYSTEM.monotonic()

    def clear(self) -> None:
        """Begin to count."""
        self.steps, self.began = [], SYSTEM.monotonic()

    def run(self, handle: Any, run: Any) -> None:
        """Run a step of a loop, and count it if it is the broker's."""
        if get_ident() != self._served.broker._loop_thread:
            run(handle)
            return
        before = cpu_seconds()
        run(handle)
        self.steps.append(cpu_seconds() - before)

    def check(self) -> None:
        """Fail if a step was long, or all of them together took more than half of the time."""
        passed = SYSTEM.monotonic() - self.began
        assert max(self.steps) < LONGEST_SECONDS, f"a step of {max(self.steps) * 1000:.1f} ms"
        busy = sum(self.steps) / passed
        assert busy < HALF or sum(self.steps) < 2 * LONGEST_SECONDS, f"{busy:.0%} of the loop"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, LoopWatch]]:
    folder: Path = tmp_path_factory.mktemp("occupied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.broker.broker.uvloop", None)
        served = Served(f"sqlite:///{folder}/store.db")
        served.store.log.create_topic("orders", partitions=2)
        watch, run = LoopWatch(served), asyncio.Handle._run
        patch.setattr(asyncio.Handle, "_run", lambda handle: watch.run(handle, run))
        served.broker.access.trail = trail = AuditTrail(folder / "audit.jsonl")
        trail.open()
        thresholds = gc.get_threshold()
        collect_rarely()  # as `penstock serve` does
        with served:
            yield served, watch
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        trail.close()


def _ask(served: Served, asked: LongRequest, count: int) -> bytes:
    with RawClient(served.address, 120) as client:
        body = asked.api.encode_request(asked.message(count), asked.version)
        client.send(frame(asked.api, asked.version, body))
        return client.receive()


def _locked(access: Access) -> None:
    access.install(AccessPolicy(rules=(parse_rule("allow ops * * *"),)))


@pytest.mark.parametrize(
    "asked", [each for each in REQUESTS if (each.api.name, ".".join(each.path)) in _REPRODUCED], ids=str
)
def test_a_list_of_somebody_without_rights_holds_up_nobody(
    watched: tuple[Served, LoopWatch], asked: LongRequest
) -> None:
    served, watch = watched
    _locked(served.broker.access)
    watch.clear()
    assert _ask(served, asked, 10_000)
    watch.check()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [each for each in REQUESTS if each.api not in (FETCH, PRODUCE)], ids=str)
@pytest.mark.parametrize("locked", [True, False], ids=["without-rights", "with-all-rights"])
def test_no_list_of_any_request_holds_the_loop(
    watched: tuple[Served, LoopWatch], asked: LongRequest, locked: bool
) -> None:
    served, watch = watched
    if locked:
        _locked(served.broker.access)
    else:
        served.broker.access.install(AccessPolicy())
    watch.clear()
    _ask(served, asked, 8_000 if locked else 1_000)
    watch.check()


def test_a_fetch_of_a_thousand_partitions_holds_the_loop_for_no_longer(
    watched: tuple[Served, LoopWatch],
) -> None:
    served, watch = watched
    asked = LongRequest(FETCH, 11, ("topics",))
    _locked(served.broker.access)
    watch.clear()
    assert _ask(served, asked, 1_000)
    watch.check()
