"""The probes and the scrape, over real stores and workers of this process."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from penstock import Fixed, Outbox, Record, gateway, metrics
from penstock.errors import InvalidInput
from penstock.gateway import readiness
from penstock.gateway.exposition import CONTENT_TYPE, scrape
from penstock.gateway.readiness import MOST_CALLS, StoreProbe, StoreSilence
from penstock.metrics import SERIES
from penstock.testing import FakeClock
from tests.architecture.alone import run_alone
from tests.crash.waiting import wait_until
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture(autouse=True)
def _fresh_series() -> None:
    for series in SERIES:
        series.reset()


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Give an outbox in a file, with a group."""
    with closing(Outbox("sqlite:///shop.db")) as made:
        made.migrate()
        made.handler("good", group="good", id="good")(lambda record: None)
        yield made


def asked(app: Starlette, path: str = "/readyz") -> tuple[int, Any]:
    """Return the status and the JSON of an answer; each question has an event loop of its own."""
    answer = TestClient(app).get(path)
    return answer.status_code, answer.json()


def reasons(app: Starlette) -> list[str]:
    """Return why it is not ready, in words; the status agrees, and each has a sentence and a remedy."""
    status, said = asked(app)
    assert (status, said["ready"]) == ((503, False) if said["reasons"] else (200, True))
    assert all(each["detail"] and each["remedy"] and each["store"] for each in said["reasons"])
    return [each["reason"] for each in said["reasons"]]


def scraped(app: Starlette) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the series by name and values of labels."""
    answer = TestClient(app).get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(each.labels.values())] = each.value
    return found


def test_it_is_ready_while_its_worker_runs_and_says_so_when_none_does(outbox: Outbox) -> None:
    app = gateway.app(outbox)
    assert reasons(app) == ["not_running"]
    assert scraped(app)["penstock_workers"]["shop.db",] == 0
    with working(outbox):
        wait_until(lambda: reasons(app) == [], "it is ready")
        found = scraped(app)
        assert found["penstock_workers"]["shop.db",] == 1
        assert 0 < found["penstock_lease_seconds"]["shop.db",] <= 30
        assert found["penstock_delivered_total"]["good", "good"] >= 0
        assert found["penstock_running_calls"]["shop.db", "good"] == 0
        wait_until(lambda: scraped(app).get("penstock_members") == {("shop.db",): 1}, "it has measured")
    assert reasons(app) == ["not_running"]
    found = scraped(app)
    assert ("shop.db",) not in found.get("penstock_lease_seconds", {})
    assert ("shop.db",) not in found.get("penstock_members", {})
    assert asked(app, "/healthz") == (200, {"alive": True})


def test_it_is_mounted_in_an_application_whose_loop_runs_the_worker(outbox: Outbox) -> None:
    async def story() -> None:
        own = Starlette(routes=[Mount("/internal", gateway.app(outbox))])
        assert await called(own, "/internal/readyz") == 503
        async with outbox.running():
            while await called(own, "/internal/readyz") != 200:
                await asyncio.sleep(0.005)
        assert await called(own, "/internal/readyz") == 503
        assert await called(own, "/internal/metrics") == 200
        assert await called(own, "/metrics") == 404

    asyncio.run(asyncio.wait_for(story(), 60))


async def called(app: Starlette, path: str) -> int:
    """Call an application in the running loop; return the status."""
    status: list[int] = []

    async def send(message: Any) -> None:
        status.extend([message["status"]] if message["type"] == "http.response.start" else [])

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "root_path": ""}
    await app(scope, receive, send)
    return status[0]


def test_a_process_that_only_publishes_needs_no_worker(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(gateway.app(outbox, worker=False)) == []
    monkeypatch.setenv("PENSTOCK_PROCESSING_ENABLED", "false")
    assert reasons(gateway.app(outbox)) == []


def test_several_stores_are_told_apart(outbox: Outbox) -> None:
    with closing(Outbox("sqlite:///other.db")) as other:
        app = gateway.app(outbox, other)
        with working(outbox):
            wait_until(lambda: reasons(app) == ["store_missing", "not_running"], "one of two is ready")
            assert {each["store"] for each in asked(app)[1]["reasons"]} == {"other.db"}
            other.migrate()
            with other.transaction() as conn:
                other.publish(conn, "t", 1)
            other.handler("t", group="good", id="other")(lambda record: None)
            with working(other):
                wait_until(lambda: reasons(app) == [], "both are ready")
                both = {("shop.db",): 1, ("other.db",): 1}
                wait_until(lambda: scraped(app)["penstock_members"] == both, "both are measured")
                found = scraped(app)
                assert found["penstock_workers"] == both
                assert set(found["penstock_groups_given_up"]) == {("shop.db", "good"), ("other.db", "good")}


def test_a_worker_that_stops_is_not_ready(outbox: Outbox) -> None:
    app, let_go, began = gateway.app(outbox), Event(), Event()

    @outbox.handler("slow", group="slow", id="slow")
    def slow(record: Record) -> None:
        began.set()
        assert let_go.wait(60)

    publish(outbox, "slow", 1)
    with working(outbox) as until:
        assert began.wait(60)
        assert scraped(app)["penstock_running_calls"]["shop.db", "slow"] == 1
        until.set()
        wait_until(lambda: reasons(app) == ["stopping"], "it says that it stops")
        let_go.set()


def publish(outbox: Outbox, type: str, *values: int) -> None:
    with outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": type, "value": each, "key": f"k-{each}"} for each in values])


def test_a_group_whose_calls_hang_makes_it_not_ready_until_they_end(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "4")
    app, let_go, soon = gateway.app(outbox), Event(), Fixed(timedelta(milliseconds=10), max_retries=100_000)

    @outbox.handler("hang", group="hangs", id="hangs", timeout=0.05, retry=soon)
    def hang(record: Record) -> None:
        assert let_go.wait(60)

    publish(outbox, "hang", *range(8))
    with working(outbox):
        wait_until(lambda: reasons(app) == ["group_given_up"], "the group is given up")
        (said,) = asked(app)[1]["reasons"]
        assert "group hangs (" in said["detail"]
        assert "restart this process" in said["remedy"]
        assert scraped(app)["penstock_groups_given_up"] == {("shop.db", "good"): 0, ("shop.db", "hangs"): 1}
        let_go.set()
        wait_until(lambda: reasons(app) == [], "its calls have ended")


def test_a_lease_that_is_not_renewed_makes_it_not_ready_until_it_is(
    tmp_path: Path, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CLUSTER_LEASE_TTL", "0.4")
    app = gateway.app(outbox)
    with working(outbox):
        wait_until(lambda: reasons(app) == [], "it is ready")
        with locked(tmp_path, "BEGIN IMMEDIATE"):  # nobody can write; reading goes on
            wait_until(lambda: reasons(app) == ["lease_lapsed"], "its lease has run out")
            assert scraped(app)["penstock_lease_seconds"]["shop.db",] <= 0
        wait_until(lambda: reasons(app) == [], "it is renewed")
        assert scraped(app)["penstock_lease_lapses_total"][()] >= 1


@contextmanager
def locked(folder: Path, *statements: str) -> Iterator[None]:
    """Keep the file locked."""
    with closing(sqlite3.connect(folder / "shop.db", isolation_level=None)) as conn:
        for each in statements:
            conn.execute(each)
        yield


EXCLUSIVE = ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE")


def probing() -> int:
    return sum(each.name == "penstock-probe" for each in threads())


@pytest.fixture
def silent(tmp_path: Path, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    """Give an outbox whose file is locked exclusively: whoever opens it waits."""
    outbox.store.close()
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.05)
    with closing(Outbox("sqlite:///shop.db")) as asked, locked(tmp_path, *EXCLUSIVE):
        yield asked
    wait_until(lambda: probing() == 0, "no thread is left behind")


def test_a_store_that_hangs_is_told_in_time_and_the_event_loop_goes_on(
    silent: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = gateway.app(silent, worker=False)
    assert reasons(app) == ["store_silent"]
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 600)  # as long as the store hangs

    async def story() -> int:
        question = asyncio.ensure_future(called(app, "/readyz"))
        await asyncio.sleep(0)
        for path in ("/healthz", "/metrics"):
            assert await called(app, path) == 200
        assert not question.done()
        question.cancel()
        return probing()

    assert asyncio.run(story()) == 1


def test_a_store_is_asked_once_at_a_time_and_again_when_a_call_seems_lost(silent: Outbox) -> None:
    clock = FakeClock()
    probe = StoreProbe(silent.store, clock)

    async def ask(count: int) -> list[Exception | None]:
        return list(await asyncio.gather(*(probe.ask() for _ in range(count))))

    for calls in (1, 2, 3, MOST_CALLS, MOST_CALLS):
        assert {type(each) for each in asyncio.run(ask(50))} == {StoreSilence}
        assert probing() == calls
        clock.advance(timedelta(seconds=readiness.HOPELESS_SECONDS))


def test_a_scrape_takes_nothing_away_from_another(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    scrape([outbox])
    seen, health = list[Any](), outbox.health

    def looked() -> Any:
        seen.append(metrics.WORKERS.values().get((outbox.store.name,)))
        return health()

    monkeypatch.setattr(outbox, "health", looked)
    scrape([outbox])
    assert seen == [0]


def test_a_call_that_gets_no_thread_is_not_waited_for(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = StoreProbe(outbox.store)

    def fail(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", fail)
        with pytest.raises(RuntimeError):
            asyncio.run(probe.ask())
    assert asyncio.run(probe.ask()) is None


def test_a_store_that_hung_answers_again(tmp_path: Path, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.05)
    outbox.store.close()
    with closing(Outbox("sqlite:///shop.db")) as asked:
        app = gateway.app(asked, worker=False)
        with locked(tmp_path, *EXCLUSIVE):
            assert reasons(app) == ["store_silent"]
        wait_until(lambda: reasons(app) == [], "it answers")


def test_a_store_that_cannot_be_opened_is_told_in_its_own_words(tmp_path: Path) -> None:
    with closing(Outbox(f"sqlite:///{tmp_path}/nowhere/shop.db")) as outbox:
        (said,) = asked(gateway.app(outbox, worker=False))[1]["reasons"]
    assert said["reason"] == "store_unreachable"
    assert "nowhere/shop.db cannot be reached" in said["detail"]


def test_an_outbox_is_needed() -> None:
    with pytest.raises(InvalidInput, match=r"gateway\.app\(outbox\)"):
        gateway.app()


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_answers_are_not_kept_and_nothing_can_be_sent(outbox: Outbox, path: str) -> None:
    client = TestClient(gateway.app(outbox))
    assert client.get(path).headers["cache-control"] == "no-store"
    assert client.post(path).status_code == 405


def test_without_the_extra_it_is_named() -> None:
    done = run_alone(
        "from penstock import Outbox, gateway\n"
        "try:\n    gateway.app(Outbox('memory://'))\nexcept Exception as exc:\n    print(exc.code, exc)"
    )
    assert done.stdout.startswith("missing_extra "), done.stderr
    assert "pip install 'penstock-outbox[http]'" in done.stdout
