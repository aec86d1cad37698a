"""`penstock access`: verdicts with their rule, rules of the database, secrets that are kept as hashes."""

from __future__ import annotations

import json
import ssl
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.access.access import Access
from penstock.access.access_file import AccessFile
from penstock.access.principal import Peer
from penstock.cli import main
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]
RULES = '''rules = """
allow orders read,write topic orders*
deny * read topic orders-secret
"""
'''
CANARY = "canary-31e5 correct horse"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run a command; it returns the exit code, what was printed and what was complained."""

    def command(*args: str) -> tuple[int, str, str]:
        left = refusal(SystemExit, main, ["access", *args])
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give an access file."""
    path = tmp_path / "access.toml"
    path.write_text(RULES)
    return path


@pytest.mark.parametrize(
    ("words", "code", "begins", "said"),
    [
        (("orders", "read", "topic", "orders-1"), 0, "allowed: ", "access.toml:2 allows it"),
        (("orders", "read", "topic:orders-1"), 0, "allowed: ", "access.toml:2 allows it"),
        (("orders", "read", "topic", "orders-secret"), 1, "denied: ", "access.toml:3 denies it"),
        (("orders", "read", "topic", "payroll"), 1, "denied: ", "no rule allows it"),
        (("orders", "describe", "cluster"), 1, "denied: ", "no rule allows it"),
    ],
)
def test_a_verdict_names_its_rule_and_is_the_exit_code(
    words: tuple[str, ...], code: int, begins: str, said: str, run: Run, file: Path
) -> None:
    left, out, _ = run("check", *words, "--access", str(file))
    assert left == code
    assert out.startswith(begins)
    assert said in out


def test_a_verdict_as_json_has_the_place_of_its_rule(run: Run, file: Path) -> None:
    code, out, _ = run("check", "orders", "read", "topic", "orders-secret", "--access", str(file), "--json")
    told = json.loads(out)
    assert (code, told["allowed"], told["rule"]) == (1, False, "deny * read topic orders-secret")
    assert told["place"].endswith("access.toml:3")


@pytest.mark.parametrize("words", [("topic",), ("cluster", "x"), ("table", "x"), ("topic", "a", "b")])
def test_what_is_no_resource_is_a_usage_error(words: tuple[str, ...], run: Run, file: Path) -> None:
    assert run("check", "orders", "read", *words, "--access", str(file))[0] == 2


def test_rules_of_the_database_are_added_listed_in_force_and_removed(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox(url)
    outbox.migrate()
    outbox.close()
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 0, "without a rule everybody may"
    assert run("add", "allow", "ops", "*", "*", "--url", url)[:2] == (0, "added: allow ops * *\n")
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 1, "from the first rule on, no more"
    assert run("add", "allow", "ana", "read,write", "topic", "t*", "--url", url)[0] == 0
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 0
    told = json.loads(run("list", "--url", url, "--json")[1])
    rules = {each["rule"] for each in told["rules"]}
    assert rules >= {"allow ops * cluster", "allow ops * topic *", "allow ana read topic t*"}, "one of each kind"
    assert run("remove", "allow", "ana", "read,write", "topic", "t*", "--url", url)[0] == 0
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 1
    code, _, err = run("remove", "allow", "ops", "*", "*", "--url", url)
    assert code == 1
    assert "the database's rule allow ops * *: it is the last rule" in err
    assert "--last" in err
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 1, "it is still there"
    assert run("remove", "allow", "ops", "*", "*", "--last", "--url", url)[0] == 0
    assert run("check", "ana", "write", "topic", "t", "--url", url)[0] == 0
    code, _, err = run("add", "allow", "ana", "fly", "topic", "t", "--url", url)
    assert code == 2
    assert "fly" in err


def test_what_a_file_keeps_of_a_secret_lets_its_owner_in_and_is_not_the_secret(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(f"{CANARY}\n"))
    code, user, _ = run("hash", "ana")
    assert code == 0
    monkeypatch.setattr("sys.stdin", StringIO("canary-31e5-a-long-static-token\n"))
    code, token, _ = run("hash", "grafana", "--token")
    assert code == 0
    assert "canary" not in user + token
    assert set(tomllib.loads(user)["users"]["ana"]) == {"password", "scram-sha-256", "scram-sha-512"}
    path = tmp_path / "access.toml"
    path.write_text(f"{RULES}\n{user}\n{token}")
    access = Access(AccessFile(path).load())
    peer = Peer("127.0.0.1", "http", is_private=True)
    assert access.authenticate_basic("ana", CANARY, peer).name == "ana"
    assert access.authenticate_bearer("canary-31e5-a-long-static-token", peer).name == "grafana"
    _, out, _ = run("list", "--access", str(path))
    assert "user ana" in out
    assert "token grafana" in out
    assert "scrypt" not in out
    assert run("hash", "two words\n")[0] == 2


def test_certificates_to_try_with_are_made_and_made_anew_by_the_same_authority(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    code, out, _ = run("dev-certs", str(folder), "--client", "ana")
    assert code == 0
    assert f"--tls-cert {folder}/server.pem" in out
    first = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert {"ca.pem", "server.pem", "server.key", "ana.pem", "ana.key"} <= set(first)
    assert all(each.stat().st_mode & 0o077 == 0 for each in folder.glob("*.key")), "keys are their owner's"
    run("dev-certs", str(folder), "--client", "ana")
    again = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert again["ca.pem"] == first["ca.pem"]
    assert again["server.pem"] != first["server.pem"]
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "ana.pem", folder / "ana.key")


def test_an_access_file_that_is_not_there_is_named_with_what_to_do(run: Run, tmp_path: Path) -> None:
    gone = tmp_path / "nosuch.toml"
    code, _, said = run("check", "ana", "read", "topic", "orders", "--access", str(gone))
    assert code == 2
    assert f"{gone}: there is no such file; write it, or correct its path" in said
