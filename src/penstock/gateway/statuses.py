"""From an error to the HTTP status: the REST door's own table.

An error that the caller can mend is 4xx; one that passes with time is 503, with `Retry-After`; one that a
caller of this door cannot have caused is 500.
"""

from penstock import errors as e
from penstock.errors import Error, Fault
from penstock.errors.base import ErrorTable


def _by_fault(cls: type[Error]) -> int:
    return 503 if cls.retryable or cls.fault is Fault.OUTSIDE else 500


STATUSES = ErrorTable(
    _by_fault,
    {
        400: (e.InvalidInput, e.EventTypeError, e.InvalidGrowth, e.RequestError, e.InvalidSchedule, e.InvalidRule),
        401: (e.Unauthenticated,),
        403: (e.NotAllowed, e.ForeignPage),
        404: (
            e.UnknownTopic,
            e.UnknownPartition,
            e.TopicVanished,
            e.UnknownScheduled,
            e.UnknownEvent,
            e.UnknownValueSchema,
            e.UnknownProducer,
            e.UnknownGroup,
            e.UnknownLease,
            e.UnknownDeadLetter,
            e.UnknownSchedule,
            e.UnknownRule,
        ),
        408: (e.BodyLate,),
        409: (
            e.NoOutbox,
            e.StoreUnsupported,
            e.PartitionsDiffer,
            e.PartitionerDiffers,
            e.ProducerFenced,
            e.OutOfSequence,
            e.StillNeeded,
            e.TopicBusy,
            e.InvalidTransaction,
            e.GroupKindDiffers,
            e.GroupBusy,
            e.SchedulePaused,
            e.ScheduleInUse,
            e.LeftOpen,
        ),
        413: (e.ValueTooLarge, e.FrameTooLarge, e.BodyTooLarge, e.BatchTooLarge),
        415: (e.UnsupportedBody, e.NotConvertible),
        416: (e.OffsetOutOfRange,),
        421: (e.UnknownHost,),
        422: (e.TokenReused,),  # as the Idempotency-Key draft demands for a key with another body
        429: (e.RateLimited,),
        500: (e.SequenceCached, e.WrongEncoding, e.BellUnheard, e.Damaged, e.HandlerTimeout, e.PipelineError),
        503: (e.SchemaError, e.StoreReplaced),
    },
)


def status_of(error: Error) -> int:
    """Return the HTTP status of an error."""
    return STATUSES.of(type(error))
