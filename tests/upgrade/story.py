"""What happens to the store that is kept as a fixture: told once, acted out by `make_fixture` on each engine.

Every record's value is its label. For each group that reads its topic the story says the record's fate:

| fate      | the group, when the story ends                                                      |
|-----------|-------------------------------------------------------------------------------------|
| done      | has handled it                                                                      |
| now       | is given it as soon as it is served again: unread, staged, freed, requeued          |
| last      | is given it then, too, after all others of its key that come now                    |
| due       | waits for the retry of this record, or of an earlier one of its key, at `RETRY_AT`  |
| held      | waits until a person decides on the dead letter of its key                          |
| dead      | has given it up; its key waits                                                      |
| given up  | has given it up; its key has gone on                                                |
| paused    | is paused, and has not been given it                                                |
| scheduled | is given it once its time has come, at `SCHEDULED_AT`                               |
| far       | is not given it: it is scheduled for a time that no test reaches                    |
| never     | is not given it: discarded, erased, cancelled, or deleted before the group began    |
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Any, Literal

from penstock import Cancel, Fixed, Outbox, Record, Snooze
from penstock.operate import dead, erase, groups, lanes, reset, retention, scheduled, topics
from penstock.testing import FakeClock
from tests.crash.waiting import wait_until
from tests.upgrade.running_clock import RunningClock

FIRST_DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND_DAY = FIRST_DAY + timedelta(days=1)
SCHEDULED_AT = SECOND_DAY + timedelta(minutes=10)
RETRY_AT = SECOND_DAY + timedelta(hours=1)
FAR = datetime(2999, 1, 1, tzinfo=UTC)

EVENTS, LEDGER = "events", "ledger"  # of 256 partitions, and of 4
TOPICS = {"mail": EVENTS, "search": EVENTS, "ledger": LEDGER, "replay": LEDGER, "stock": LEDGER}
SLOW_RECORDS = 130  # of one key: more than a lane that flows may have waiting


class Fatal(Exception):
    """Not worth a second attempt."""


class slow(Exception):  # noqa: N801 - its name is what a lane's reason begins with
    """An error whose name is that of a state."""


POLICY = Fixed(timedelta(hours=1), max_retries=5, no_retry_on=Fatal)


def _fails() -> None:
    raise RuntimeError("the mail server is away")


def _fails_for_good() -> None:
    raise Fatal("there is no such address")


def _fails_slowly() -> None:
    raise slow("the mail server takes its time")


def _fails_slowly_without_a_word() -> None:
    raise slow


def _cancels() -> Cancel:
    return Cancel("nobody wants it")


def _snoozes() -> Snooze:
    return Snooze(timedelta(hours=1))


# What handlers do with some records; all others pass.
DOES: dict[tuple[str, str], Callable[[], Any]] = {
    **{
        ("mail", label): _fails
        for label in (
            "parked/0",
            "hash/0",
            "backslash/0",
            "binary/0",
            "word/0",
            "like-alone/0",
            "keyless/0",
            "owned-parked/0",
        )
    },
    ("mail", "slow-named/0"): _fails_slowly,
    ("mail", "slow-bare/0"): _fails_slowly_without_a_word,
    ("mail", "snoozed/0"): _snoozes,
    **{
        ("mail", f"{name}/0"): _fails_for_good
        for name in ("held", "held-empty", "skipped", "requeued", "edited", "last", "discarded")
    },
    ("mail", "cancelled/0"): _cancels,
    ("mail", "owned-dead/0"): _cancels,
    **{("ledger", label): _fails for label in ("alone-copied/0", "alone/0", "alone-hash/0")},
    ("ledger", "alone-dead/0"): _fails_for_good,
    ("replay", "alone/1"): _cancels,
}
HANGS = ("slow-lane/0", "hole/0", "hole/2")  # in the worker that is killed


def subscribe(outbox: Outbox, names: list[str], handled: Callable[[str, str], object]) -> None:
    """Register the groups' handlers; `handled` is told of the group and label of each record that passes."""
    for name in names:

        def handle(record: Record, name: str = name) -> Any:
            answer = DOES.get((name, record.value), lambda: None)()
            if answer is None:
                handled(name, record.value)
            return answer

        how: Literal["alone", "park"] = "alone" if name == "ledger" else "park"
        outbox.handler(group=name, id=name, topic=TOPICS[name], retry=POLICY, on_failure=how)(handle)


class Story:
    """The story on one store, from the first table on."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.records: list[dict[str, str | None]] = []
        self.fates: dict[str, dict[str, str]] = {group: {} for group in TOPICS}
        self._passed: dict[str, list[str]] = {group: [] for group in TOPICS}
        self._clock = FakeClock(FIRST_DAY)
        self._outbox = Outbox(url, clock=self._clock)
        self._db: dict[str, Any] = {"clock": self._clock}

    def act(self) -> None:
        """Let all of it happen."""
        self._outbox.migrate()
        self._first_day()
        self._second_day()
        self._a_person_decides()
        self._not_read_yet()
        self._workers_are_killed()
        self._not_sequenced_yet()
        self._outbox.close()
        for group, passed in self._passed.items():
            done = [label for label, fate in self.fates[group].items() if fate == "done"]
            assert sorted(passed) == sorted(done), f"{group}: {sorted(passed)} is not {sorted(done)}"

    def id_of(self, label: str) -> str:
        """Return the id that a record was given in this store."""
        return next(str(each["id"]) for each in self.records if each["label"] == label)

    # -- the acts

    def _first_day(self) -> None:
        """A worker serves all groups; then retention deletes, and copies what still waits."""
        database = self._outbox.database
        topics.create(database, LEDGER, partitions=4, **self._db)
        topics.set_retention(database, LEDGER, age=timedelta(hours=6), max_records=100_000, **self._db)
        self._say(EVENTS, "r-1", ["read/0", "read/1"])
        self._say(EVENTS, "r-2", ["read/2"])
        self._say(EVENTS, "e-1", ["erased/0"], owner="customer-8", token="erased")
        self._say(LEDGER, "l-1", ["alone-copied/0"], ledger="due", stock="never")
        self._say(LEDGER, "l-1", ["alone-copied/1", "alone-copied/2"], stock="never")
        self._work(["mail", "search", "ledger", "replay"])
        assert erase.erase(database, "customer-8", clock=self._clock).logged == 1
        self._clock.advance(timedelta(hours=12))
        assert retention.retain(database, **self._db).deleted == {LEDGER: 3}
        self._clock.advance(SECOND_DAY - self._clock.now())

    def _second_day(self) -> None:
        """All that handlers can do to a record."""
        for name, key in (
            ("parked", "p-1"),
            ("hash", "#1"),
            ("backslash", "\\x01"),
            ("word", "ключ"),
            ("like-alone", "#7#o-1"),
            ("slow-named", "s-1"),
            ("slow-bare", "s-2"),
            ("snoozed", "z-1"),
        ):
            self._say(EVENTS, key, [f"{name}/0", f"{name}/1"], mail="due")
        self._say(EVENTS, "p-1", ["parked/2"], mail="due")
        self._append("\x01binary", ["binary/0", "binary/1"], mail="due")
        self._say(EVENTS, None, ["keyless/0"], mail="due")
        self._say(EVENTS, None, ["keyless/1"])
        self._say(EVENTS, "h-1", ["held/0"], mail="dead")
        self._say(EVENTS, "h-1", ["held/1", "held/2"], mail="held")
        self._say(EVENTS, "h-2", ["held-empty/0"], mail="dead")
        self._say(EVENTS, "h-3", ["skipped/0"], mail="given up")
        self._say(EVENTS, "h-3", ["skipped/1", "skipped/2"], mail="now")
        self._say(EVENTS, "h-4", ["requeued/0", "requeued/1"], mail="now")
        self._say(EVENTS, "h-5", ["edited/0", "edited/1"], mail="now", headers={"from": "old"})
        self._say(EVENTS, "h-6", ["last/0"], mail="last")
        self._say(EVENTS, "h-6", ["last/1", "last/2"], mail="now")
        self._say(EVENTS, "h-7", ["discarded/0"], mail="never")
        self._say(EVENTS, "h-7", ["discarded/1"], mail="now")
        self._say(EVENTS, "c-1", ["cancelled/0"], mail="given up")
        self._say(EVENTS, "c-1", ["cancelled/1"])
        self._say(EVENTS, "o-1", ["owned-read/0"], owner="customer-7")
        self._say(EVENTS, "o-2", ["owned-parked/0"], mail="due", owner="customer-7")
        self._say(EVENTS, "o-2", ["owned-parked/1"], mail="due")
        self._say(EVENTS, "o-3", ["owned-dead/0"], mail="given up", owner="customer-7")
        self._say(EVENTS, "t-1", ["token/0"], token="order-1")
        self._say(LEDGER, "l-2", ["alone/0"], ledger="due", replay="now")
        self._say(LEDGER, "l-2", ["alone/1", "alone/2"], replay="now")
        self._say(LEDGER, "#9", ["alone-hash/0"], ledger="due", replay="now")
        self._say(LEDGER, "#9", ["alone-hash/1"], replay="now")
        self._say(LEDGER, "l-3", ["alone-dead/0"], ledger="given up", replay="now")
        outbox = Outbox(self._url, clock=self._clock)
        subscribe(outbox, ["mail", "search", "ledger", "replay"], self._note)
        outbox.drain()
        outbox.close()

    def _a_person_decides(self) -> None:
        """Dead letters are requeued, put last, skipped and let go; a group is reset, another paused."""
        database = self._outbox.database
        for name, key in (("requeued", "h-4"), ("edited", "h-5"), ("last", "h-6")):
            how = {"last": name == "last", "set_headers": {"from": "a person"} if name == "edited" else None}
            selected = dead.DeadSelection(group="mail", key=key)
            assert dead.requeue(database, selected, **how | self._db).count == 1
        assert dead.skip(database, dead.DeadSelection(group="mail", key="h-3"), **self._db).count == 1
        assert dead.discard(database, dead.DeadSelection(group="mail", key="h-7"), **self._db).count == 1
        assert reset.reset(database, "replay", topic=LEDGER, to="earliest", **self._db).again == 6
        for label in [each for each, fate in self.fates["replay"].items() if fate == "now"]:
            if label in self._passed["replay"]:
                self._passed["replay"].remove(label)  # it comes again
        assert groups.pause(database, "search", **self._db)

    def _not_read_yet(self) -> None:
        """Records that are in the log, and that most groups have not seen."""
        unread = {"mail": "now", "search": "paused", "ledger": "now", "replay": "now"}
        for key, label, mail in (
            ("n-1", "unread/0", "now"),
            ("n-1", "unread/1", "now"),
            ("p-1", "parked/3", "due"),
            ("h-1", "held/3", "held"),
            (None, "keyless/2", "now"),
        ):
            self._say(EVENTS, key, [label], **unread | {"mail": mail})
        erased = {"mail": "never", "search": "never"}
        self._say(EVENTS, "e-1", ["erased/1"], owner="customer-8", **erased)
        self._say(EVENTS, "e-1", ["erased/2"], **unread)
        half = SLOW_RECORDS // 2
        labels = [f"slow-lane/{number}" for number in range(SLOW_RECORDS)]
        self._say(LEDGER, "slow", labels[:half], **unread, stock="now")
        self._say(LEDGER, "stock-3", ["filler/0"], **unread)
        self._say(LEDGER, "slow", labels[half:], **unread, stock="now")
        self._say(LEDGER, "stock-3", ["filler/1"], **unread)
        for number, key in enumerate(("stock-2", "stock-5", "stock-7", "stock-8")):
            fate = "now" if f"hole/{number}" in HANGS else "done"
            self._say(LEDGER, key, [f"hole/{number}"], **unread, stock=fate)
        self._outbox.drain()  # it has no handlers: this only brings them into the log
        assert erase.erase(self._outbox.database, "customer-8", clock=self._clock).logged == 1

    def _workers_are_killed(self) -> None:
        """One while three of its handlers hang, all else being settled; the next in its first handler."""
        database = self._outbox.database
        child = self._child(*HANGS)
        wait_until(lambda: self._is_settled(database), "all that does not hang is settled")
        _kill(child)
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("done "):
                self._note("stock", line.removeprefix("done ").strip())
        child = self._child(*(label for label, fate in self.fates["stock"].items() if fate == "now"))
        assert child.stdout is not None
        assert child.stdout.readline().startswith("hangs ")
        _kill(child)
        cursors = groups.partitions(database, "stock", limit=10).items
        assert any(each.crashes for each in cursors)
        assert all(each.owner for each in cursors)
        assert any(each.passed for each in cursors)

    def _is_settled(self, database: Any) -> bool:
        if "stock" not in [each.name for each in groups.groups(database, limit=10).items]:
            return False
        waiting = lanes.lanes(database, group="stock").items
        lag = sum(each.lag for each in groups.partitions(database, "stock", limit=10).items)
        return lag == 2 and [each.waiting for each in waiting] == [SLOW_RECORDS]

    def _not_sequenced_yet(self) -> None:
        """The last thing the old version wrote: staged and scheduled records."""
        staged = dict.fromkeys(TOPICS, "now") | {"search": "paused"}
        self._say(EVENTS, "p-1", ["parked/4"], **staged | {"mail": "due"})
        self._say(EVENTS, "n-1", ["unread/2"], **staged, headers={"trace": "00-1"})
        self._say(EVENTS, "ключ", ["word/2"], **staged | {"mail": "due"})
        self._say(EVENTS, None, ["keyless/3"], **staged)
        self._say(EVENTS, "o-1", ["owned-staged/0"], **staged, owner="customer-7")
        self._say(LEDGER, "l-2", ["alone/3"], **staged)
        self._say(LEDGER, "slow", ["slow-lane/staged"], **staged)
        due = dict.fromkeys(TOPICS, "scheduled") | {"search": "paused"}
        far = dict.fromkeys(TOPICS, "far")
        self._say(EVENTS, "d-1", ["due/0"], **due, at=SCHEDULED_AT)
        self._say(LEDGER, "d-1", ["due/1"], **due, at=SCHEDULED_AT)
        self._say(EVENTS, "d-1", ["far/0"], **far, at=FAR)
        self._say(EVENTS, "o-1", ["owned-far/0"], **far, at=FAR, owner="customer-7")
        cancelled = dict.fromkeys(TOPICS, "never")
        id = self._say(EVENTS, "d-2", ["taken-back/0"], **cancelled, at=FAR)
        chosen = scheduled.ScheduledSelection(id=id)
        assert scheduled.cancel(self._outbox.database, chosen, **self._db) == 1

    # -- what they are made of

    def _say(self, topic: str, key: str | None, labels: list[str], **how: Any) -> str:
        """Publish records; what is said of no group is `done`. Return the last one's id."""
        fates = {group: how.pop(group, "done") for group in TOPICS}
        with self._outbox.transaction() as conn:
            events = [
                {"type": "story.told", "value": each, "key": key, "topic": topic} | how for each in labels
            ]
            ids = self._outbox.publish_many(conn, events)
        for label, id in zip(labels, ids, strict=True):
            self._written(topic, key, label, id, fates)
        return ids[-1]

    def _append(self, key: str, labels: list[str], mail: str) -> None:
        """Put records into the log as a foreign producer would: `publish` wants keys that are printable."""
        for number, label in enumerate(labels):
            id, data = f"appended-{number}", json.dumps(label).encode()
            record = Record(id, key, data, "story.told", (), self._clock.now_ms())
            self._outbox.log.append(EVENTS, [record])
            self._written(EVENTS, key, label, id, {"mail": mail, "search": "done"})

    def _written(self, topic: str, key: str | None, label: str, id: str, fates: dict[str, str]) -> None:
        self.records.append({"label": label, "topic": topic, "key": key, "id": id})
        for group, of in TOPICS.items():
            if of == topic:
                self.fates[group][label] = fates[group]

    def _note(self, group: str, label: str) -> None:
        self._passed[group].append(label)

    def _work(self, names: list[str]) -> None:
        """Run a worker until it has nothing left to do."""
        outbox, until = Outbox(self._url, clock=RunningClock(self._clock.now())), Event()
        subscribe(outbox, names, self._note)
        worker = Thread(target=outbox.run, kwargs={"until": until})
        worker.start()
        wait_until(lambda: self._is_read(names), "the worker has read all there is")
        until.set()
        worker.join()
        outbox.close()

    def _is_read(self, names: list[str]) -> bool:
        found = groups.groups(self._outbox.database, limit=10).items
        told = sum(fate == "done" for group in names for fate in self.fates[group].values())
        return told == sum(map(len, self._passed.values())) and not any(each.lag for each in found)

    def _child(self, *hangs: str) -> "subprocess.Popen[str]":
        """Start a worker of the group stock in a process of its own, to be killed."""
        command = [sys.executable, "-m", "tests.upgrade.make_fixture", "hang", self._url, json.dumps(hangs)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def hang(url: str, hangs: list[str]) -> None:
    """Serve the group stock, hanging in the handler of some records, until killed."""
    outbox = Outbox(url, clock=RunningClock(SECOND_DAY))

    @outbox.handler(group="stock", id="stock", topic=LEDGER, retry=POLICY)
    def handle(record: Record) -> None:
        if record.value in hangs:
            _say("hangs", record.value)
            Event().wait()
        _say("done", record.value)

    outbox.run()


def _say(what: str, label: str) -> None:
    """Write a line in one go: several threads do."""
    os.write(1, f"{what} {label}\n".encode())


def _kill(child: "subprocess.Popen[str]") -> None:
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
