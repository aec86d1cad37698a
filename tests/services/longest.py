"""Which tests take longest. They begin first: one that began last would let the other cores wait for it.

Seconds on two quiet cores, of a folder, a file or one test, the most particular name counts;
`scripts/test --slow --durations 60` tells them. They need not be exact: only the order counts, and whatever
is not named here comes after all that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest

Item = TypeVar("Item", bound=pytest.Item)
LONGEST_SECONDS = {
    # One after another, in one process: the first of them kills the driver of the lakes of all.
    "tests/pipeline/test_kill.py": 100,
    "tests/pipeline/test_upsert_lake.py": 99,
    "tests/pipeline/test_iceberg_command.py": 98,
    "tests/pipeline/test_bucket_command.py": 97,
    "tests/compat/test_install_lines.py": 59,
    "tests/pipeline/test_write_back_spark.py": 45,
    "tests/pipeline/test_cluster.py": 40,
    "tests/pipeline/test_lake_command.py": 36,
    "tests/faults/test_faults.py": 35,
    "tests/pipeline/": 30,  # Spark
    "tests/unit/cli/test_demo.py": 30,
    "tests/compat/test_fresh_clone.py": 25,
    "tests/upgrade/test_rolling.py": 25,
    "tests/crash/": 20,
    "tests/types/test_types.py": 20,
    "tests/kafka/test_kills.py": 15,
    "tests/gateway/test_kills.py": 20,
}


def longest_first(items: Sequence[Item]) -> list[Item]:
    """Return tests in the order in which they should begin; those of a file stay together, in their order."""
    return sorted(items, key=lambda item: -_seconds(item.nodeid))


def _seconds(nodeid: str) -> float:
    named = [name for name in LONGEST_SECONDS if nodeid.startswith(name)]
    return LONGEST_SECONDS[max(named, key=len)] if named else 0
