"""The kit for tests: a clock in the hand, errors asked for, records made, suites that need no framework."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from penstock.clock import Clock
from penstock.testing import FakeClock
from tests.suites.records import a_record, some_records
from tests.suites.refusal import refusal
from tests.unit.ground.child import SOURCE


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    kept: Clock = clock
    assert kept.now_ms() == clock.now_ms() == 1_893_456_000_000
    began = clock.monotonic()
    clock.advance(timedelta(seconds=90, milliseconds=5))
    assert clock.now_ms() == 1_893_456_090_005
    assert clock.monotonic() - began == pytest.approx(90.005)
    assert clock.now() == datetime(2030, 1, 1, 0, 1, 30, 5_000, tzinfo=UTC)


def test_a_fake_clock_does_not_run_backwards() -> None:
    with pytest.raises(AssertionError, match="backwards"):
        FakeClock().advance(timedelta(seconds=-1))


def test_a_refusal_is_the_error_itself() -> None:
    error = refusal(ValueError, int, "x", base=10)
    assert "invalid literal" in str(error)


def test_a_refusal_that_does_not_come_fails() -> None:
    with pytest.raises(AssertionError, match="ValueError was expected, 5 was returned"):
        refusal(ValueError, int, "5")


def test_another_error_is_not_taken_for_the_refusal() -> None:
    with pytest.raises(TypeError):
        refusal(KeyError, int, None)


def test_records_differ_by_their_ids() -> None:
    assert len({record.id for record in some_records(5)}) == 5
    assert a_record("k", b"v", type="x", id="mine").id == "mine"


@pytest.mark.slow
def test_the_suites_can_be_used_without_pytest() -> None:
    """They ask with plain asserts; whoever runs them brings the framework."""
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from penstock import Outbox\n"
        "from tests.suites.log_suite import LogSuite\n"
        "import tests.suites.handling_suite\n"
        "suite = LogSuite()\n"
        "for name in sorted(dir(suite)):\n"
        "    if name.startswith('test_') and 'thousands' not in name:\n"
        "        outbox = Outbox('memory://'); outbox.migrate()\n"
        "        getattr(suite, name)(outbox.log); outbox.close()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": str(SOURCE)})
