"""confluent-kafka, unmodified, at `penstock serve`: SASL_SSL with every mechanism, and certificates."""

import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.access.house import PASSWORD, TOKEN, House, token

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer  # noqa: E402
from confluent_kafka.admin import (  # noqa: E402
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

SECONDS = 30
CANARY = b"canary-7f3a-payload"


def config(house: House, address: str, **more: Any) -> dict[str, Any]:
    given = {
        "bootstrap.servers": address.replace("127.0.0.1", "localhost"),
        "broker.address.family": "v4",
        "ssl.ca.location": str(house.certificates / "ca.pem"),
        "message.timeout.ms": 20_000,
    }
    return given | more


def sasl(mechanism: str, name: str = "ana") -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": PASSWORD,
    }


def produced(settings: dict[str, Any], topic: str = "orders") -> Any:
    """Produce a record; return its error, if it had one."""
    errors: list[Any] = []
    failed: list[Any] = []
    producer = Producer(settings | {"error_cb": failed.append})
    producer.produce(topic, CANARY, b"k", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(SECONDS) == 0
    return errors[0]


WAYS = {
    "PLAIN": sasl("PLAIN"),
    "SCRAM-SHA-256": sasl("SCRAM-SHA-256"),
    "SCRAM-SHA-512": sasl("SCRAM-SHA-512"),
    "certificate": {"security.protocol": "SSL"},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_client_shows_who_it_is_and_writes_what_it_may_and_nothing_else(way: str, house: House, address: str) -> None:
    settings = config(house, address, **WAYS[way])
    if way == "certificate":
        settings |= {
            "ssl.certificate.location": str(house.certificates / "ana.pem"),
            "ssl.key.location": str(house.certificates / "ana.key"),
        }
    assert produced(settings) is None
    assert produced(settings, "payroll").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_oauthbearer_reads_in_a_group(house: House, address: str) -> None:
    assert produced(config(house, address, **sasl("PLAIN"))) is None

    def refresh(_: str) -> tuple[str, float]:
        return token(), 4_000_000_000.0

    settings = config(house, address) | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": refresh,
        "group.id": "orders-readers",
        "auto.offset.reset": "earliest",
    }
    settings.pop("message.timeout.ms")
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["orders"])
        record = consumer.poll(SECONDS)
        assert record is not None
        assert record.error() is None
        assert record.value() == CANARY
    finally:
        consumer.close()


def test_a_foreign_group_is_refused(house: House, address: str) -> None:
    settings = config(house, address, **sasl("SCRAM-SHA-512")) | {"group.id": "payroll"}
    settings.pop("message.timeout.ms")
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["orders"])
        record = consumer.poll(SECONDS)
        assert record is not None
        assert record.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    finally:
        consumer.close()


def test_a_wrong_password_is_told_to_the_client(house: House, address: str) -> None:
    failed: list[Any] = []
    settings = config(house, address, **sasl("SCRAM-SHA-256", "ben")) | {"sasl.password": "wrong"}
    settings.pop("message.timeout.ms")
    admin = AdminClient(settings | {"error_cb": failed.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(SECONDS)  # calls back with what came
    assert any(each.code() == KafkaError._AUTHENTICATION for each in failed)


def test_only_what_may_be_seen_is_listed(house: House, address: str) -> None:
    settings = config(house, address, **sasl("PLAIN"))
    settings.pop("message.timeout.ms")
    assert set(AdminClient(settings).list_topics(timeout=SECONDS).topics) == {"orders", "orders-secret"}


def test_acls_are_made_listed_in_force_and_deleted(house: House, address: str) -> None:
    settings = config(house, address, **sasl("SCRAM-SHA-256", "ops"))
    settings.pop("message.timeout.ms")
    admin = AdminClient(settings)
    acl = AclBinding(
        ResourceType.TOPIC,
        "pay",
        ResourcePatternType.PREFIXED,
        "User:ana",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    writer = config(house, address, **sasl("PLAIN"))
    assert produced(writer, "payroll").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    for future in admin.create_acls([acl]).values():
        assert future.result(SECONDS) is None
    assert produced(writer, "payroll") is None
    wanted = AclBindingFilter(
        ResourceType.TOPIC, "pay", ResourcePatternType.PREFIXED, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(wanted).result(SECONDS) == [acl]
    (deleted,) = admin.delete_acls([wanted]).values()
    assert list(deleted.result(SECONDS)) == [acl]
    assert produced(writer, "payroll").code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    plain = AdminClient({key: value for key, value in writer.items() if key != "message.timeout.ms"})
    for future in plain.create_acls([acl]).values():
        with pytest.raises(KafkaException) as caught:
            future.result(SECONDS)
        assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_no_secret_and_no_payload_is_in_what_the_process_said(house: House, address: str) -> None:
    assert produced(config(house, address, **sasl("PLAIN"))) is None
    assert address
    said = (house.folder / "served.log").read_text() + (house.folder / "served.jsonl").read_text()
    assert '"principal":"ana"' in said
    assert PASSWORD not in said
    assert TOKEN not in said
    assert CANARY.decode() not in said


def test_a_handshake_that_fails_at_the_kafka_port_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with House(tmp_path, client_certificates="required") as own:
        host, _, port = own.broker.address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), SECONDS) as bare,
            own.context().wrap_socket(bare, server_hostname="localhost") as client,
            suppress(OSError),  # an alert, or just the end
        ):
            assert client.recv(1) == b""
    assert "access.client_certificates" in caplog.text
