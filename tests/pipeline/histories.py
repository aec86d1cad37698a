"""Changes of some keys, and what is left of them in the end: for the tests of upserts."""

from __future__ import annotations

import json
import random

from penstock import Record
from tests.pipeline.stores import LogStore
from tests.suites.records import a_record

TYPES = ("order", "item")


def a_history(many: int, seed: int, first: int = 0) -> list[Record]:
    """Return changes of some keys, some of which are deleted, perhaps to come again."""
    rng = random.Random(seed)
    return [
        a_record(
            key=f"k-{rng.randint(0, 30)}",
            type=rng.choice(TYPES),
            data=None if rng.random() < 0.2 else json.dumps({"n": n}).encode(),
        )
        for n in range(first, first + many)
    ]


def expected(store: LogStore) -> dict[str, dict[str, bytes]]:
    """Return the latest value of each key by type, computed in the plainest way from the log."""
    last: dict[tuple[str, str], tuple[int, int, bytes | None]] = {}
    for (partition, offset), record in store.records().items():
        if record.key is None:
            continue  # it is rejected
        where = (record.type or "", record.key)
        last[where] = max(last.get(where, (-1, -1, None)), (partition, offset, record.data), key=lambda each: each[:2])
    found: dict[str, dict[str, bytes]] = {name: {} for name in TYPES}
    for (type_name, key), (_, _, data) in last.items():
        if data is not None and type_name in found:
            found[type_name][key] = data
    return found
