"""The defaults in force are those of the requirements, appendix D, each in one table.

Where the design has another word for a thing, or another figure, the row says so; what no room has yet is
listed with the issue that brings it, and must not appear unseen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from penstock import Exponential, Outbox
from penstock.backoff import PollingSettings
from penstock.database.naming import Names
from penstock.delivery.retention_rule import RetentionSettings
from penstock.gateway.settings import TinyqSettings
from penstock.membership.member import ClusterSettings
from penstock.model import partition
from penstock.model.limits import NAME_CHARACTERS, LimitsSettings
from penstock.model.retry_settings import RetrySettings
from penstock.outbox.listeners import ListenersSettings
from penstock.outbox.staging import DEFAULT_TOPIC
from penstock.settings import Settings, declared
from penstock.testing import memory_outbox
from penstock.worker.calling.runner import ProcessingSettings
from penstock.worker.handler_options import policy_of


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def handler_default(name: str) -> Any:
    return inspect.signature(Outbox.handler).parameters[name].default


def outbox_default(name: str) -> Any:
    return inspect.signature(Outbox).parameters[name].default


# Appendix D's name, where it is asked, and the figure of appendix D.
AS_REQUIRED: list[tuple[str, Callable[[], Any], Any]] = [
    ("tinyq.auth_timeout", lambda: TinyqSettings.load().auth_timeout, seconds(30)),
    ("tinyq.max_body_bytes", lambda: TinyqSettings.load().max_body_bytes, 10_240_000),
    ("tinyq.max_connections", lambda: TinyqSettings.load().max_connections, 32),
    ("processing.concurrency", lambda: ProcessingSettings.load().concurrency, 8),
    ("processing.shutdown_timeout", lambda: ProcessingSettings.load().shutdown_timeout, seconds(30)),
    # true: later records of a key wait while one is retried.
    ("processing.stop_on_first_failure", lambda: handler_default("on_failure"), "park"),
    ("cluster.heartbeat_interval", lambda: ClusterSettings.load().heartbeat_interval, seconds(5)),
    ("cluster.stale_instance_timeout", lambda: ClusterSettings.load().lease_ttl, seconds(30)),
    ("cluster.lease_ttl", lambda: ClusterSettings.load().lease_ttl, seconds(30)),
    ("cluster.rebalance_interval", lambda: ClusterSettings.load().rebalance_interval, seconds(10)),
    ("cluster.node_removal_after", lambda: ClusterSettings.load().node_removal_after, seconds(300)),
    ("retry.policy", lambda: RetrySettings.load().policy, "exponential"),
    ("retry.max_retries", lambda: RetrySettings.load().max_retries, 3),
    ("retry.jitter", lambda: RetrySettings.load().jitter, seconds(0)),
    ("retry.include_exceptions", lambda: RetrySettings.load().include_exceptions, ()),
    ("retry.exclude_exceptions", lambda: RetrySettings.load().exclude_exceptions, ()),
    ("retry.fixed.delay", lambda: RetrySettings.load().fixed_delay, seconds(5)),
    ("retry.linear.initial_delay", lambda: RetrySettings.load().linear_initial_delay, seconds(2)),
    ("retry.linear.increment", lambda: RetrySettings.load().linear_increment, seconds(2)),
    ("retry.linear.max_delay", lambda: RetrySettings.load().linear_max_delay, seconds(60)),
    ("retry.exponential.initial_delay", lambda: RetrySettings.load().exponential_initial_delay, seconds(2)),
    ("retry.exponential.multiplier", lambda: RetrySettings.load().exponential_multiplier, 2.0),
    ("retry.exponential.max_delay", lambda: RetrySettings.load().exponential_max_delay, seconds(60)),
    ("handler.timeout", lambda: handler_default("timeout"), 600.0),
    ("limits.event_bytes", lambda: LimitsSettings.load().event_bytes, 1_048_576),
    ("limits.owner_bytes", lambda: LimitsSettings.load().owner_bytes, 512),
    ("limits.max_partitions", lambda: partition.MAX_PARTITIONS, 10_000),
    ("column limits: id, key, type", lambda: NAME_CHARACTERS, 255),
    # "enabled": whether workers run here; whoever publishes needs no switch.
    ("processing.enabled", lambda: ProcessingSettings.load().enabled, True),
    ("listeners.enabled", lambda: ListenersSettings.load().enabled, True),
    ("listeners.publish_after_save", lambda: ListenersSettings.load().publish_after_save, True),
    ("retention.interval", lambda: RetentionSettings.load().interval, seconds(30)),
    ("retention.batch_size", lambda: RetentionSettings.load().batch_size, 1000),
    ("retention.batches_per_pass", lambda: RetentionSettings.load().batches_per_pass, 4),
    ("store.schema_name", lambda: outbox_default("schema"), None),
    ("polling.fixed.interval", lambda: PollingSettings.load().fixed_seconds, 2.0),
]
# The design's own figure where it differs from the seed's (design §4 and §6).
BY_DESIGN: list[tuple[str, Callable[[], Any], Any, str]] = [
    (
        "polling.adaptive.min_interval, .max_interval",
        lambda: (PollingSettings.load().shortest_seconds, PollingSettings.load().longest_seconds),
        (0.05, 1.0),
        "the seed's 1 s and 8 s; the design polls from 0.05 to 1 s, doubling while nothing comes",
    ),
    (
        "polling.trigger",
        lambda: PollingSettings.load().trigger,
        "adaptive",
        "the seed's fixed; the design's pauses double while nothing comes",
    ),
    ("dead_letter.on_exhausted", lambda: handler_default("on_exhausted"), "hold", "D-03"),
    ("cluster.gather_joins", lambda: ClusterSettings.load().gather_joins, seconds(3), "design §6"),
    ("store.table_prefix", lambda: Names().prefix, "penstock_", "design §6, schema"),
    ("partitions of a topic", lambda: topic_partitions(), 256, "T-05"),
]
# Nobody has these yet: what brings each, or why it never comes.
NOT_YET = {
    "polling.batch_size": "the design reads by records and bytes, not by keys",
    "processing.delete_completed_records": "a topic's retention of 0 (N-38)",
    "cluster.graceful_shutdown_timeout": "0 s: a member that leaves releases at once",
    "cluster.poll_interval": "the design has one pace of looks, polling",
    "store.table_names.record": "the design names tables by a prefix",
    "store.table_names.instance": "the design names tables by a prefix",
    "store.table_names.partition": "the design names tables by a prefix",
    "store.schema_initialization": "the design migrates by an explicit call",
    "worker.pull_size": "the design reads by partition windows",
    "sinks.kafka.enabled": "sinks have an issue of their own",
    "sinks.rabbit.enabled": "sinks have an issue of their own",
    "sinks.sns.enabled": "sinks have an issue of their own",
    "tinyq.host": "where it listens is said by `serve --tinyq`",
    "tinyq.port": "where it listens is said by `serve --tinyq`",
}


@pytest.mark.parametrize(("name", "asked", "wanted"), AS_REQUIRED, ids=[row[0] for row in AS_REQUIRED])
def test_the_default_in_force_is_that_of_the_requirements(name: str, asked: Callable[[], Any], wanted: Any) -> None:
    assert asked() == wanted


@pytest.mark.parametrize(("name", "asked", "wanted", "why"), BY_DESIGN, ids=[row[0] for row in BY_DESIGN])
def test_the_default_in_force_is_that_of_the_design(name: str, asked: Callable[[], Any], wanted: Any, why: str) -> None:
    assert asked() == wanted, why


def test_a_handler_without_a_policy_retries_as_empty_settings_say() -> None:
    """N-22: built without an argument it equals the one from empty settings."""
    policy, _ = policy_of(lambda record: None, "g", given=None, outbox=None)
    assert RetrySettings.load().to_policy() == Exponential() == policy


def test_a_required_setting_does_not_come_without_its_default_being_checked() -> None:
    """When this fails, move its row from NOT_YET up to AS_REQUIRED."""
    ours = {one.path for one in declared()}
    come = {name for name in NOT_YET if name in ours or name.replace(".", "_").replace("_", ".", 1) in ours}
    assert come == set()
    assert "cluster.lease_ttl" in ours


def test_what_is_declared_and_what_is_loaded_are_the_same() -> None:
    """In a place without file and environment: the default that the reference shows is the one in force."""
    differ = [
        one.path
        for room in Settings._rooms.values()
        if room.__module__.startswith("penstock.")
        for one in room.declared()
        if getattr(room.load(), one.name) != one.default
    ]
    assert differ == []


def topic_partitions() -> int:
    """Return how many partitions a topic has that comes to be by its first event."""
    with closing(memory_outbox()) as outbox:
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", 1)
        outbox.drain()
        return outbox.log.topic(DEFAULT_TOPIC).partitions
