"""Owners of a group's partitions that a test moves by hand: they stop in the middle of their work, or die."""

from collections.abc import Callable
from typing import Any

from penstock import Record
from penstock.delivery.notes import CatchUp
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Passed, Verdict
from penstock.worker.group.delivery import GroupDelivery
from tests.conformance.engines import StoreEngine

WITHIN_MS = 3_600_000


def an_owner(engine: StoreEngine, group: str, name: str, *types: str, **options: Any) -> GroupDelivery:
    """Return a version of the program with handlers for some types; it has taken what it can and read."""
    outbox = engine.another()
    for type in types:
        outbox.handler(type, group=group, id=type, **options)(lambda record: None)
    (subscription,) = outbox._handlers.subscriptions()
    topic = outbox.log.topic("events")
    store = GroupStore(
        outbox.store,
        engine.clock,
        group=group,
        topic=topic,
        owner=name,
        catch_up=CatchUp(subscription.wants, WITHIN_MS),
    )
    delivery = GroupDelivery(outbox.log, store, subscription, engine.clock)
    delivery.take(lambda tx: [name])
    delivery.fill(outbox.log.ends(topic))
    delivery.settle()
    return delivery


def work(owner: GroupDelivery, judge: Callable[[Record], Verdict | None] = lambda record: Passed()) -> list[Record]:
    """Hand out the head of each lane, and end each as a function says, None: it is not begun.

    Return those that were begun.
    """
    begun = []
    for task in owner.start(1000):
        verdict = judge(task.record)
        owner.finish(task, verdict)
        if verdict is not None:
            begun.append(task.record)
    return begun


def stop(owner: GroupDelivery) -> None:
    """Let an owner give back all in an orderly way."""
    owner.let_go()
    owner.settle()
    owner.release_idle()
