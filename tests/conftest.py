"""What every test gets: a clean place to stand, a budget, and the real services.

The process that collects for all (the xdist controller, or the only process) owns the run folder and
the base seed; workers get both through xdist. It stops the services when the run ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import uvicorn.server
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.services import in_ci, missing
from tests.services.budget import Budget, BudgetError, level_from_environment, read_table, seed_from_environment
from tests.services.longest import longest_first
from tests.services.postgres import PostgresServer, PostgresUnavailable
from tests.services.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
# Of the measurements and of the tests themselves: whoever changes Penstock need not wait for them.
SLOW_FOLDERS = (f"{ROOT}/tests/unit/bench/", f"{ROOT}/tests/unit/infra/")
# Where kinds of stores differ: the fast set asks these on PostgreSQL and on a log in lists, too. Of all other
# tests that run on several kinds it takes SQLite, and the slow set the rest.
EVERY_KIND = tuple(
    f"{ROOT}/tests/{each}.py"
    for each in (
        "conformance/test_adapters",
        "conformance/test_faults",
        "conformance/test_group_store",
        "conformance/test_log",
        "conformance/test_membership",
        "conformance/test_outbox",
        "conformance/test_overlap",
        "conformance/test_scheduled",
        "conformance/test_schema",
        "conformance/test_sqlalchemy_units",
        "conformance/test_statements",
        "conformance/test_transactional",
        "crash/test_kill",
        "crash/test_units",
        "unit/outbox/test_sequencer",
        "unit/worker/test_running",
    )
)
# What a log in files could do otherwise than one in lists; the long set asks it everything.
ON_FILES = tuple(
    f"{ROOT}/tests/{each}.py"
    for each in (
        "conformance/test_erase",
        "conformance/test_growing",
        "conformance/test_log",
        "conformance/test_outbox",
        "conformance/test_retention",
        "conformance/test_topics",
        "kafka/test_confluent",
        "kafka/test_conversation",
        "kafka/test_growing",
        "kafka/test_kills",
        "kafka/test_producers",
        "kafka/test_times",
    )
)
SPARKS = {"spark", "killed_lakes"}  # fixtures that start one
THREADS_END_SECONDS = 10.0  # a busy machine may be slow to end them
# Neither the calls of handlers, which a test may leave hanging on purpose, nor threads of a pool
# (`penstock-rest_0`), which a door that several tests share makes when it needs one.
OURS = re.compile(r"penstock-(?!handler|unit)(?!.*_\d+$)")
KEPT_VARIABLES = {"PENSTOCK_BUDGET", "PENSTOCK_SEED"}

run_folder = pytest.StashKey[Path]()
owned_folder = pytest.StashKey[RunFolder]()
base_seed = pytest.StashKey[int]()
server_syncs = pytest.StashKey[bool]()

# No deadline: a busy machine is no bug. In CI always the same examples; at home new ones, and those
# that failed are kept although every test stands in a folder of its own.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile(
    "home", deadline=None, database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples")
)
hypothesis.settings.load_profile("ci" if in_ci() else "home")


def pytest_configure(config: pytest.Config) -> None:
    """Own the run folder and the seed, or take over those of the controller."""
    config.pluginmanager.register(LongestFirst())
    from_controller: dict[str, Any] | None = getattr(config, "workerinput", None)
    # Read here because a test no longer sees it.
    config.stash[server_syncs] = os.environ.get("PENSTOCK_TEST_FSYNC", "on") != "off"
    if from_controller is not None:
        config.stash[run_folder] = Path(from_controller["penstock_run_folder"])
        config.stash[base_seed] = from_controller["penstock_base_seed"]
        return
    try:
        level_from_environment()
        config.stash[base_seed] = seed_from_environment()
    except BudgetError as error:
        raise pytest.UsageError(str(error)) from error
    folder = RunFolder()
    config.stash[owned_folder] = folder
    config.stash[run_folder] = folder.path


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to draw the same numbers again."""
    return f"random draws: PENSTOCK_SEED={config.stash[base_seed]}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker what the controller owns."""
    node.workerinput["penstock_run_folder"] = str(node.config.stash[run_folder])
    node.workerinput["penstock_base_seed"] = node.config.stash[base_seed]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the services; this also runs after failures and Ctrl-C."""
    folder = config.stash.get(owned_folder, None)
    if folder is not None:
        try:
            PostgresServer(folder.path).stop()
        finally:
            folder.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its folder or by its kind of store, and what has a Spark, before `-m` chooses."""
    if level_from_environment() != "long":
        items[:] = [item for item in items if not _is_long(item)]
    on_sqlite = {_test_of(item) for item in items if "sqlite" in _parameters(item)}
    for item in items:
        others = {"postgres", "lists", "files"} & _parameters(item) and item.path.as_posix() not in EVERY_KIND
        repeats = _test_of(item) in on_sqlite and (others or "memory" in _parameters(item))
        if repeats or str(item.path).startswith(SLOW_FOLDERS):
            item.add_marker(pytest.mark.slow)
        if SPARKS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


class LongestFirst:
    """Orders what is left after `-m`, `-k` and the fixtures have had their say."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = longest_first(items)


def _is_long(item: pytest.Item) -> bool:
    """Return whether only the long set has it."""
    on_files = "files" in _parameters(item) and item.path.as_posix() not in ON_FILES
    return on_files or item.get_closest_marker("long") is not None


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _parameters(item: pytest.Item) -> set[str]:
    callspec = getattr(item, "callspec", None)
    return {each for each in callspec.params.values() if isinstance(each, str)} if callspec else set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the round and its seed to the report of a failed round-based test."""
    report = yield
    used = getattr(item, "funcargs", {}).get("budget")
    if report.failed and isinstance(used, Budget):
        report.sections.append(("Budget", used.account()))
    return report


class _Hurried:
    """The module `asyncio` for uvicorn, which sleeps 0.1 s at a time until it sees that it is to end."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        """Sleep a hundredth of a second at most."""
        await asyncio.sleep(min(seconds, 0.01))


@pytest.fixture(autouse=True, scope="session")
def _what_is_stopped_ends_at_once() -> Iterator[None]:
    """Let HTTP servers of this process look oftener whether they are to end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", _Hurried())
        yield


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the user's settings: a penstock.toml where they stand, PENSTOCK_* and libpq's variables."""
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith(("PENSTOCK_", "PG")) and name not in KEPT_VARIABLES:
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_thread_left_behind(_clean_place: None) -> Iterator[None]:
    """Fail the test that leaves a thread of ours at work: later tests in this process would meet it."""
    before = set(threading.enumerate())
    yield
    left = _ours_since(before)
    until = time.monotonic() + THREADS_END_SECONDS
    while left and time.monotonic() < until:  # one that was told to stop may need a moment
        left[0].join(0.05)
        left = _ours_since(before)
    assert not left, f"threads left behind: {sorted(each.name for each in left)}; stop what the test started"


def _ours_since(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return the threads of Penstock that began since. The bell is the process's own and never stops."""
    begun = [each for each in threading.enumerate() if each not in before and OURS.match(each.name)]
    return [each for each in begun if each.name != "penstock-bell"]


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers, here and in processes started here, begin at once instead of gathering newcomers."""
    for name in ("HEARTBEAT_INTERVAL", "REBALANCE_INTERVAL"):
        monkeypatch.setenv(f"PENSTOCK_CLUSTER_{name}", "0.1")
    monkeypatch.setenv("PENSTOCK_CLUSTER_GATHER_JOINS", "0")


@pytest.fixture
def budget(request: pytest.FixtureRequest) -> Budget:
    """Give `for round in budget("crash.publish")`, whose numbers are in `tests/budget.toml`."""
    return Budget(read_table(), level_from_environment(), request.config.stash[base_seed])


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> PostgresServer:
    """Give the run's one PostgreSQL server, started by the first test that needs it."""
    config = request.config
    server = PostgresServer(config.stash[run_folder], fsync=config.stash[server_syncs])
    try:
        server.start()
    except PostgresUnavailable as error:
        missing("PostgreSQL", str(error))
    return server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Give the URL of an empty PostgreSQL database that only this test knows."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)
