"""Parameters of which the fast set takes the first: each of them shows the same, the others make sure."""

from collections.abc import Iterable
from typing import Any

import pytest


def but_the_first(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Return values for `parametrize`; all but the first, or the first few, are slow."""
    listed = list(values)
    return [*listed[:count], *(pytest.param(each, marks=pytest.mark.slow) for each in listed[count:])]
