"""The topic configs of the Kafka port, as one table; and their effect on a topic.

Names are Kafka's where it has one, else begin with `penstock.`. A feature that this log lacks (replicas, in a database
compaction) is refused, unless the value describes the present state. A config without effect here is stored and shown.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import InvalidConfig
from penstock.log.batches import ALLOWED, BATCH_BYTES, FOREIGN_KEYS, PARTITIONER
from penstock.log.contract import Compaction, Keep, Topic
from penstock.log.topics import MESSAGE_BYTES
from penstock.model.partition import KAFKA, PARTITIONERS

RETENTION_RECORDS = "penstock.retention.records"
_REFUSED = "refused"
_STRING, _LONG, _LIST = 2, 5, 7  # the kinds that DescribeConfigs names
CLEANUP, TOMBSTONES = "cleanup.policy", "delete.retention.ms"
LISTS = {CLEANUP}
_DELETE, _COMPACT = "delete", "compact"
_TOMBSTONE_MS = 86_400_000
FOR_EVER = Keep(-1, -1, -1)
_KEEP = {"retention.ms": "age_ms", "retention.bytes": "bytes", RETENTION_RECORDS: "records"}
UNIMPORTANT = {  # no value of these loses or shows anything
    *("segment.bytes", "segment.ms", "segment.index.bytes", "segment.jitter.ms", "index.interval.bytes"),
    *("file.delete.delay.ms", "flush.messages", "flush.ms", "preallocate", "unclean.leader.election.enable"),
    *("message.downconversion.enable", "min.cleanable.dirty.ratio"),
}
_AS_IT_IS = {"compression.type": "producer", "message.timestamp.type": "CreateTime", "min.insync.replicas": "1"}
# The configs that go back to their defaults where a request sets all.
RESET = (*_KEEP, FOREIGN_KEYS, CLEANUP, TOMBSTONES, MESSAGE_BYTES, *UNIMPORTANT)
_FOR_EVER_MS = str((1 << 63) - 1)
_NOT_HERE = {  # they would change which records are taken or kept; not shown
    "message.timestamp.before.max.ms": _FOR_EVER_MS,
    "message.timestamp.after.max.ms": _FOR_EVER_MS,
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": _FOR_EVER_MS,
}
_HELP = {
    FOREIGN_KEYS: "Whether clients may put keys where the topic's own rule does not, giving up their order.",
    CLEANUP: "What becomes of old records: delete, compact, or both.",
    TOMBSTONES: "How long a compacted topic keeps tombstones, in milliseconds.",
    MESSAGE_BYTES: "How many bytes a batch has at most, as it is sent.",
}


class TopicConfig(NamedTuple):
    """One config as clients see it. `is_default`: it is not set on the topic."""

    name: str
    value: str | None
    kind: int = _STRING
    read_only: bool = False
    is_default: bool = True
    help: str = ""


class Setting(NamedTuple):
    """The effect of configs on a topic: its retention, which of it was given, and the configs to store.

    `policy`: the fate of old records; None if not given.
    """

    keep: Keep
    given: frozenset[str]
    configs: dict[str, str | None]
    partitioner: str
    policy: frozenset[str] | None = None


def read_configs(given: Mapping[str, str | None], batch_bytes: int = BATCH_BYTES) -> Setting:
    """Parse configs; None resets one to its default. Raises InvalidConfig.

    `batch_bytes`: the port's own maximum, whatever a topic's config says.
    """
    keep: dict[str, int | None] = {}
    configs: dict[str, str | None] = {}
    partitioner, policy = KAFKA, None
    for name, value in given.items():
        if name in _KEEP:
            keep[_KEEP[name]] = None if value is None else _limit(name, value)
        elif name == CLEANUP:
            policy = _policy(value)
            configs[name] = None if policy == {_DELETE} else ",".join(sorted(policy))
        elif name == TOMBSTONES:
            if value is not None and _whole(name, value) < 0:
                raise InvalidConfig(name, value, "a whole number of 0 or more")
            configs[name] = value
        elif name == FOREIGN_KEYS:
            if value not in (ALLOWED, _REFUSED, None):
                raise InvalidConfig(name, value, f"{ALLOWED} or {_REFUSED}")
            configs[name] = None if value == _REFUSED else value
        elif name == PARTITIONER:
            if value not in PARTITIONERS:
                raise InvalidConfig(name, value, f"one of {', '.join(PARTITIONERS)}")
            partitioner = str(value)
        elif name == MESSAGE_BYTES:
            if value is not None and not 0 <= _whole(name, value) <= batch_bytes:
                raise InvalidConfig(name, value, f"a whole number from 0 to {batch_bytes}, the port's own bound")
            configs[name] = value
        elif name in _AS_IT_IS or name in _NOT_HERE:
            wanted = _AS_IT_IS.get(name) or _NOT_HERE[name]
            if value not in (None, wanted):
                raise InvalidConfig(name, value, f"{wanted}: there is no other here")
        elif name in UNIMPORTANT:
            configs[name] = value
        else:
            raise InvalidConfig(name, value, "a config that topics have here")
    return Setting(Keep(**keep), frozenset(keep), configs, partitioner, policy)


def compaction_of(configs: Mapping[str, str | None]) -> Compaction | None:
    """Return the compaction of a topic with such configs."""
    if _COMPACT not in (configs.get(CLEANUP) or ""):
        return None
    return Compaction(int(configs.get(TOMBSTONES) or _TOMBSTONE_MS))


def kept_of(keep: Keep, configs: Mapping[str, str | None]) -> Keep:
    """Return the retention of a topic with such configs: all, if it is only compacted."""
    return FOR_EVER if is_kept_whole(configs) else keep


def is_kept_whole(configs: Mapping[str, str | None]) -> bool:
    """Return whether a topic with such configs is only compacted, so that no other rule deletes records."""
    return configs.get(CLEANUP) == _COMPACT


def shown_configs(
    topic: Topic, stored: Mapping[str, str], compaction: Compaction | None, default_ms: int, batch_bytes: int
) -> list[TopicConfig]:
    """Return all configs of a topic."""
    tombstone_ms = _TOMBSTONE_MS if compaction is None else compaction.tombstone_ms
    settable = (
        (FOREIGN_KEYS, stored.get(FOREIGN_KEYS, _REFUSED), _STRING, FOREIGN_KEYS not in stored),
        (CLEANUP, _DELETE if compaction is None else stored.get(CLEANUP, _COMPACT), _LIST, compaction is None),
        (TOMBSTONES, str(tombstone_ms), _LONG, TOMBSTONES not in stored),
        (MESSAGE_BYTES, stored.get(MESSAGE_BYTES, str(batch_bytes)), _LONG, MESSAGE_BYTES not in stored),
    )
    limits = (
        ("retention.ms", topic.keep.age_ms, default_ms, "How long records are kept, in milliseconds; -1: for ever."),
        ("retention.bytes", topic.keep.bytes, -1, "How many bytes of a partition are kept; -1: no limit."),
        (RETENTION_RECORDS, topic.keep.records, -1, "How many records of a partition are kept; -1: no limit."),
    )
    return [
        *(
            TopicConfig(name, str(default if kept is None else kept), _LONG, is_default=kept is None, help=help)
            for name, kept, default, help in limits
        ),
        *(
            TopicConfig(name, value, kind, is_default=is_default, help=_HELP[name])
            for name, value, kind, is_default in settable
        ),
        TopicConfig(PARTITIONER, topic.partitioner, read_only=True, help="Which rule puts keys into partitions."),
        *(
            TopicConfig(name, stored[name], is_default=False, help="Kept; it makes no difference here.")
            for name in sorted(UNIMPORTANT & stored.keys())
        ),
        *(TopicConfig(name, value, read_only=True) for name, value in _AS_IT_IS.items()),
    ]


def _policy(value: str | None) -> frozenset[str]:
    found = frozenset(each.strip() for each in (_DELETE if value is None else value).split(","))
    if not found <= {_DELETE, _COMPACT}:
        raise InvalidConfig(CLEANUP, value, f"{_DELETE}, {_COMPACT}, or both with a comma between them")
    return found


def _limit(name: str, value: str) -> int:
    number = _whole(name, value)
    may_be_none = name == "retention.ms"
    if number < -1 or (number == 0 and not may_be_none):
        least = "of 0 or more" if may_be_none else "above 0"
        raise InvalidConfig(name, value, f"a whole number {least}, or -1 for no limit")
    return number


def _whole(name: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise InvalidConfig(name, value, "a whole number") from None
    if not -1 << 63 <= number < 1 << 63:
        raise InvalidConfig(name, value, "a whole number of 64 bits")
    return number
