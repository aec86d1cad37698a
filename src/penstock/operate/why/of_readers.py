"""The answers of `why` for readers that are not groups, such as pipelines."""

from penstock.log.contract import Log, Position

from ..progress import GroupProgress
from ..readers import LogReader, progress_on
from . import sentences as say
from .answer import Code, QuestionKind
from .finding import Logged
from .reason import Reason
from .wording import ago, counted

_RUN = "penstock pipeline lake --to FOLDER"


def of_record(reader: LogReader, record: Logged, kind: QuestionKind) -> Reason | None:
    """Return whether a reader has read a record; None if it does not read that partition."""
    read = reader.has_read(record.topic, Position(record.partition, record.offset))
    if read is None:
        return None
    who = say.named(record, kind)
    if read:
        return Reason(Code.DELIVERED, f"{who} is in the tables of pipeline {reader.name}")
    before = record.offset - reader.places[record.topic][record.partition]
    behind = f", {counted(before, 'record')} before it" if before else ""
    text = f"{who} waits for pipeline {reader.name}: it has not read it yet{behind}"
    return Reason(Code.IN_WORK, text, commands=(_RUN,))


def of_whole(log: Log, reader: LogReader, now_ms: int) -> list[tuple[str, Reason]]:
    """Return the progress of a reader on each of its topics."""
    return [(each.topic.name, _behind(reader, each, now_ms)) for each in progress_on(log, [reader])]


def _behind(reader: LogReader, progress: GroupProgress, now_ms: int) -> Reason:
    where = f"pipeline {reader.name}", f"topic {progress.topic.name}"
    if not progress.lag:
        return Reason(Code.DELIVERED, f"{where[0]} has all of {where[1]} in its tables")
    oldest = "" if progress.oldest_ms is None else f", the oldest published {ago(progress.oldest_ms, now_ms)}"
    unread = counted(progress.lag, "record")
    text = f"{where[0]} has {unread} of {where[1]} to read{oldest}; retention keeps them for it"
    commands = (_RUN,)
    return Reason(Code.IN_WORK, text, since_ms=progress.oldest_ms, commands=commands)
