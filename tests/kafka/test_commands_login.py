"""`tail`, `produce`, `topics` and `groups` on a cluster behind a lock: with the login of the settings."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from penstock.errors import Error
from tests.access.house import PASSWORD, House
from tests.kafka.test_commands import run, tailed
from tests.suites.records import a_record

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Give our broker behind its lock."""
    with House(tmp_path_factory.mktemp("house")) as made:
        yield made


@pytest.fixture
def url(house: House, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the address of the cluster, with a login in the environment."""
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_USERNAME": "ana",
        "SASL_PASSWORD": PASSWORD,
        "SSL_CA_LOCATION": str(house.certificates / "ca.pem"),
    }.items():
        monkeypatch.setenv(f"PENSTOCK_KAFKA_{name}", value)
    return f"kafka://{house.broker.address}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_lines_go_in_and_come_out_with_a_login(url: str, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_SASL_MECHANISM", mechanism)
    done = run("produce", "orders", "--url", url, given=f"by {mechanism}\n".encode())
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"by {mechanism}" in [each["value"] for each in tailed("orders", "--url", url)]
    found = msgspec.json.decode(run("topics", "list", "--url", url, "--json").stdout)
    assert "orders" in [each["name"] for each in found["topics"]]
    assert run("groups", "list", "--url", url).exit_code == 0


def test_a_certificate_is_a_login(url: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KAFKA_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("PENSTOCK_KAFKA_SSL_CERTIFICATE_LOCATION", str(house.certificates / "ana.pem"))
    monkeypatch.setenv("PENSTOCK_KAFKA_SSL_KEY_LOCATION", str(house.certificates / "ana.key"))
    assert "orders" in run("topics", "list", "--url", url).stdout


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SASL_PASSWORD", "wrong-canary", "refuses the login of 'ana' by SCRAM-SHA-512"),
        ("SASL_USERNAME", "nobody", "refuses the login of 'nobody' by SCRAM-SHA-512"),
        ("SASL_PASSWORD", "", "PENSTOCK_KAFKA_SASL_PASSWORD"),
        ("SSL_CA_LOCATION", "", "name its authority by PENSTOCK_KAFKA_SSL_CA_LOCATION"),
        ("SSL_CA_LOCATION", "/nowhere.pem", "nowhere.pem"),
        ("SECURITY_PROTOCOL", "SASL_PLAINTEXT", "PENSTOCK_KAFKA_SECURITY_PROTOCOL than SASL_PLAINTEXT"),
        ("SECURITY_PROTOCOL", "PLAINTEXT", "PENSTOCK_KAFKA_SECURITY_PROTOCOL than PLAINTEXT"),
    ],
)
@pytest.mark.parametrize("command", ["tail orders --no-follow", "produce orders", "topics list"])
def test_a_lock_that_is_met_in_another_way_says_what_to_give(
    url: str, command: str, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PENSTOCK_KAFKA_{name}", value)
    done = run(*command.split(), "--url", url, given=b"x\n")
    assert isinstance(done.exception, Error), done.output
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert "canary" not in f"{done.output}{done.exception}"


def test_nothing_of_a_login_is_said(url: str, house: House, capfd: pytest.CaptureFixture[str]) -> None:
    house.store.log.append("orders-secret", [a_record()])
    done = run("tail", "orders-secret", "--no-follow", "--url", url)
    assert "TopicAuthorizationFailed" in str(done.exception)
    assert PASSWORD not in f"{done.output}{done.exception}{''.join(capfd.readouterr())}"
