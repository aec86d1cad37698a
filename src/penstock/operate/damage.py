"""The doctor's check of a log in files: compares the files with their checksums.

It reads for about a second; `penstock log verify` reads everything.
"""

from penstock.log.files.lock import writer_pid
from penstock.log.files.log import FileLog
from penstock.log.files.verify import (
    Finding,
    Kind,
    PartitionWalk,
    Walked,
    check_identity,
    partition_folders,
    size_of,
    topic_folders,
)
from penstock.log.store import Store
from penstock.log.topics import topic_uuid

from .doctor import DoctorFinding, PartState

_PART, _ENABLES = "Log in files", "every reader of its topics"
_MOST_BYTES = 256 * 1024 * 1024
_MEGABYTE = 1_000_000


def examine_files(store: Store, most_bytes: int = _MOST_BYTES) -> list[DoctorFinding]:
    """Return the damage in a log in files; reads the smallest partitions first, `most_bytes` in total."""
    log = store.log
    if not isinstance(log, FileLog):
        return []
    path = log.directory.path
    written = writer_pid(path) is not None
    folders = [each for uuid, home in topic_folders(path).items() for each in partition_folders(uuid, home)]
    found: list[Finding] = list(check_identity(path))
    left, looked, walked = most_bytes, 0, Walked()
    for size, folder in sorted(((size_of(each), each) for each in folders), key=lambda pair: pair[0]):
        if size > left:
            break
        left -= size
        walk = PartitionWalk(folder, written=written)
        found += walk
        walked, looked = walked + walk.walked, looked + 1
    id = log.identity().id
    names = {topic_uuid(id, each.id): each.name for each in log.topics()}
    damaged = [
        DoctorFinding(
            _PART,
            PartState.BROKEN,
            f"{each.file if each.topic is None else f'{names.get(each.topic, each.topic)}/{each.partition}'} "
            f"is damaged: {each.why}",
            "these records and, for a Kafka client, those after them",
            "run penstock log verify for the exact place; restore that file from a backup",
        )
        for each in found
        if each.kind is Kind.DAMAGE
    ]
    damaged += [
        DoctorFinding(
            _PART,
            PartState.BROKEN,
            f"{each.file}: {each.why}",
            f"partition {each.partition}",
            "let the user that runs Penstock read that file",
        )
        for each in found
        if each.kind is Kind.UNREADABLE
    ]
    if damaged:
        return damaged
    of = "" if looked == len(folders) else f" of {len(folders)}; the rest: penstock log verify"
    result = f"no damage in {walked.bytes / _MEGABYTE:,.0f} MB, {looked} partitions{of}"
    return [DoctorFinding(_PART, PartState.OK, result, _ENABLES)]
