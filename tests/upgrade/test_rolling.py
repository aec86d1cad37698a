"""Neighbouring releases side by side: migrated under load, killed and started again, and at last refused.

The older release is the wheel of the last commit; the newer ones are this tree with one migration more each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Thread

import pytest

from penstock import Outbox
from tests.conformance.next_release import EXPANDING, KNOWN
from tests.crash.diary import WORKED, Delivered, breaches, read
from tests.crash.waiting import wait_until
from tests.upgrade.releases import CONTRACTING, PRESENT, Release, RunningRelease
from tests.upgrade.store import UsedStore, contents

UNRELEASED = "37aeac6a"  # from before the first release
PROGRAM = """
import os, time
from penstock import Outbox, Record

outbox = Outbox({url!r})
diary = os.open({diary!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

@outbox.handler(group="rolling", topic={topic!r})
def note(record: Record) -> None:
    line = (time.monotonic_ns(), os.getpid(), record.partition, record.offset, record.fence,
            int(record.redelivered), record.key, record.type)
    os.write(diary, (" ".join(map(str, line)) + "\\n").encode())
    time.sleep(0.001)
"""


class Publisher:
    """Publishes in a thread of its own, by this release, whatever the tables are; counts what committed."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox, self._stopping = outbox, Event()
        self.published = 0
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        rng = random.Random(1)
        while not self._stopping.wait(0.02):
            some = [{"type": "t", "value": 1, "key": f"k-{rng.randrange(100)}"} for _ in range(5)]
            with self._outbox.transaction() as conn:
                self._outbox.publish_many(conn, some, topic=WORKED)
            self.published += len(some)


class Deploy:
    """A store with a publisher at it, the workers that were started, and what they wrote down."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url, self._stack = url, stack
        self._diary, self._program = folder / "diary", folder / "shop.py"
        self._program.write_text(PROGRAM.format(url=url, diary=str(self._diary), topic=WORKED))
        self.outbox = stack.enter_context(closing(Outbox(url)))

    def start(self, release: Release) -> RunningRelease:
        """Start a worker of a release, and wait until it takes part."""
        worker = release.worker(self._program)
        self._stack.callback(worker.close)
        self.wait_for(worker)
        return worker

    def wait_for(self, worker: RunningRelease) -> None:
        """Wait until a worker delivers something that it has not yet."""
        before = self._delivered_by(worker)
        wait_until(lambda: worker.is_gone() or self._delivered_by(worker) > before, "it takes part in the work")
        assert not worker.is_gone(), worker.said()

    def deliveries(self) -> list[Delivered]:
        """Return what was delivered so far; a line that is being written is not yet there."""
        return read(self._diary)

    def places(self) -> set[tuple[int, int]]:
        """Return where all that was delivered stands."""
        return {(each.partition, each.offset) for each in self.deliveries()}

    def _delivered_by(self, worker: RunningRelease) -> int:
        return sum(each.pid == worker.pid for each in self.deliveries())


@pytest.fixture
def deploy(url: str, tmp_path: Path) -> Iterator[Deploy]:
    """Give a store of this release, a program for it, and a stack that ends all it starts."""
    (tmp_path / "shop").mkdir()
    with ExitStack() as stack:
        made = Deploy(url, tmp_path / "shop", stack)
        made.outbox.migrate()
        yield made


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Give the last commit, as its wheel."""
    return Release.of_commit("HEAD", tmp_path_factory.mktemp("landed"))


@pytest.fixture(scope="module")
def unreleased(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Give a commit from before the first release, as its wheel."""
    return Release.of_commit(UNRELEASED, tmp_path_factory.mktemp("unreleased"))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_neighbouring_releases_run_side_by_side(deploy: Deploy, landed: Release, tmp_path: Path) -> None:
    """And the older one leaves with a clear word once a migration takes away what it needs."""
    assert landed.version_of_tables() == KNOWN
    tree = Release(PRESENT.parent)
    following = tree.following(tmp_path / "next", KNOWN + 1, EXPANDING.format(version=KNOWN + 1))
    contracting = CONTRACTING.format(version=KNOWN + 2, usable_from=KNOWN + 1)
    after_next = following.following(tmp_path / "after-next", KNOWN + 2, contracting)
    with Publisher(deploy.outbox) as publisher:
        old, victim = deploy.start(landed), deploy.start(landed)
        assert f"applied: {KNOWN + 1:04} later" in following.migrate(deploy.url)
        deploy.wait_for(old)
        new = deploy.start(following)
        victim.kill()
        again = deploy.start(landed)
        usable = f"has schema version {KNOWN + 1}, this Penstock knows {KNOWN} and can still use it"
        wait_until(lambda: usable in old.said() and usable in again.said(), "both say that they go on")
        assert f"up to date: version {KNOWN + 1}; this Penstock knows {KNOWN}" in landed.migrate(deploy.url)
        for each in (old, again, new):
            deploy.wait_for(each)

        assert f"applied: {KNOWN + 2:04} later" in after_next.migrate(deploy.url)
        refused = (
            f"the database has schema version {KNOWN + 2} and can be used from version {KNOWN + 1} on, "
            f"but this Penstock knows {KNOWN}; update Penstock here"
        )
        for each in (old, again):
            wait_until(each.is_gone, "the older release has ended")
            assert each.said().splitlines()[-1] == f"error: {refused}"
            assert each.process.returncode == 1
        deploy.wait_for(new)
    wait_until(lambda: len(deploy.places()) >= publisher.published, "all is delivered")
    assert new.stop() == 0
    disturbed = {victim.pid, old.pid, again.pid}
    assert list(breaches(deploy.deliveries(), disturbed)) == []
    assert len(deploy.places()) == publisher.published


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_unreleased_wheel_refuses_these_tables_and_changes_nothing(
    used: UsedStore, unreleased: Release, tmp_path: Path
) -> None:
    before, known = used.contents(), unreleased.version_of_tables()
    assert known < KNOWN
    refused = (
        f"error: the database has schema version {KNOWN} and can be used from version {KNOWN} on, "
        f"this Penstock knows {known}; update Penstock here\n"
    )
    (tmp_path / "shop.py").write_text(PROGRAM.format(url=used.url, diary=str(tmp_path / "diary"), topic="t"))
    for command in ("migrate", "drop --yes --force", "groups list"):
        ended = unreleased.run(*command.split(), "--url", used.url)
        assert (ended.returncode, ended.stderr) == (1, refused)
    ended = unreleased.run("worker", "shop:outbox", cwd=tmp_path)
    assert (ended.returncode, ended.stderr.splitlines(keepends=True)[-1]) == (1, refused)
    assert (tmp_path / "diary").read_text() == ""
    assert used.contents() == before


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tables_of_an_unreleased_wheel_are_refused_and_stay_as_they_are(
    url: str, kind: str, unreleased: Release
) -> None:
    """So that the Penstock that made them can drain them."""
    known = unreleased.version_of_tables()
    assert f"applied: {known:04}" in unreleased.migrate(url)
    old = f"the tables have schema version {known}, of an unreleased version of Penstock"
    before = contents(kind, url)
    tree = Release(PRESENT.parent)
    for command in ("migrate", "migrate --check", "migrate --sql", "drop --yes --force", "groups list"):
        ended = tree.run(*command.split(), "--url", url)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"error: {old}")
    assert contents(kind, url) == before
    assert unreleased.migrate(url) == f"up to date: version {known}\n"
