"""Errors of topics, partitions and offsets."""

from .base import Error, Fault, shown


class LogError(Error, code="log", fault=Fault.CALLER):
    """A topic, a partition or an offset is not as the call expects."""


class UnknownTopic(LogError, code="unknown_topic"):
    """There is no topic of that name."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"there is no topic {shown(name)}; `penstock topics list` shows the topics{hint}")


class UnknownPartition(LogError, code="unknown_partition"):
    """The topic has no partition of that number."""

    def __init__(self, topic: str, partition: object, partitions: int) -> None:
        super().__init__(f"topic {shown(topic)} has partitions 0 to {partitions - 1}, not {shown(partition)}")


class PartitionsDiffer(LogError, code="partitions_differ"):
    """A topic of that name exists with another partition count."""

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions, not {wanted}; an existing topic is not changed: "
            "add partitions with `penstock topics grow`"
        )


class InvalidGrowth(LogError, code="invalid_growth"):
    """A topic grows only to a multiple of its count: each new partition then takes keys of one old one."""

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions and cannot have {wanted}: it grows only to a "
            f"multiple, such as {2 * found} or {4 * found}, and never shrinks"
        )


class PartitionerDiffers(LogError, code="partitioner_differs"):
    """A topic of that name exists with another partitioner."""

    def __init__(self, topic: str, found: str, wanted: str) -> None:
        super().__init__(
            f"topic {shown(topic)} places its keys by {found}, not by {wanted}; the partitioner is fixed "
            "when a topic is created, since keys would change partitions"
        )


class OffsetOutOfRange(LogError, code="offset_out_of_range"):
    """An offset lies before the first kept record, or beyond the end."""

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"topic {shown(topic)} partition {partition} holds offsets from {start} up to {end} (exclusive), "
            f"not {offset}"
        )
        self.start, self.end = start, end


class ProducerFenced(LogError, code="producer_fenced"):
    """A producer of the same id has appended in a later epoch: drop the work, write nothing."""

    def __init__(self, producer: str, epoch: int, found: int) -> None:
        super().__init__(f"producer {shown(producer)} has left epoch {epoch}: a producer of epoch {found} has appended")


class OutOfSequence(LogError, code="out_of_sequence"):
    """A producer's batch neither follows its last one nor repeats it: something is lost or reordered."""

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(
            f"producer {shown(producer)} sent a batch that begins at {sequence}, but {expected} comes next: "
            "an earlier batch was lost or reordered"
        )


class Damaged(LogError, code="damaged", fault=Fault.OUTSIDE):
    """Stored bytes are corrupt, not served and not deleted. `until`: the first offset after them, where known."""

    def __init__(self, where: str, position: int, offset: int, why: str, until: int | None = None) -> None:
        _, _, behind = where.partition("/")
        number = behind.partition("/")[0]
        super().__init__(
            f"{where} is damaged at byte {position}, from offset {offset} on: {why}; the other records are "
            "served and nothing was deleted; restore a backup of that file, or let a group continue "
            "at the offset that penstock log verify names, without the records before it: "
            f"penstock groups reset GROUP --partition {number if number.isdecimal() else 'N'} --to OFFSET"
        )
        self.where, self.position, self.offset, self.why, self.until = where, position, offset, why, until


class StillNeeded(LogError, code="still_needed", fault=Fault.OURS, retryable=True):
    """A group has moved back to records that were about to be deleted: none is deleted."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"a group has moved back to old records of topic {shown(topic)}: none is deleted")


class TopicBusy(LogError, code="topic_busy", retryable=True):
    """A topic is not deleted while members serve it."""

    def __init__(self, topic: str, members: list[str]) -> None:
        super().__init__(
            f"topic {topic} is served by {len(members)} members ({shown(', '.join(members))}): stop them "
            "first, or force it"
        )


class UnknownScheduled(LogError, code="unknown_scheduled"):
    """No event of that id is scheduled: it is in the log, was cancelled, or never existed."""

    def __init__(self, id: str) -> None:
        super().__init__(f"no event {shown(id)} is scheduled; perhaps it came due: see `penstock why`")


class UnknownEvent(LogError, code="unknown_event"):
    """No event of that id was found."""


class PartsMissing(LogError, code="parts_missing", fault=Fault.OURS, retryable=True):
    """Parts of a staged write are missing or incomplete, so none of them is released."""

    def __init__(self, parts: int) -> None:
        super().__init__(
            f"a write in {parts} parts is incomplete, so none of them was released: a part that stays "
            "unreleased for a day is removed; the write is repeated"
        )


class WriteOutOfOrder(LogError, code="write_out_of_order"):
    """A job's write neither follows its last one nor repeats it."""

    def __init__(self, application: str, epoch: int, last: int | None, follows: bool = True) -> None:
        who = f"application {shown(application)}"
        if not follows and epoch == last:
            text = (
                f"{who} writes version {epoch} a second time with other records, so nothing was written: the "
                "checkpoint is an older copy; restore the newest one, or write under another txnAppId"
            )
        elif not follows:
            text = (
                f"{who} writes version {epoch} after version {last}, so nothing was written: versions must "
                "grow; give a repeated job its own version again, and a backfill another txnAppId"
            )
        elif last is None:
            text = (
                f"{who} releases batch {epoch}, but this log has no batch of it, so nothing was released: "
                "this log was taken back, for instance by a restored backup, or the checkpoint has served "
                "another sink; start a new checkpoint at the end of the log (startingOffsets)"
            )
        else:
            text = (
                f"{who} releases batch {epoch}, but the last one in this log is {last}, so nothing was "
                "released: another driver uses the same checkpoint (end one of them), or the checkpoint or "
                "this log was taken back, for instance by a restored backup; then start a new checkpoint at "
                "the end of the log (startingOffsets)"
            )
        super().__init__(text)


class MapChanged(LogError, code="map_changed", fault=Fault.OURS, retryable=True):
    """A topic grew while records were being moved to it: they are assigned to partitions again."""

    def __init__(self) -> None:
        super().__init__("the topic grew during the move; its records are assigned to partitions again")


class TopicVanished(LogError, code="topic_vanished", fault=Fault.OURS, retryable=True):
    """A topic was deleted while records were being moved to it; the move is retried."""

    def __init__(self) -> None:
        super().__init__("a topic was deleted while records were being moved to it; the move is retried")


class PickChanged(Error, code="pick_changed", retryable=True):
    """Another transaction removed rows picked for the log; the move is retried."""

    def __init__(self, picked: int, found: int) -> None:
        super().__init__(f"of {picked} rows picked for the log, {found} still existed; the move is retried")
