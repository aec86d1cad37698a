"""Programs about logs in files that run in processes of their own, to be killed or to be looked at.

    python -m bench.file_programs load|restart|partitions PATH COUNT

`load` appends until it is killed and writes a line for each round; the others write one JSON object.
"""

import json
import sys
import time
from pathlib import Path

from bench.memory import Resident
from bench.segments import BATCH_RECORDS, TOPIC, a_batch, append_all, opened, requests
from penstock.log.contract import OffsetRange


def load(path: Path, partitions: int) -> None:
    """Append until killed, with fsync."""
    with opened(path, "fsync") as (_, log):
        topic = log.topic(TOPIC)
        some = requests(partitions, partitions, a_batch())
        while True:
            append_all(log, topic, some)
            print("appended", flush=True)


def restart(path: Path, partitions: int) -> dict[str, float]:
    """Open all partitions for writing, append one batch and have it acknowledged."""
    begun = time.perf_counter()
    with opened(path, "fsync") as (_, log):
        topic = log.topic(TOPIC)
        ends = log.all_bounds(topic)
        append_all(log, topic, requests(1, 1, a_batch()))
        seconds = time.perf_counter() - begun
    assert len(ends) == partitions
    return {"restart_seconds": seconds}


def partitions(path: Path, count: int) -> dict[str, float]:
    """Append to every partition and read each again; say what is open and how much memory that took."""
    with opened(path, "os") as (_, log), Resident() as memory:
        before = memory.now_mb()
        topic = log.create_topic(TOPIC, partitions=count)
        append_all(log, topic, requests(count, count, a_batch(BATCH_RECORDS, 100)))
        ends = log.ends(topic)
        assert len(ends) == count
        for number in range(count):
            found = log.read_ranges(topic, [OffsetRange(number, 0, ends[number])], max_bytes=1 << 30)
            assert len(found.entries) == BATCH_RECORDS
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        return {
            "descriptors": descriptors,
            "memory_mb": memory.now_mb() - before,
            "peak_memory_mb": memory.peak_mb() - before,
        }


if __name__ == "__main__":
    name, path, count = sys.argv[1:]
    done = {"load": load, "restart": restart, "partitions": partitions}[name](Path(path), int(count))
    print(json.dumps(done))
