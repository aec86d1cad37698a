"""From an error to the number that Kafka's clients know: the Kafka port's own table.

An error that a client should retry gets a number that it retries; one that it cannot have caused gets
UNKNOWN_SERVER_ERROR. While the store is away, a coordinator has numbers of its own: clients relate
KAFKA_STORAGE_ERROR to a partition, and one that ends a transaction gives up after it.
"""

from penstock import errors as e
from penstock.errors import Error, Fault, InvalidBatch
from penstock.errors.base import ErrorTable
from penstock.wire.kafka.apis.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from penstock.wire.kafka.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
)
from penstock.wire.kafka.error_numbers import ErrorNumber as E

_ODD = E.UNKNOWN_SERVER_ERROR
_AWAY = E.KAFKA_STORAGE_ERROR  # clients ask for the leader again, wait, and retry


def _by_fault(cls: type[Error]) -> E:
    return _AWAY if cls.retryable and cls.fault is not Fault.CALLER else _ODD


ERROR_NUMBERS = ErrorTable(
    _by_fault,
    {
        E.INVALID_REQUEST: (e.InvalidInput, e.RequestError, e.InvalidRule, e.LeftOpen),
        E.INVALID_RECORD: (
            e.InvalidType,
            e.InvalidKey,
            e.InvalidHeaders,
            e.InvalidOwner,
            e.InvalidToken,
            e.TokenReused,
            e.InvalidValue,
            e.InvalidEnvelope,
            e.InvalidBatch,
            e.ForeignPartition,
        ),
        E.INVALID_TIMESTAMP: (e.InvalidTime,),
        E.INVALID_TOPIC_EXCEPTION: (e.InvalidTopic,),
        E.INVALID_PARTITIONS: (e.InvalidPartitions, e.InvalidGrowth),
        E.INVALID_CONFIG: (e.InvalidPartitioner, e.InvalidRetention, e.InvalidConfig),
        E.MESSAGE_TOO_LARGE: (e.ValueTooLarge, e.FrameTooLarge, e.BodyTooLarge, e.BatchTooLarge),
        E.CORRUPT_MESSAGE: (e.Undecodable, e.Damaged),  # as Apache Kafka: clients report it
        E.UNKNOWN_TOPIC_OR_PARTITION: (e.UnknownTopic, e.UnknownPartition, e.TopicVanished),
        E.TOPIC_ALREADY_EXISTS: (e.PartitionsDiffer, e.PartitionerDiffers),
        E.OFFSET_OUT_OF_RANGE: (e.OffsetOutOfRange,),
        E.POLICY_VIOLATION: (e.StillNeeded, e.TopicBusy),
        E.INVALID_PRODUCER_EPOCH: (e.ProducerFenced,),
        E.INVALID_PRODUCER_ID_MAPPING: (e.UnknownProducer,),
        E.OUT_OF_ORDER_SEQUENCE_NUMBER: (e.OutOfSequence,),
        E.INVALID_TXN_STATE: (e.InvalidTransaction,),
        E.CLUSTER_AUTHORIZATION_FAILED: (e.NotAllowed, e.ForeignPage),
        E.SASL_AUTHENTICATION_FAILED: (e.Unauthenticated,),
        E.THROTTLING_QUOTA_EXCEEDED: (e.RateLimited,),
        E.GROUP_ID_NOT_FOUND: (e.UnknownGroup,),
        E.INVALID_GROUP_ID: (e.GroupKindDiffers,),
        E.NON_EMPTY_GROUP: (e.GroupBusy,),
        _AWAY: (e.StoreError, e.StoreMissing, e.CommitOutcomeUnknown, e.CursorBeyondEnd),
        _ODD: (
            e.InvalidPolicy,
            e.InvalidOutcome,
            e.InvalidUrl,
            e.InvalidName,
            e.StoreUnsupported,
            e.BellUnheard,
            e.BodyLate,
            e.UnsupportedBody,
            e.NotConvertible,
            e.UnknownValueSchema,
            e.UnknownHost,
            e.NotSettled,
            e.PipelineError,
        ),
    },
)

_ASKS_AGAIN = (  # clients look up the coordinator again, which may have moved, and retry
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    END_TXN,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
# Some clients of these APIs do not know COORDINATOR_NOT_AVAILABLE: Java's look up the coordinator of a
# transactional id that does not exist, and aiokafka and older Java consumers fail.
_WAITS = (INIT_PRODUCER_ID, LIST_TRANSACTIONS, OFFSET_FETCH)
_COORDINATOR_AWAY = {each.key: E.COORDINATOR_NOT_AVAILABLE for each in _ASKS_AGAIN} | {
    each.key: E.COORDINATOR_LOAD_IN_PROGRESS for each in _WAITS
}


def number_of(error: Error, key: int | None = None) -> E:
    """Return Kafka's number of an error, in the answer to an API where that matters."""
    if isinstance(error, InvalidBatch) and error.is_damaged:  # clients send it again, but no other bad batch
        return E.CORRUPT_MESSAGE
    number = ERROR_NUMBERS.of(type(error))
    return _COORDINATOR_AWAY.get(key, number) if number is _AWAY and key is not None else number
