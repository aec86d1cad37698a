"""Why a record failed, from the error's last cause to its first, in what is stored and in the log."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from penstock import Fixed, Record
from tests.conformance.engines import StoreEngine

CHAIN = "ConnectionResetError: socket closed <- OSError: card declined <- RuntimeError: order failed"


def fail(record: Record) -> None:
    """Fail with causes, one of them only by context."""
    try:
        try:
            raise ConnectionResetError("socket closed")
        except ConnectionResetError:
            raise OSError("card declined")  # noqa: B904 (the point of it)
    except OSError as error:
        raise RuntimeError("order failed") from error


def test_the_stored_reason_and_the_log_hold_the_whole_chain_root_cause_first(
    engine: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    retry = Fixed(timedelta(seconds=1), max_retries=1)
    engine.outbox.handler(group="g", id="fail", retry=retry)(fail)
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, key="k")
        conn.commit()
    with caplog.at_level(logging.WARNING, "penstock.handlers"):
        assert engine.outbox.drain().retried == 1
        assert stored(engine, "lane") == [CHAIN]
        engine.clock.advance(timedelta(seconds=1))
        assert engine.outbox.drain().dead == 1
    assert stored(engine, "dead") == [CHAIN]
    again, final = (record for record in caplog.records if record.name == "penstock.handlers")
    assert CHAIN in again.getMessage()
    assert CHAIN in final.getMessage()
    assert final.exc_info is not None
    assert [words in caplog.text for words in ("socket closed", "card declined")] == [True, True]


def stored(engine: StoreEngine, table: str) -> list[str]:
    """Return the reasons that a table holds."""
    with engine.connect() as conn:
        return [row[0] for row in conn.execute(f"SELECT reason FROM penstock_{table}").fetchall()]
