"""Turns records that a machine handed out into tasks for their handlers."""

from collections.abc import Sequence

from msgspec import structs

from penstock.delivery.lane import is_late
from penstock.delivery.machine import Delivery

from ..task import HandlerTask, TaskPlace
from .partition_work import PartitionWork, Taken, pass_unhandled


def tasks_of(taken: Sequence[Taken]) -> list[HandlerTask]:
    """Return a task for the head of each run, linked with those that follow it."""
    tasks: list[HandlerTask] = []
    begin, count = 0, len(taken)
    while begin < count:
        work, head = taken[begin]
        end = begin + 1
        while end < count and taken[end][1].lane == head.lane and taken[end][0] is work:
            end += 1
        task = _run(work, [each for _, each in taken[begin:end]])
        if task is not None:
            tasks.append(task)
        begin = end
    return tasks


def task_of(
    work: PartitionWork, delivery: Delivery, following: HandlerTask | None = None, more: int = 0
) -> HandlerTask:
    """Return the task for a handed-out record, with the record as its handler receives it."""
    record, handler = work.records[delivery.offset]
    if delivery.again or work.is_doubtful(delivery.offset):
        record = structs.replace(record, attempt=delivery.failures + 1, redelivered=True)
    if is_late(delivery.lane):
        record = structs.replace(record, late=True)
    place = TaskPlace(work.number, delivery.offset)
    return HandlerTask(
        place, delivery.lane, handler, record, delivery.failures, following, more, work.topic_id
    )


def _run(work: PartitionWork, run: list[Delivery]) -> HandlerTask | None:
    """Return the tasks of one run, as far as they are for the same handler; take the rest back."""
    records, machine = work.records, work.machine
    known = records.get(run[0].offset)
    kept = 1
    if known is not None and known[1].is_plain:
        while kept < len(run) and (other := records.get(run[kept].offset)) and other[1] is known[1]:
            kept += 1
    for each in run[kept:]:
        machine.untake(each.offset)
    if known is None:  # its topic or its handler is gone
        pass_unhandled(work, run[0])
        return None
    task: HandlerTask | None = None
    for more, delivery in enumerate(reversed(run[:kept])):
        task = task_of(work, delivery, task, more)
    return task
