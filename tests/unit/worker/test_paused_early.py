"""A group that has joined before any event is there for people already."""

from __future__ import annotations

import pytest

from penstock import Outbox, Record
from penstock.operate.groups import groups, pause, resume
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.working import working


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_group_is_paused_before_its_first_event(engine: StoreEngine) -> None:
    outbox = Outbox(engine.url)
    seen: list[int] = []

    @outbox.handler("t", group="early", topic="later")
    def handle(record: Record) -> None:
        seen.append(record.value)

    def is_known() -> bool:
        return any(each.name == "early" for each in groups(outbox.store).items)

    with working(outbox):
        wait_until(is_known, "the group is there, though its topic is not")
        assert pause(outbox.store, "early")
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", 1, topic="later", key="k")
        wait_until(lambda: "later" in [each.name for each in outbox.log.topics()], "the topic is there")
        assert resume(outbox.store, "early")
        wait_until(lambda: seen == [1], "it goes on")
    outbox.close()
