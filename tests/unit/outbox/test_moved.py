"""An outbox that stands in another store for a while, for tests."""

import pytest

from penstock import Outbox, Record
from penstock.testing import memory_outbox


def test_handlers_go_along_and_come_back() -> None:
    outbox, elsewhere = memory_outbox(), Outbox("memory://moved")
    elsewhere.migrate()
    seen: list[Record] = []
    outbox.handler(group="test", id="test")(seen.append)
    before = outbox.url
    with outbox.moved_to("memory://moved"):
        with outbox.transaction() as conn:
            outbox.publish(conn, "moved", 1)
        outbox.drain()
        assert [record.type for record in seen] == ["moved"]
    assert outbox.url == before
    assert outbox.drain().delivered == 0
    with pytest.raises(RuntimeError), outbox.moved_to("memory://moved"):
        raise RuntimeError
    with outbox.transaction() as conn:
        outbox.publish(conn, "here", 1)
    outbox.drain()
    assert [record.type for record in seen] == ["moved", "here"]
    outbox.close()
    elsewhere.close()
