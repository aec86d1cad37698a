"""From an error to the first byte of an answer to TinyQ's clients: by its HTTP status, except for a few."""

from penstock import errors as e
from penstock.errors import Error
from penstock.errors.table import ErrorTable
from penstock.wire.tinyq.codes import TinyqCode as C

from ..statuses import STATUSES

_BY_STATUS = {401: C.REFUSED, 403: C.REFUSED, 408: C.LATE, 413: C.SIZE_INVALID, 421: C.REFUSED, 429: C.BUSY}


def _by_status(cls: type[Error]) -> C:
    status = STATUSES.of(cls)
    return _BY_STATUS.get(status, C.INTERNAL if status >= 500 else C.BODY_INVALID)


ANSWERS = ErrorTable(_by_status, {C.BUSY: (e.StoreLocked, e.StoreBusy, e.BufferFull, e.GatewayBusy, e.NotSettled)})


def answer_to(error: Error) -> C:
    """Return the code of an error for TinyQ's clients."""
    return ANSWERS.of(type(error))
