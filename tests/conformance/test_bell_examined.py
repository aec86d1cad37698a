"""The doctor's word on the bell of a store: listening, or polling and why."""

from collections.abc import Iterator

import pytest

from penstock.database import bell_listener
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.operate.doctor import DoctorFinding, PartState
from penstock.operate.store_doctor import examine_bell
from tests.conformance.engines import StoreEngine
from tests.services.pooler import TransactionPooler

on_postgres = pytest.mark.parametrize("kind", ["postgres"], indirect=True)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that is held up be heard all the same."""
    monkeypatch.setattr(bell_listener, "_TEST_SECONDS", 60.0)


@pytest.fixture
def pooler(engine: StoreEngine) -> Iterator[TransactionPooler]:
    with TransactionPooler(engine.url) as made:
        yield made


def found(url: str, listen_url: str | None = None) -> DoctorFinding:
    database = open_database(url, Names(), listen_url=listen_url)
    try:
        return examine_bell(database)
    finally:
        database.close()


def test_a_bell_that_is_heard(engine: StoreEngine) -> None:
    finding = found(engine.url)
    assert finding.state is PartState.OK
    assert finding.found.startswith("listening")


@on_postgres
def test_a_pooler_in_between_is_named_with_the_remedy(
    pooler: TransactionPooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_listener, "_TEST_SECONDS", 0.2)
    finding = found(pooler.url)
    assert finding.state is PartState.LOW
    assert finding.found == "polling, up to 1 s late, because a pooler stands in between"
    assert "PENSTOCK_BELL_LISTEN_URL" in finding.remedy


@on_postgres
def test_a_listen_url_is_shown_without_its_password(engine: StoreEngine, pooler: TransactionPooler) -> None:
    finding = found(pooler.url, engine.url.replace("postgres@", "postgres:secret@"))
    assert finding.state is PartState.OK
    assert finding.found.startswith("listening at listen_url postgresql://postgres@")
    assert "secret" not in finding.found


@on_postgres
def test_a_listen_url_that_leads_through_a_pooler_is_found_out(
    engine: StoreEngine, pooler: TransactionPooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_listener, "_TEST_SECONDS", 0.2)
    finding = found(engine.url, pooler.url)
    assert finding.state is PartState.LOW
    assert "a pooler stands in between at listen_url" in finding.found


@on_postgres
def test_a_listen_url_that_leads_nowhere(engine: StoreEngine) -> None:
    finding = found(engine.url, "postgresql://postgres@127.0.0.1:1/x")
    assert finding.state is PartState.LOW
    assert "cannot be reached" in finding.found


def test_a_bell_that_is_turned_off(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BELL_ENABLED", "false")
    assert found(engine.url).found == "polling, up to 1 s late, because bell.enabled is off"
