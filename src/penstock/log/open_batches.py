"""The log of a store by batches: the one door to it."""

from penstock.clock import SYSTEM, Clock

from .batches import BatchLog
from .sql.log import SqlLog
from .store import Store


def open_batches(store: Store, clock: Clock = SYSTEM, *, batch_bytes: int) -> BatchLog:
    """Return a store's log by batches; `batch_bytes`: the most of one batch, unpacked where it is.

    Raises MissingExtra, and what a log raises that cannot be written.
    """
    if isinstance(store.log, SqlLog):
        from .sql.batches import SqlBatchLog

        return SqlBatchLog(store.log, clock, batch_bytes=batch_bytes)
    from .files.batch_log import FileBatchLog
    from .files.log import FileLog

    assert isinstance(store.log, FileLog)
    return FileBatchLog(store.log, clock, batch_bytes=batch_bytes)
