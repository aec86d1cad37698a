"""No test sees the settings of the person who runs it."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

from tests.services import missing


def test_a_test_stands_in_its_own_folder(tmp_path: Path) -> None:
    assert Path.cwd() == tmp_path


def test_a_test_sees_no_settings_of_the_shell() -> None:
    seen = {name for name in os.environ if name.startswith(("PENSTOCK_", "PG"))}
    assert seen <= {"PENSTOCK_BUDGET", "PENSTOCK_SEED"}


def test_property_tests_have_no_deadline() -> None:
    assert hypothesis.settings().deadline is None


def test_a_missing_service_skips_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Redis is missing: no server"):
        missing("Redis", "no server")


def test_a_missing_service_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Redis is missing: no server"):
        missing("Redis", "no server")
