"""`penstock events show`: what is known of one event, for people and for programs."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.cli import main
from tests.suites.refusal import refusal

Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Give an outbox whose store commands find in the environment."""
    monkeypatch.setenv("PENSTOCK_URL", f"sqlite:///{tmp_path}/shop.db")
    made = Outbox(f"sqlite:///{tmp_path}/shop.db")
    made.migrate()
    return made


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Give a way to show an event."""

    def command(*args: str) -> tuple[int, str, str]:
        code = refusal(SystemExit, main, ["events", "show", *args]).code
        printed = capsys.readouterr()
        return code if isinstance(code, int) else 0, printed.out, printed.err

    return command


def published(outbox: Outbox, value: object, content: str | None = None) -> str:
    """Publish one event."""
    headers = {"tenant": "a\nb"} | ({} if content is None else {"content-type": content})
    with outbox.transaction() as conn:
        return outbox.publish(conn, "order.placed", value, key="o-1", headers=headers, owner="ada")


@pytest.mark.parametrize(
    ("value", "content", "words"),
    [
        ({"total": 42}, None, 'value:      {"total":42}\n'),
        ("x" * 50, None, f'value:      "{"x" * 19} … (52 bytes; --max-bytes shows more)\n'),
        (b"hello \x1b[31m", "text/plain", "value:      hello \\x1b[31m\n"),
        (b"\x00\xff", None, "value:      hex 00 ff\n"),
        (b"\xff" * 30, "text/plain", f"value:      hex {' '.join(['ff'] * 20)} … (30 bytes;"),
        (b"not json", "application/json", "value:      hex 6e 6f 74"),
        (None, None, "value:      none, a tombstone\n"),
    ],
)
def test_a_value_is_shown_as_json_text_or_hex_within_a_bound(
    outbox: Outbox, show: Show, value: object, content: str | None, words: str
) -> None:
    code, out, err = show(published(outbox, value, content), "--max-bytes", "20")
    assert (code, err) == (0, "")
    assert words in out
    assert 'headers:    {"tenant":"a\\nb"}\n' in out
    assert "key:        o-1\n" in out
    assert "place:      staged\n" in out
    assert "is not in the log yet" in out


def test_programs_get_all_of_it(outbox: Outbox, show: Show) -> None:
    id = published(outbox, b"\xff" * 30)
    code, out, _ = show(id, "--json", "--max-bytes", "1")
    told = json.loads(out)
    assert code == 0
    assert (told["id"], told["place"], told["offset"], told["owner"]) == (id, "staged", None, "ada")
    assert told["data_base64"] == "/" * 40
    assert [each["code"] for each in told["groups"]] == ["not_sequenced"]


def test_a_scheduled_event_says_when_it_is_due(outbox: Outbox, show: Show) -> None:
    with outbox.transaction() as conn:
        id = outbox.publish(conn, "order.remind", 1, at=timedelta(hours=1))
    out = show(id)[1]
    assert "place:      scheduled\n" in out
    assert "due:        20" in out
    assert "key:" not in out


@pytest.mark.usefixtures("outbox")
def test_an_event_that_is_nowhere_is_said_to_be(show: Show) -> None:
    code, out, err = show("01a1e786-49a8-74fc-978f-7d921b97b15a")
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no record 01a1e786-49a8-74fc-978f-7d921b97b15a: it was never published")
