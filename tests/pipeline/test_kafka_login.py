"""A cluster behind a lock: TLS, passwords, certificates; what is wrong in one sentence, without a secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Error, InvalidOption, StoreError, UnknownTopic
from penstock.log.kafka_settings import KafkaSettings
from penstock.pipeline.source.batch import BatchReader
from penstock.pipeline.source.kafka_connection import BrokerConnection
from penstock.pipeline.source.kafka_topic import KafkaTopicReader
from penstock.pipeline.source.options import read_options
from tests.access.house import PASSWORD, House
from tests.kafka.served import Served
from tests.pipeline.conftest import Command
from tests.pipeline.test_continue import Driver, places
from tests.pipeline.test_source import read_all
from tests.suites.records import a_record

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RECORDS = 40


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Give our broker behind its lock, with some records in the topic that ana may read."""
    with House(tmp_path_factory.mktemp("house")) as made:
        records = [a_record(data=b"v-%d" % n, type="placed") for n in range(RECORDS)]
        made.store.log.append("orders", records)
        yield made


def login(house: House, **others: str) -> dict[str, str]:
    """Return the options of somebody who may read."""
    given = {
        "url": f"kafka://{house.broker.address}",
        "topic": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.username": "ana",
        "kafka.sasl.password": PASSWORD,
        "kafka.ssl.ca.location": str(house.certificates / "ca.pem"),
    }
    given |= {f"kafka.{name.replace('_', '.')}": value for name, value in others.items()}
    return {name: value for name, value in given.items() if value}


def rows(given: dict[str, str]) -> list[dict[str, Any]]:
    reader = BatchReader(read_options(given))
    return read_all(reader, reader.partitions())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_over_tls_reads(house: House, mechanism: str) -> None:
    assert len(rows(login(house, sasl_mechanism=mechanism))) == RECORDS


def test_a_certificate_is_a_login(house: House) -> None:
    tls = house.certificates
    shown = {"ssl_certificate_location": f"{tls}/ana.pem", "ssl_key_location": f"{tls}/ana.key"}
    nobody = {"sasl_username": "", "sasl_password": ""}
    assert len(rows(login(house, security_protocol="SSL", **nobody, **shown))) == RECORDS


def test_the_environment_has_the_secret(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("security.protocol", "sasl.username", "sasl.password", "ssl.ca.location"):
        given = login(house)[f"kafka.{name}"]
        monkeypatch.setenv(f"PENSTOCK_KAFKA_{name.replace('.', '_').upper()}", given)
    plain = {"url": f"kafka://{house.broker.address}", "topic": "orders"}
    assert len(rows(plain)) == RECORDS
    with closing(KafkaTopicReader(plain["url"], "orders")) as reader:
        assert reader.known().topic.partitions == 1
    with pytest.raises(StoreError, match="'ben'"):  # an option wins
        rows(plain | {"kafka.sasl.username": "ben", "kafka.sasl.password": "wrong"})


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["ana", "nobody"])
def test_a_wrong_password_is_one_sentence(house: House, mechanism: str, name: str) -> None:
    given = login(house, sasl_mechanism=mechanism, sasl_username=name, sasl_password="wrong-canary")
    with pytest.raises(StoreError) as refused:
        rows(given)
    said = str(refused.value)
    assert f"refuses the login of {name!r} by {mechanism}" in said
    assert "\n" not in said
    assert "canary" not in said
    assert not refused.value.retryable


@pytest.mark.parametrize(
    ("others", "kind", "why"),
    [
        ({"security_protocol": "PLAINTEXT"}, StoreError, "kafka.security.protocol"),
        ({"security_protocol": "SASL_PLAINTEXT"}, StoreError, "kafka.security.protocol"),
        ({"security_protocol": "SSL"}, StoreError, "kafka.security.protocol"),
        ({"ssl_ca_location": ""}, StoreError, "certificate of the Kafka cluster .* could not be verified"),
        ({"sasl_password": ""}, InvalidOption, "kafka.sasl.password"),
        ({"ssl_ca_location": "/nowhere.pem"}, InvalidOption, "nowhere.pem"),
    ],
)
def test_a_lock_that_is_met_in_another_way_says_what_to_give(
    house: House, others: dict[str, str], kind: type[Error], why: str
) -> None:
    with pytest.raises(kind, match=why) as refused:
        rows(login(house, **others))
    assert "\n" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_a_topic_that_is_not_allowed_or_not_there_is_named(house: House) -> None:
    for topic in ("payroll", "nowhere"):
        with pytest.raises((StoreError, UnknownTopic), match=topic):
            rows(login(house) | {"topic": topic})
    with pytest.raises(UnknownTopic, match="orders-none"):
        rows(login(house) | {"topic": "orders-none"})


def test_a_login_at_a_cluster_without_is_one_sentence(tmp_path: Path) -> None:
    with Served(f"sqlite:///{tmp_path}/shop.db") as served:
        served.topic("orders")
        settings = KafkaSettings.load(security_protocol="SASL_PLAINTEXT", sasl_username="ana", sasl_password=PASSWORD)
        with (
            closing(KafkaTopicReader(f"kafka://{served.address}", "orders", settings)) as reader,
            pytest.raises(StoreError) as refused,
        ):
            reader.known()
        assert PASSWORD not in str(refused.value)


def test_tables_hold_each_record_once_and_no_secret(house: House, tmp_path: Path) -> None:
    store: Any = type("Locked", (), {"url": login(house)["url"]})
    driver = Driver(store, tmp_path / "lake", tmp_path / "checkpoint", **login(house))
    driver.step()
    assert places(tmp_path / "lake") == [(0, offset) for offset in range(RECORDS)]
    written = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert len(written) > 3
    assert not [each for each in written if PASSWORD.encode() in each.read_bytes()]
    assert PASSWORD not in repr(read_options(login(house)))


def test_a_login_that_runs_out_is_shown_anew(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[BrokerConnection]()

    class Ending(BrokerConnection):
        fresh = False

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("penstock.pipeline.source.kafka_topic.BrokerConnection", Ending)
    assert len(rows(login(house))) == RECORDS
    assert len(made) > 3


def test_the_command_says_it_in_one_line(
    house: House, penstock: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("PENSTOCK_KAFKA_SASL_USERNAME", "ana")
    monkeypatch.setenv("PENSTOCK_KAFKA_SASL_PASSWORD", "wrong-canary")
    monkeypatch.setenv("PENSTOCK_KAFKA_SSL_CA_LOCATION", str(house.certificates / "ca.pem"))
    where = ["--url", f"kafka://{house.broker.address}", "--topic", "orders", "--to", str(tmp_path / "lake")]
    done = penstock("pipeline", "lake", *where)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "refuses the login of 'ana'" in done.err
    assert "canary" not in done.err
    away = ["--url", "kafka://127.0.0.1:1", "--topic", "orders", "--to", str(tmp_path / "lake")]
    done = penstock("pipeline", "lake", *away)
    assert (done.code, done.err.count("\n")) == (3, 1)
