"""The lock of a process: started as a locked one it stays locked, and a rule for everybody is named."""

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest

from penstock import metrics
from penstock.access.opening import Lock
from penstock.access.password import hash_token
from penstock.access.rule import parse_rule
from penstock.access.settings import AccessSettings
from penstock.cli.listeners import ListenAddress, refuse_unlocked
from penstock.database.migrations import migrate
from penstock.errors import LeftOpen
from penstock.log.store import Store, open_store
from penstock.operate import access_rules

TOKEN = f'[tokens.bot]\nhash = "{hash_token("a-token-of-nobody-0123456789")}"\n'
RULE = parse_rule("allow ops * *")
ANYWHERE, HERE = ListenAddress("0.0.0.0", 9092), ListenAddress("127.0.0.1", 9092)


class TlsNamed(Lock):
    """A lock whose settings name a certificate that nobody reads."""

    def __init__(self, store: Store, file: Path | None = None, authority: str = "") -> None:
        super().__init__(AccessSettings.load(policy_file=str(file or "")), store.database)
        self.settings = AccessSettings.load(policy_file=str(file or ""), tls_cert="server.pem", tls_client_ca=authority)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Give a store without rules."""
    with closing(open_store(f"sqlite:///{tmp_path}/shop.db")) as made:
        migrate(made.database)
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give an access file that names somebody."""
    path = tmp_path / "access.toml"
    path.write_text(f'rules = ""\n{TOKEN}')
    return path


def locked(store: Store, file: Path | None = None) -> Lock:
    lock = TlsNamed(store, file)
    refuse_unlocked("--kafka", ANYWHERE, lock, anonymous=False)
    return lock


def stale(file: str) -> object:
    return metrics.ACCESS_STALE.values()[(file,)]


def test_a_file_that_names_nobody_any_more_is_refused(
    store: Store, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = locked(store, file)
    file.write_text('rules = ""\n')
    for _ in range(2):
        lock._watch.look()
        assert not lock.access.admits_anonymous
        assert stale("access") == 1
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert f"what was in force stays: access file {file}: " in said
    assert "add a rule or a user, or restart penstock serve or worker with --anonymous" in said


def test_a_file_that_is_deleted_changes_nothing(store: Store, file: Path) -> None:
    lock = locked(store, file)
    file.unlink()
    lock._watch.look()
    assert not lock.access.admits_anonymous
    assert stale("access") == 1


def test_a_file_that_was_refused_takes_effect_once_a_rule_is_in_the_database(store: Store, file: Path) -> None:
    lock = locked(store, file)
    file.write_text('rules = ""\n')
    lock._watch.look()
    access_rules.add(store, [RULE])
    for _ in range(2):
        lock._watch.look()
    assert lock.access.admits_anonymous
    assert not lock.is_open
    assert stale("access") == 0


def test_the_last_rule_of_the_database_stays_in_force_until_there_is_another(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    access_rules.add(store, [RULE])
    lock = locked(store)
    access_rules.remove(store, [RULE], last=True)
    for _ in range(2):
        lock._watch.look()
        assert not lock.is_open
        assert stale("database") == 1
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "what was in force stays: the database: with this change no rules and no users are left" in said
    with pytest.raises(LeftOpen):
        lock.access.install(stored=[])  # whoever asks
    other = parse_rule("allow ana * cluster")
    access_rules.add(store, [other])
    lock._watch.look()
    assert [str(each) for each in lock.access.rules] == [str(other)]
    assert stale("database") == 0


@pytest.mark.parametrize(
    ("address", "anonymous", "authority"),
    [(ANYWHERE, True, ""), (HERE, False, ""), (ANYWHERE, False, "ca.pem")],
    ids=["asked for", "this machine", "certificates"],
)
def test_a_listener_may_lose_its_last_rule_where_it_may_start_without(
    address: ListenAddress, anonymous: bool, authority: str, store: Store
) -> None:
    access_rules.add(store, [RULE])
    lock = TlsNamed(store, authority=authority)
    refuse_unlocked("--kafka", address, lock, anonymous=anonymous)
    access_rules.remove(store, [RULE], last=True)
    lock._watch.look()
    assert lock.access.rules == ()


def test_a_listener_without_rules_is_refused(store: Store) -> None:
    with pytest.raises(click.UsageError, match="other machines can connect there"):
        locked(store)


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ('rules = """\nallow * * *\n"""\n', True),
        (f'rules = """\nallow anonymous * *\n"""\nanonymous = true\n{TOKEN}', True),
        ('rules = """\nallow anonymous write topic *\n"""\n', True),
        ('rules = """\nallow anonymous read *\n"""\n', False),
        ('rules = """\nallow anonymous write topic inbox\n"""\n', False),
        (f'rules = """\nallow * * *\n"""\n{TOKEN}', False),
    ],
    ids=["everybody", "anonymous", "every topic", "reading", "one topic", "everybody who is known"],
)
def test_a_rule_that_lets_who_shows_nothing_change_everything_is_told_once(
    text: str, is_told: bool, store: Store, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(text)
    lock = locked(store, file)
    refuse_unlocked("--http", ANYWHERE, lock, anonymous=False)
    said = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    rule = lock.access.rules[0]
    assert [f"{file}:2: {rule}: " in each for each in said] == [True] * is_told
