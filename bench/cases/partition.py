"""What it costs to find the partition of a key."""

from collections.abc import Iterator
from contextlib import contextmanager

import mmh3

from bench import Case, Ratio, Run, Size, Target, Variant
from penstock.model.partition import key_hash, partition

_KEYS = 10_000
_PARTITIONS = 48


@contextmanager
def keys(run: Run) -> Iterator[list[str]]:
    """Give as many keys as there are records, repeating from ten thousand."""
    few = [f"order-{number}" for number in range(_KEYS)]
    yield [few[at % _KEYS] for at in range(run.records)]


def by_penstock(run: Run, keys: list[str]) -> None:
    """Hash each key and take its partition."""
    for key in keys:
        partition(key_hash(key), _PARTITIONS)


def by_mmh3(run: Run, keys: list[str]) -> None:
    """Only hash each key."""
    for key in keys:
        mmh3.hash(key)


CASE = Case(
    name="partition",
    about="from a key to its partition beside the bare hash function",
    records=Size(quick=1_000_000, full=5_000_000),
    variants=[
        Variant("key_hash + partition", by_penstock, setup=keys),
        Variant("mmh3.hash", by_mmh3, setup=keys),
    ],
    targets=[
        Target("cpu", Ratio("key_hash + partition", "mmh3.hash", "cpu_us"), at_most=5),
    ],
)
