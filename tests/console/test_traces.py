"""The link from a key to the trace in which a record was published."""

from __future__ import annotations

import pytest

from penstock import Outbox
from penstock.errors import SettingOutOfRange
from tests.console.served import ServedConsole

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_record_of_a_key_leads_to_its_trace(sqlite_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(sqlite_store)
    outbox.migrate()
    with outbox.transaction() as conn:
        for parent in (f"00-{TRACE}-b7ad6b7169203331-01", '00-"><script>x</script>-1-01'):
            outbox.publish(conn, "order.placed", {}, key="o-1", headers={"traceparent": parent})
    outbox.drain()
    outbox.close()
    with ServedConsole(sqlite_store) as console:
        assert "trace" not in console.get("key", key="o-1").text.partition("<main")[2]
    monkeypatch.setenv("PENSTOCK_CONSOLE_TRACE_URL", "https://jaeger.example/trace/{trace_id}?a=1&b=2")
    with ServedConsole(sqlite_store) as console:
        page = console.get("key", key="o-1").text
    assert f'href="https://jaeger.example/trace/{TRACE}?a=1&amp;b=2"' in page
    assert page.count("jaeger.example") == 1, "what is no id of a trace leads nowhere"


@pytest.mark.parametrize("url", ["javascript:alert({trace_id})", "https://jaeger.example/", "{trace_id}"])
def test_an_address_that_is_none_is_refused(url: str, sqlite_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CONSOLE_TRACE_URL", url)
    with pytest.raises(SettingOutOfRange, match="http:// or https://"):
        ServedConsole(sqlite_store)
