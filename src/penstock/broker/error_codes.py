"""From an error to the number that Kafka's clients know: the Kafka port's own table.

An error that a client should retry gets a number that it retries; one that it cannot have caused gets
UNKNOWN_SERVER_ERROR. While the store is away, a coordinator has numbers of its own: clients relate
KAFKA_STORAGE_ERROR to a partition, and one that ends a transaction gives up after it.
"""

from penstock import errors as e
from penstock.errors import Error, Fault, InvalidBatch
from penstock.errors.base import ErrorTable
from penstock.wire.kafka.apis import groups, transactions
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.layout import Message

from .call import Refused

_LONGEST_MESSAGE = 1000  # characters of a message: it may quote a name
_ODD = E.UNKNOWN_SERVER_ERROR
_AWAY = E.KAFKA_STORAGE_ERROR  # clients ask for the leader again, wait, and retry


def _by_fault(cls: type[Error]) -> E:
    return _AWAY if cls.retryable and cls.fault is not Fault.CALLER else _ODD


ERROR_NUMBERS = ErrorTable(
    _by_fault,
    {
        E.INVALID_REQUEST: (e.InvalidInput, e.RequestError, e.InvalidRule, e.LeftOpen),
        E.INVALID_RECORD: (
            *(e.InvalidType, e.InvalidKey, e.InvalidHeaders, e.InvalidOwner, e.InvalidToken, e.TokenReused),
            *(e.InvalidValue, e.InvalidEnvelope, e.InvalidBatch, e.ForeignPartition),
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
            *(e.InvalidPolicy, e.InvalidOutcome, e.InvalidUrl, e.InvalidName, e.StoreUnsupported),
            *(e.BellUnheard, e.BodyLate, e.UnsupportedBody, e.NotConvertible, e.UnknownValueSchema),
            *(e.UnknownHost, e.NotSettled, e.PipelineError),
        ),
    },
)

_ASKS_AGAIN = (  # clients look up the coordinator again, which may have moved, and retry
    *(groups.JOIN_GROUP, groups.SYNC_GROUP, groups.HEARTBEAT, groups.LEAVE_GROUP),
    *(groups.LIST_GROUPS, groups.DESCRIBE_GROUPS, groups.DELETE_GROUPS, groups.OFFSET_COMMIT, groups.OFFSET_DELETE),
    *(transactions.ADD_PARTITIONS_TO_TXN, transactions.ADD_OFFSETS_TO_TXN),
    *(transactions.TXN_OFFSET_COMMIT, transactions.END_TXN),
)
# Some clients of these APIs do not know COORDINATOR_NOT_AVAILABLE: Java's look up the coordinator of a
# transactional id that does not exist, and aiokafka and older Java consumers fail.
_WAITS = (transactions.INIT_PRODUCER_ID, transactions.LIST_TRANSACTIONS, groups.OFFSET_FETCH)
_COORDINATOR_AWAY = {each.key: E.COORDINATOR_NOT_AVAILABLE for each in _ASKS_AGAIN} | {
    each.key: E.COORDINATOR_LOAD_IN_PROGRESS for each in _WAITS
}
# The first version of an API whose clients know PRODUCER_FENCED; older ones know INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = {
    transactions.INIT_PRODUCER_ID.key: 4,
    transactions.ADD_PARTITIONS_TO_TXN.key: 2,
    transactions.ADD_OFFSETS_TO_TXN.key: 2,
    transactions.END_TXN.key: 2,
}


def number_of(error: Error | Refused, key: int = -1, version: int = 0) -> E:
    """Return Kafka's number of an error, in the answer to a version of an API where that matters."""
    if isinstance(error, Refused):
        is_unknown = error.number is E.PRODUCER_FENCED and version < _FENCED_SINCE.get(key, 0)
        return E.INVALID_PRODUCER_EPOCH if is_unknown else error.number
    if isinstance(error, InvalidBatch) and error.is_damaged:  # clients send it again, but no other bad batch
        return E.CORRUPT_MESSAGE
    number = ERROR_NUMBERS.of(type(error))
    return _COORDINATOR_AWAY.get(key, number) if number is _AWAY else number


def error_fields(error: Error | Refused) -> Message:
    """Return the fields for an error in an answer about topics or rules."""
    number = E.TOPIC_AUTHORIZATION_FAILED if isinstance(error, e.NotAllowed) else number_of(error)
    return {"error_code": number, "error_message": str(error)[:_LONGEST_MESSAGE]}
