"""Parameters of which the fast set takes the first: each of them shows the same, the others make sure."""

from collections.abc import Iterable
from typing import Any

import pytest


def but_the_first(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Return values for `parametrize`; all but the first, or the first few, are slow."""
    listed = list(values)
    return [*listed[:count], *(_slow(each) for each in listed[count:])]


def _slow(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
