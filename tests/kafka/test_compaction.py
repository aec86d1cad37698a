"""`cleanup.policy=compact` through the Kafka port: taken by a log in files, refused by name in a database."""

from pathlib import Path

import pytest

from penstock.log.contract import Compaction, Keep
from penstock.wire.kafka.apis.topics import CREATE_TOPICS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from penstock.wire.kafka.layout import Message
from tests.kafka.conversation.bodies import create, new_topic
from tests.kafka.raw import RawClient
from tests.kafka.served import Served

TOPIC, SET, DELETE = 2, 0, 1
INVALID_CONFIG = 40


def _made(client: RawClient, **configs: str) -> Message:
    (topic,) = client.ask(CREATE_TOPICS, create(new_topic("t", 1, replicas=1, **configs)), 7)["topics"]
    return topic  # type: ignore[no-any-return]


def _set(client: RawClient, name: str, value: str | None) -> int:
    change = {"name": name, "config_operation": SET if value else DELETE, "value": value}
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": [change]}
    (answer,) = client.ask(INCREMENTAL_ALTER_CONFIGS, {"resources": [resource]}, 1)["responses"]
    return int(answer["error_code"])


def _shown(client: RawClient) -> dict[str, str]:
    resource = {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None}
    (result,) = client.ask(DESCRIBE_CONFIGS, {"resources": [resource]}, 4)["results"]
    return {each["name"]: each["value"] for each in result["configs"]}


def test_a_log_in_files_is_compacted_as_clients_say(tmp_path: Path) -> None:
    with Served(f"file://{tmp_path}/log") as served, RawClient(served.address) as client:
        assert _made(client, cleanup_policy="compact", delete_retention_ms="5000")["error_code"] == 0
        log = served.store.log
        assert log.compaction(log.topic("t")) == Compaction(5000)
        assert log.topic("t").keep == Keep(-1, -1, -1)
        assert _shown(client)["cleanup.policy"] == "compact"
        assert _set(client, "retention.ms", "60000") == 0
        assert log.topic("t").keep == Keep(-1, -1, -1), "what is compacted only is not deleted by its age"
        assert _set(client, "cleanup.policy", "compact,delete") == 0
        assert log.topic("t").keep == Keep()
        assert _set(client, "retention.ms", "60000") == 0
        assert log.topic("t").keep == Keep(60_000, None, None)
        assert log.compaction(log.topic("t")) == Compaction(5000)
        assert _set(client, "cleanup.policy", None) == 0
        assert log.compaction(log.topic("t")) is None
        assert log.topic("t").keep == Keep(60_000, None, None)
        shown = _shown(client)
        assert shown["cleanup.policy"] == "delete"
        assert shown["delete.retention.ms"] == "86400000"


def test_what_the_command_has_set_stays_when_a_client_sets_something_else(tmp_path: Path) -> None:
    with Served(f"file://{tmp_path}/log") as served, RawClient(served.address) as client:
        served.topic("t")
        log = served.store.log
        log.compact(log.topic("t"), Compaction(7000))
        assert _shown(client)["cleanup.policy"] == "compact"
        assert _set(client, "penstock.foreign.keys", "allowed") == 0
        assert log.compaction(log.topic("t")) == Compaction(7000)
        assert _set(client, "cleanup.policy", "delete") == 0
        assert log.compaction(log.topic("t")) is None


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_database_refuses_by_name_and_makes_nothing(sqlite_store: str, policy: str) -> None:
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        answer = _made(client, cleanup_policy=policy)
        assert answer["error_code"] == INVALID_CONFIG
        assert "cleanup.policy" in answer["error_message"]
        assert "log in files" in answer["error_message"]
        assert "t" not in served.broker.topics.by_name
        assert _made(client, cleanup_policy="delete")["error_code"] == 0
        assert _set(client, "cleanup.policy", policy) == INVALID_CONFIG
        assert _set(client, "cleanup.policy", "odd") == INVALID_CONFIG
