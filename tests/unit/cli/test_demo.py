"""`penstock demo`: what was committed is delivered, and the last line says so."""

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from penstock.access.opening import Lock
from penstock.access.settings import AccessSettings
from penstock.cli import demo, main
from penstock.cli.console import served
from penstock.cli.demo import read_topic
from penstock.cli.listeners import ListenAddress
from penstock.log.store import open_store
from penstock.testing.shop import Shop
from tests.console.served import mark_of, text_of
from tests.crash.waiting import wait_until
from tests.pipeline.conftest import need_java
from tests.suites.refusal import refusal
from tests.unit.cli.program import penstock

Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a way to run the demo; it returns the exit code, the lines and the complaints."""

    def demonstrate(*args: str) -> tuple[int, list[str], str]:
        left = refusal(SystemExit, main, ["demo", "--no-lake", "--no-broker", *args])
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out.splitlines(), printed.err

    return demonstrate


def test_the_demo_ends_reconciled(run: Run) -> None:
    code, lines, err = run("--orders", "50", "--broker")
    assert (code, err) == (0, "")
    assert lines[-1] == "reconciled: committed=40 logged=40 delivered=40 kafka=40"
    assert "50 orders, one transaction each: 40 paid, 10 rolled back" in lines
    assert any("was killed (kill -9)" in line for line in lines)
    assert any(line.startswith("order o-13 failed 3 times and is a dead letter") for line in lines)


@pytest.mark.slow
def test_one_order_is_enough(run: Run) -> None:
    assert run("--orders", "1")[1][-1] == "reconciled: committed=1 logged=1 delivered=1"


@pytest.mark.slow
def test_the_demo_leaves_nothing_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    run("--orders", "5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_database_can_be_kept(run: Run, tmp_path: Path) -> None:
    assert run("--orders", "5", "--dir", str(tmp_path / "new" / "shop"))[0] == 0
    assert (tmp_path / "new" / "shop" / "shop.db").exists()


def test_a_file_that_is_there_is_not_touched(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"mine")
    code, lines, err = run("--dir", str(tmp_path))
    assert (code, lines) == (2, [])
    assert "shop.db is there already; name another --dir" in err
    assert (tmp_path / "shop.db").read_bytes() == b"mine"


@pytest.mark.slow
def test_an_event_that_is_lost_turns_it_red(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A test of the demo's own proof: one record taken out of the log."""

    class Leaking(Shop):
        def logged_ids(self) -> list[str | None]:
            return super().logged_ids()[1:]

    monkeypatch.setattr(demo, "Shop", Leaking)
    code, lines, _ = run("--orders", "10")
    assert code == 1
    assert lines[-1].startswith("NOT reconciled: committed=8 logged=7")
    assert "orders without an event (lost): 1" in lines


@pytest.mark.slow
def test_an_event_that_came_twice_turns_it_red(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Doubling(Shop):
        def logged_ids(self) -> list[str | None]:
            return [*super().logged_ids(), "o-1"]

    monkeypatch.setattr(demo, "Shop", Doubling)
    code, lines, _ = run("--orders", "10")
    assert code == 1
    assert lines[-1].startswith("NOT reconciled")


@pytest.mark.slow
def test_the_demo_runs_as_a_program_in_a_pipe(tmp_path: Path) -> None:
    """Without a terminal there is no bar, and each line is a plain one."""
    done = subprocess.run(
        penstock("demo", "--no-lake", "--no-broker", "--orders", "20"), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "reconciled: committed=16 logged=16 delivered=16"
    assert not re.search(r"\x1b|\r", done.stdout)
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.spark
def test_the_events_reach_the_lake(tmp_path: Path) -> None:
    need_java()
    done = subprocess.run(
        penstock("demo", "--orders", "200", "--dir", str(tmp_path)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "reconciled: committed=160 logged=160 delivered=160 kafka=160 table=160"
    assert any(re.match(r"  \d\d:\d\d +\d+\.\d\d  █", line) for line in lines)
    shown_in_the_console(tmp_path)


def shown_in_the_console(folder: Path) -> None:
    """See that the page of pipelines shows the tables, and that they agree with the log."""
    store, lake = open_store(f"sqlite:///{folder}/shop.db"), folder / "lake" / "events"
    here, token = ListenAddress("127.0.0.1", 0), "a-token"
    with (
        closing(store),
        Lock(AccessSettings(), store.database) as doors,
        served(store, here, doors, token=token, hosts=(), lake=lake) as at,
        httpx2.Client(base_url=at) as client,
    ):
        page = text_of(client.get("pipelines").text)
        assert "order.placed 160 " in page
        assert "events 160 offsets" in page
        assert "reconciled" not in text_of(client.get("pipelines", params={"reconcile": "events"}).text)
        mark = mark_of(client.get("unlock").text)
        assert client.post("unlock", data={"token": token, "mark": mark}).status_code == 303
        found = text_of(client.get("pipelines", params={"reconcile": "events"}).text)
        assert "reconciled: logged=160" in found
        assert "table=160" in found
        live = client.get("pipelines", params={"reconcile": "events"}, headers={"x-live": "1"}).text
        assert "reconciled" not in text_of(live), "a page that brings itself up to date compares once"


def test_what_is_missing_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "penstock.cli.demo_lake", None)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    left = refusal(SystemExit, main, ["demo", "--orders", "3"])
    out = capsys.readouterr().out
    assert left.code == 0
    assert "the lake is left out: the lake needs an extra; install it with: pip install 'penstock-outbox[spark]'" in out
    assert "the Kafka client is left out: it needs an extra; install it with: pip install" in out
    assert out.splitlines()[-1] == "reconciled: committed=3 logged=3 delivered=3"


@pytest.mark.slow
def test_a_record_that_the_kafka_client_did_not_get_turns_it_red(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "read_topic", lambda *_: ["o-1", "o-2"])
    code, lines, _ = run("--orders", "3", "--broker")
    assert (code, lines[-1]) == (1, "NOT reconciled: committed=3 logged=3 delivered=3 kafka=2")


@pytest.mark.slow
def test_a_shop_that_stays_open_shows_its_console_and_closes_when_asked(tmp_path: Path) -> None:
    program = penstock("demo", "--no-lake", "--orders", "3", "--serve", "--dir", str(tmp_path))
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as shop:
        assert shop.stdout is not None
        lines = iter(shop.stdout.readline, "")
        said = dict.fromkeys(("Kafka clients can read the topic events at", "console listening on"), "")
        try:
            for line in lines:
                for start in said:
                    said[start] += line.removeprefix(start).strip() if line.startswith(start) else ""
                if line.startswith("the shop stays open"):
                    break
            with urllib.request.urlopen(said["console listening on"]) as page:
                assert page.status == 200
            wait_until(lambda: len(Shop(tmp_path / "shop.db").order_ids()) > 3, "it sells on")
            assert read_topic(said["Kafka clients can read the topic events at"], "events", "another")
        finally:
            shop.send_signal(signal.SIGINT)
        assert (shop.wait(60), list(lines)[-1]) == (0, "closed\n")
