"""The one table of series, and their values in this process.

Every series is declared here; rooms import it by name and count on it. This module serves nothing: the
gateway reads the table and speaks Prometheus. Counting takes one lock and one dict look-up, so count per
batch, not per record, where possible.

A process may serve several stores. Gauges have the store's name as a label, so that none hides another's;
counters and histograms cover the process and add up. Labels never come from data: there are only as many
values as stores, topics, groups and handlers.
"""

from bisect import bisect_left
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from threading import Lock
from typing import Any

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds
Labels = tuple[str, ...]
_MOST_NOTED = 256  # notes before they are counted


class SeriesKind(Enum):
    """The kind of a series."""

    COUNTER = "counter"  # only grows
    GAUGE = "gauge"  # is set
    HISTOGRAM = "histogram"  # counts observations by size


@dataclass(slots=True)
class Buckets:
    """The observations of a histogram: each counted under the lowest bound at or above it, or last; and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0


class Series:
    """One named series; its values are kept by the values of its labels."""

    def __init__(self, name: str, kind: SeriesKind, help: str, labels: Labels = ()) -> None:
        self.name, self.kind, self.help, self.labels = name, kind, help, labels
        self._values: dict[Labels, Any] = {}
        self._lock = Lock()
        self._noted: deque[tuple[Labels, float]] = deque()

    def note(self, amount: float, *labels: str) -> None:
        """Note an amount, to be counted when the series is read or many are noted: cheaper than a count per event."""
        self._noted.append((labels, amount))
        if len(self._noted) >= _MOST_NOTED:
            self._count_noted()

    def add(self, amount: float = 1, **labels: str) -> None:
        """Increment a counter."""
        assert self.kind is SeriesKind.COUNTER, f"{self.name} is not a counter"
        assert amount >= 0, f"{self.name} cannot be incremented by {amount}"
        key = self._key(labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def set(self, value: float, **labels: str) -> None:
        """Set a gauge."""
        assert self.kind is SeriesKind.GAUGE, f"{self.name} is not a gauge"
        with self._lock:
            self._values[self._key(labels)] = value

    def forget(self, *values: str) -> None:
        """Drop the value for label values that no longer exist."""
        with self._lock:
            self._values.pop(values, None)

    def observe(self, *seconds: float, **labels: str) -> None:
        """Add one observation, or many at once, to a histogram."""
        assert self.kind is SeriesKind.HISTOGRAM, f"{self.name} is not a histogram"
        with self._lock:
            buckets = self._values.setdefault(self._key(labels), Buckets())
            for each in seconds:
                buckets.counts[bisect_left(BOUNDS, each)] += 1
            buckets.total += sum(seconds)

    def values(self) -> dict[Labels, Any]:
        """Return the current values by label values."""
        self._count_noted()
        with self._lock:
            return {
                key: Buckets(list(value.counts), value.total) if isinstance(value, Buckets) else value
                for key, value in self._values.items()
            }

    def reset(self) -> None:
        """Forget all values, for tests."""
        self._noted.clear()
        with self._lock:
            self._values.clear()

    def _count_noted(self) -> None:
        gathered: dict[Labels, list[float]] = {}
        with suppress(IndexError):  # another thread may be counting them too
            for _ in range(len(self._noted)):
                values, amount = self._noted.popleft()
                gathered.setdefault(values, []).append(amount)
        for values, amounts in gathered.items():
            labels = dict(zip(self.labels, values, strict=True))
            if self.kind is SeriesKind.COUNTER:
                self.add(sum(amounts), **labels)
            else:
                self.observe(*amounts, **labels)

    def _key(self, labels: dict[str, str]) -> Labels:
        assert len(labels) == len(self.labels), f"{self.name} takes the labels {self.labels}, not {tuple(labels)}"
        try:
            return tuple([labels[name] for name in self.labels])
        except KeyError:
            raise AssertionError(f"{self.name} takes the labels {self.labels}, not {tuple(labels)}") from None


def _counter(name: str, help: str, *labels: str) -> Series:
    return Series(name, SeriesKind.COUNTER, help, labels)


def _gauge(name: str, help: str, *labels: str) -> Series:
    return Series(name, SeriesKind.GAUGE, help, labels)


def _histogram(name: str, help: str, *labels: str) -> Series:
    return Series(name, SeriesKind.HISTOGRAM, help, labels)


_STORE = ("store",)
_GROUP = ("store", "group")
_HANDLER = ("group", "handler")

PUBLISHED = _counter("penstock_published_total", "Events staged in a caller's transaction.", "topic")
LISTENER_FAILURES = _counter(
    "penstock_listener_failures_total", "Failed calls of a listener after a commit.", "listener"
)
TICKS = _counter(
    "penstock_ticks_total",
    "Ticks of a schedule in this process: published, none (its function wanted no event) or failed.",
    "schedule",
    "outcome",
)
SEQUENCED = _counter("penstock_sequenced_total", "Events moved from staging into the log.")
DELIVERED = _counter("penstock_delivered_total", "Records that were handled.", *_HANDLER)
PARKED = _counter("penstock_parked_total", "Failed attempts after which a record is retried later.", *_HANDLER)
DEAD = _counter("penstock_dead_total", "Records given up and kept as dead letters.", *_HANDLER)
PASSED_OVER = _counter(
    "penstock_passed_over_total", "Records that a group has skipped because it has no handler for their type.", "group"
)
UNDECODABLE = _counter(
    "penstock_undecodable_total",
    "Records given up because their bytes could not be decoded for the handler; their keys continue.",
    *_HANDLER,
)
TRIMMED = _counter("penstock_trimmed_total", "Records that retention deleted from the log.", "topic")
PIPELINE_RECORDS = _counter(
    "penstock_pipeline_records_total",
    "Records that a pipeline of this process has written to its destination.",
    "pipeline",
)
PIPELINE_BATCH_SECONDS = _histogram(
    "penstock_pipeline_batch_seconds", "How long a batch of a pipeline took.", "pipeline"
)
PIPELINE_INTERRUPTIONS = _counter(
    "penstock_pipeline_interruptions_total", "Interruptions of a pipeline that were retried.", "pipeline"
)
PIPELINE_LAG = _gauge(
    "penstock_pipeline_lag_records", "Records of the topic behind the last batch of a pipeline.", "store", "pipeline"
)
UNREAD = _gauge("penstock_unread_records", "Records in the log of a topic that no group reads.", "store", "topic")
HANDLER_SECONDS = _histogram("penstock_handler_seconds", "How long a call of a handler took, per record.", *_HANDLER)
PUBLISH_SECONDS = _histogram("penstock_publish_seconds", "How long a call of publish or publish_many took.")
COMPLETED_BY_FALLBACK = _counter(
    "penstock_completed_by_fallback_total",
    "Delivered records that only the fallback of their handler completed.",
    *_HANDLER,
)
FALLBACK_SECONDS = _histogram("penstock_fallback_seconds", "How long a call of a fallback took.", *_HANDLER)
STAGED = _gauge("penstock_staged_records", "Events that are not in the log yet, counted up to 100,000.", *_STORE)
OLDEST_STAGED = _gauge(
    "penstock_oldest_staged_seconds",
    "Age of the oldest event that could be in the log and is not, since it was published or due.",
    *_STORE,
)
SCHEDULED = _gauge("penstock_scheduled_records", "Events scheduled for later, counted up to 100,000.", *_STORE)
PENDING = _gauge("penstock_pending_records", "Records between a group's cursors and the end of the log.", *_GROUP)
OLDEST_PENDING = _gauge(
    "penstock_oldest_pending_seconds",
    "Age of the oldest record that a group's cursors have not passed; 0 without one.",
    *_GROUP,
)
DEAD_RECORDS = _gauge("penstock_dead_records", "Dead letters of a group, counted up to 100,000.", *_GROUP)
WAITING_LANES = _gauge(
    "penstock_waiting_lanes", "Keys of a group that wait for a retry or their turn, counted up to 100,000.", *_GROUP
)
HELD_LANES = _gauge("penstock_held_lanes", "Keys of a group that wait for a person, counted up to 100,000.", *_GROUP)
ASSIGNED = _gauge("penstock_partitions_assigned", "Partitions of a group that this process owns.", *_GROUP)
UNASSIGNED = _gauge("penstock_partitions_unassigned", "Partitions of a group without a living owner.", *_GROUP)
SLOTS_ASSIGNED = _gauge("penstock_slots_assigned", "Slots of the sequencer, of 256, that this process owns.", *_STORE)
SLOTS_UNASSIGNED = _gauge(
    "penstock_slots_unassigned", "Slots of the sequencer, of 256, without a living owner.", *_STORE
)
MEMBERS = _gauge("penstock_members", "Processes that are running on the store.", *_STORE)
MEASURED = _gauge(
    "penstock_measured_timestamp_seconds",
    "Time at which a worker of this process last measured the gauges of the store, in seconds since 1970.",
    *_STORE,
)
WORKERS = _gauge("penstock_workers", "Workers of the store that run in this process.", *_STORE)
LEASE = _gauge(
    "penstock_lease_seconds",
    "Time left on this process's lease without another heartbeat; below 0 it has expired.",
    *_STORE,
)
LEASE_LAPSES = _counter("penstock_lease_lapses_total", "Heartbeats that came only after the lease had expired.")
RUNNING_CALLS = _gauge(
    "penstock_running_calls", "Records of a group that handlers of this process are working on.", *_GROUP
)
HUNG_CALLS = _gauge(
    "penstock_hung_calls", "Calls of a group in this process that hang in a thread beyond their timeout.", *_GROUP
)
GIVEN_UP = _gauge(
    "penstock_groups_given_up",
    "1 while this process does not serve a group because too many of its calls hang, else 0.",
    *_GROUP,
)
LOOP_FAILURES = _counter(
    "penstock_loop_failures_total",
    "Failed turns of a worker's loop, for instance while the store is unreachable; they are retried.",
    "loop",
)
BUILD = _gauge("penstock_build_info", "Always 1; its label is the running version.", "version")
KAFKA_CONNECTIONS = _gauge("penstock_kafka_connections", "Connections to the Kafka port of this process.", *_STORE)
KAFKA_REFUSED = _counter(
    "penstock_kafka_refused_connections_total",
    "Connections to the Kafka port that were refused, or closed for a bad request or for not reading.",
)
KAFKA_REQUESTS = _counter("penstock_kafka_requests_total", "Requests of Kafka clients.", "api")
KAFKA_PRODUCED = _counter(
    "penstock_kafka_produced_bytes_total", "Bytes of record batches that Kafka clients have written.", "topic"
)
KAFKA_FETCHED = _counter(
    "penstock_kafka_fetched_bytes_total", "Bytes of record batches sent to Kafka clients.", "topic"
)
KAFKA_DAMAGED = _counter(
    "penstock_kafka_damaged_reads_total",
    "Reads for Kafka clients that hit damaged bytes in the log: nothing after them is served.",
    "topic",
)
KAFKA_PRODUCE_SECONDS = _histogram(
    "penstock_kafka_produce_seconds",
    "How long a produce request of a Kafka client took to be written and acknowledged.",
)
KAFKA_THROTTLED = _counter(
    "penstock_kafka_throttled_seconds_total", "Time for which Kafka clients above their quota were throttled."
)
KAFKA_BYTES = _gauge(
    "penstock_kafka_bytes",
    "Bytes in memory of unanswered requests, and of answers that clients have not read.",
    "store",
    "of",
)
ACCESS_REFUSED = _counter(
    "penstock_access_refused_total", "Requests at a door that no rule allows or a rule denies.", "door", "action"
)
AUTHENTICATIONS = _counter(
    "penstock_authentications_total",
    "Authentications at a door by method and outcome: ok or failed.",
    "door",
    "method",
    "outcome",
)
THROTTLED = _counter("penstock_throttled_total", "Requests at a door that exceeded a limit of the access file.", "door")
ACCESS_STALE = _gauge(
    "penstock_access_stale",
    "1 while an older version stays in force because a file is broken, else 0: access, tls, database, keys.",
    "file",
)
ACCESS_RELOADS = _counter(
    "penstock_access_reloads_total",
    "Changes of the access file, the rules in the database or the certificates: ok, or failed.",
    "file",
    "outcome",
)
CERTIFICATE_EXPIRES = _gauge(
    "penstock_certificate_expires_timestamp_seconds",
    "Time at which the certificate of this process expires, in seconds since 1970.",
)
REVOCATION_EXPIRES = _gauge(
    "penstock_revocation_expires_timestamp_seconds",
    "Time at which the list of revoked client certificates expires, in seconds since 1970.",
)
AUDIT_FAILURES = _counter("penstock_audit_failures_total", "Audit lines that could not be written.")

SERIES: tuple[Series, ...] = tuple(each for each in list(globals().values()) if isinstance(each, Series))


def snapshot() -> dict[str, dict[Labels, Any]]:
    """Return the values of every series."""
    return {series.name: series.values() for series in SERIES}
