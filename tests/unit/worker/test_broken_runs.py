"""A run of one key that breaks off: what follows is handed back before the verdict that may begin it anew."""

from datetime import timedelta

from penstock import Done, Retry
from penstock.clock import SYSTEM
from penstock.delivery.verdict import Parked, Verdict
from penstock.model.record import Record
from penstock.worker.calling.runner import Runner
from penstock.worker.handler import HandlerTask, TaskPlace
from tests.crash.waiting import wait_until
from tests.suites.records import a_record
from tests.unit.worker.test_runner import a_handler


def test_those_that_follow_come_back_before_the_verdict_that_ends_their_run() -> None:
    """A retry without delay is due at once: with a follower still out, its lane would be out twice."""
    found: list[tuple[int, Verdict | None]] = []

    def collect() -> None:
        """Look at the very moment the delivery loop is woken, in the handler's own thread."""
        found.extend((task.place.offset, verdict) for task, verdict in runner.finished())

    def handle(record: Record) -> Done | Retry:
        return Retry(timedelta(0))

    runner = Runner(threads=1, clock=SYSTEM, wake=collect)
    handler = a_handler(handle)
    last = HandlerTask(TaskPlace(0, 2), "k", handler, a_record(), 0)
    middle = HandlerTask(TaskPlace(0, 1), "k", handler, a_record(), 0, last, 1)
    runner.submit([HandlerTask(TaskPlace(0, 0), "k", handler, a_record(), 0, middle, 2)])
    try:
        wait_until(lambda: found, "results have come")
    finally:
        runner.close(1.0)
    assert [(offset, verdict is None) for offset, verdict in found] == [(1, True), (2, True), (0, False)]
    assert isinstance(found[-1][1], Parked)
