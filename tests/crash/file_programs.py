"""A program that writes a log in files, and says what was acknowledged; run in a process that is killed.

    python -m tests.crash.file_programs '{"path": …, "seed": …, "kill_at": …, "visit": …}'

Each line is one fact: `ack PARTITION OFFSET ID`; `erase PARTITION OFFSET`, before it is tried; `done`.
"""

import json
import os
import random
import sys
from threading import Lock, Thread

from penstock import points
from penstock.log.contract import OffsetRange, Position
from penstock.log.files.log import FileLog
from penstock.log.store import open_store
from tests.suites.records import a_record

PARTITIONS, WRITERS = 3, 3
_said = Lock()


def say(*words: object) -> None:
    """Write a fact in one call, so that a kill does not tear it."""
    with _said:
        os.write(1, (" ".join(map(str, words)) + "\n").encode())


def main(
    path: str,
    seed: int,
    rounds: int = 30,
    kill_at: str | None = None,
    visit: int = 1,
    durability: str = "fsync",
    segment_bytes: int = 4096,
    tends: bool = True,
) -> None:
    """Append from several threads, trim and erase unless told not to (`tends`), for some rounds."""
    os.environ["PENSTOCK_FILES_SEGMENT_BYTES"] = str(segment_bytes)
    os.environ["PENSTOCK_FILES_DURABILITY"] = durability
    store = open_store(path)
    log = store.log
    assert isinstance(log, FileLog)
    topic = log.create_topic("t", partitions=PARTITIONS)
    if kill_at is not None:
        points.arm(kill_at, points.kill, visit=visit)
    run = os.getpid()

    def write(number: int) -> None:
        source = random.Random(f"{seed} {number}")
        for turn in range(rounds):
            ids = [f"{run}-{number}-{turn}-{each}" for each in range(source.randint(1, 4))]
            data = b"v" * source.randint(0, 400)
            records = [a_record(f"k{source.randrange(9)}", id=id, data=data) for id in ids]
            for (partition, offset), id in zip(log.append("t", records), ids, strict=True):
                say("ack", partition, offset, id)

    threads = [Thread(target=write, args=[number], daemon=True) for number in range(WRITERS)]
    for each in threads:
        each.start()
    source = random.Random(seed)
    while any(each.is_alive() for each in threads):
        threads[source.randrange(WRITERS)].join(0.02)
        if not tends:
            continue
        partition = source.randrange(PARTITIONS)
        start, end = log.bounds("t", partition)
        if end - start > 60:
            log.trim(topic, [OffsetRange(partition, start, start + 15)])
        if end > start:
            offset = source.randrange(start, end)
            say("erase", partition, offset)
            log.erase(topic, [Position(partition, offset)])
    say("done")
    store.close()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
