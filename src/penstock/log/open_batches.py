"""Opens the log of a store for record batches."""

from penstock.clock import SYSTEM, Clock

from .batches import BatchLog
from .sql.log import SqlLog
from .store import Store


def open_batches(store: Store, clock: Clock = SYSTEM, *, batch_bytes: int) -> BatchLog:
    """Return a store's log for record batches.

    `batch_bytes`: limit of one batch, unpacked where it is inspected. Raises MissingExtra, and the errors of
    a log that cannot be written.
    """
    if isinstance(store.log, SqlLog):
        from .sql.batches import SqlBatchLog

        return SqlBatchLog(store.log, clock, batch_bytes=batch_bytes)
    from .files.batch_log import FileBatchLog
    from .files.log import FileLog

    assert isinstance(store.log, FileLog)
    return FileBatchLog(store.log, clock, batch_bytes=batch_bytes)
