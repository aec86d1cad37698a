"""The real parts tests run against, and what happens when one is missing.

Each service is a plain class that knows nothing of pytest, so that `bench/` can start it too; its
fixture in `tests/conftest.py` turns "cannot be had" into `missing`.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """Say whether this run must have every service."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


def missing(service: str, reason: str) -> NoReturn:
    """Skip the test at home; fail it in CI, where a silent skip would hide a lost service."""
    sentence = f"{service} is missing: {reason}"
    if in_ci():
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
