"""Which tests take longest. They begin first: one that began last would let the other cores wait for it.

Seconds on two quiet cores, of a file or of one test; `scripts/test --slow --durations 60` tells them. They
need not be exact: only the order counts, and whatever is not named here comes after all that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

Item = TypeVar("Item", bound=pytest.Item)
LONGEST_SECONDS = {}


def longest_first(items: Sequence[Item]) -> list[Item]:
    """Return tests in the order in which they should begin; those of a file stay together, in their order."""
    return sorted(items, key=lambda item: -_seconds(item.nodeid))


def _seconds(nodeid: str) -> float:
    test, file = nodeid.partition("[")[0], nodeid.partition("::")[0]
    return LONGEST_SECONDS.get(test) or LONGEST_SECONDS.get(file, 0)
