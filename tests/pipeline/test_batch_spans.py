"""A batch of a pipeline stands in the traces of the records that it brought."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import Outbox
from tests.pipeline.test_command import a_command
from tests.services.collector import Told, collector, spans_of

TRACES = ("0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319c")
SPAN = "b7ad6b7169203331"
CANARY = "canary-77d0"


@pytest.mark.slow
@pytest.mark.spark
def test_a_trace_reaches_the_batch_that_brought_its_record_to_a_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox(url)
    outbox.migrate()
    with outbox.transaction() as conn:
        for number, trace in enumerate((*TRACES, None)):
            headers = {"traceparent": f"00-{trace}-{SPAN}-01"} if trace else {}
            outbox.publish(conn, "order.placed", {"card": CANARY}, key=f"o-{number}", headers=headers)
    outbox.drain()
    outbox.close()
    told: Told = []
    with collector(told) as address:
        settings = {"PENSTOCK_TRACING_ENDPOINT": address}
        words = ("lake", "--url", url, "--to", str(tmp_path / "lake"), "--once")
        printed, complaints = a_command(*words, env=settings).communicate()
    assert "done: 3 rows in 1 batches" in printed, complaints
    spans = spans_of(told)
    assert {span.name for span in spans} == {"penstock.load"}
    in_traces = [span for span in spans if span.parent_span_id.hex() == SPAN]
    assert sorted(span.trace_id.hex() for span in in_traces) == sorted(TRACES)
    (whole,) = (span for span in spans if not span.parent_span_id)
    assert {each.trace_id.hex() for each in whole.links} == set(TRACES)
    assert {each.span_id for span in in_traces for each in span.links} == {whole.span_id}
    said = {each.key: each.value for each in whole.attributes}
    assert said["records"].int_value == 3
    assert whole.end_time_unix_nano > whole.start_time_unix_nano
    assert CANARY not in str(told)
