import io
import threading

from rich.console import Console

from bench.progress import Ticker


def drawn(*, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    threads = set(threading.enumerate())
    with Ticker(console) as ticker:
        ticker.begin("record", 5)
        ticker.step(0, "Record")
        ticker.step(2, "Record")
        assert set(threading.enumerate()) <= threads, "a bar that draws by itself spends our CPU"
    return text.getvalue()


def test_a_terminal_sees_case_round_and_variant() -> None:
    text = drawn(terminal=True)

    assert "record: warm-up, Record" in text
    assert "record: round 2 of 5, Record" in text


def test_elsewhere_progress_is_silent() -> None:
    assert drawn(terminal=False) == ""


def test_what_is_said_is_seen_everywhere() -> None:
    text = io.StringIO()
    with Ticker(Console(file=text, force_terminal=False, width=20)) as ticker:
        ticker.say("peer rival: making its virtual environment")

    assert text.getvalue() == "peer rival: making its virtual environment\n"


def test_one_ticker_serves_one_case_after_the_other() -> None:
    text = io.StringIO()
    ticker = Ticker(Console(file=text, force_terminal=True, width=100))
    for case in ("first", "second"):
        with ticker:
            ticker.begin(case, 1)
            ticker.step(1, "A")

    assert "second: round 1 of 1, A" in text.getvalue()
