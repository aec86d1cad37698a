"""`penstock console`, `penstock serve --console` and `penstock top`, as programs."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from penstock import Outbox, Record
from penstock.cli import main
from tests.suites.refusal import refusal
from tests.unit.cli.program import penstock

SECONDS = 60
HANDLER = "@outbox.handler('order.placed', group='mailer')\ndef mail(record): pass\n"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the address of a store with one group."""
    address = f"sqlite:///{tmp_path}/shop.db"
    outbox = Outbox(address)
    outbox.migrate()
    outbox.handler("order.placed", group="mailer")(mail)
    with outbox.transaction() as conn:
        outbox.publish(conn, "order.placed", {}, key="o-1")
    outbox.drain()
    outbox.close()
    return address


def mail(record: Record) -> None: ...


@contextmanager
def started(*words: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a command that serves, and end it if it is still there."""
    command = [*penstock(*words), "--log-level", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_shows_until_it_is_stopped(url: str) -> None:
    with started("console", "--url", url, "--listen", "127.0.0.1:0", "--allow-actions") as process:
        said, token = line(process), line(process)
        assert said.startswith("console listening on http://127.0.0.1:")
        assert token.startswith("actions need this token: ")
        found = httpx2.get(said.rpartition(" ")[2], timeout=SECONDS)
        assert found.status_code == 200
        assert "mailer" in found.text
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    "words",
    [
        ("console", "--listen", "0.0.0.0:0"),
        ("console", "--listen", "0.0.0.0:0", "--tls-cert", "x.pem", "--tls-key", "x.key"),
        ("console", "--listen", "0.0.0.0:0", "--access", "access.toml"),
        ("serve", "--http", "0.0.0.0:0", "--insecure", "--console"),
    ],
)
def test_other_machines_see_it_only_with_tls_and_rules(words: tuple[str, ...], url: str) -> None:
    done = subprocess.run([*penstock(*words), "--url", url], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2
    assert "other machines can connect there" in done.stderr


def test_a_gateway_serves_it_too(url: str) -> None:
    with started("serve", "--url", url, "--http", "127.0.0.1:0", "--console") as process:
        base = f"http://{line(process).rpartition(' ')[2]}"
        assert "Read only" in httpx2.get(f"{base}/console/groups", timeout=SECONDS).text
        assert httpx2.get(f"{base}/v1/overview", timeout=SECONDS).json()["logged"] == 1
        assert httpx2.get(f"{base}/console/act/pause-group?name=mailer", timeout=SECONDS).status_code == 403


@pytest.mark.parametrize("doors", [["--kafka", "127.0.0.1:0"], []])
def test_a_console_needs_http(doors: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    left = refusal(SystemExit, main, ["serve", "--url", "memory://", *doors, "--console"])
    assert (left.code, "--console needs --http" in capsys.readouterr().err) == (2, True)


def test_a_worker_serves_it_too(url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"import penstock\noutbox = penstock.Outbox({url!r})\n" + HANDLER)
    words = ("worker", "shop:outbox", "--http", "127.0.0.1:0", "--console")
    with started(*words, cwd=tmp_path) as process:
        base = f"http://{line(process).rpartition(' ')[2]}"
        assert "mailer" in httpx2.get(f"{base}/console/groups", timeout=SECONDS).text
        assert httpx2.get(f"{base}/v1/overview", timeout=SECONDS).status_code == 404  # only with --api


def test_top_prints_the_overview_once_where_there_is_no_terminal(url: str) -> None:
    done = subprocess.run([*penstock("top", "--url", url)], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0
    assert "delivered" in done.stdout
    assert "mailer" in done.stdout


def test_top_prints_json(url: str) -> None:
    done = subprocess.run([*penstock("top", "--url", url, "--json")], capture_output=True, text=True, timeout=SECONDS)
    (group,) = json.loads(done.stdout)["groups"]
    assert (group["name"], group["passed"], group["lag"]) == ("mailer", 1, 0)
