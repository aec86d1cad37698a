"""`penstock topics`, `groups`, `scheduled`, `periodic`, `audit`, `drop`: what they print and change."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from penstock import Outbox, Record
from penstock.cli import main, output
from penstock.cli.units import duration, moment, size, size_text
from tests.suites.refusal import refusal

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the address of a file that is not there yet; commands find it in the environment."""
    address = f"sqlite:///{tmp_path}/shop.db"
    monkeypatch.setenv("PENSTOCK_URL", address)
    monkeypatch.setenv("PENSTOCK_ACTOR", "anna")
    return address


@pytest.fixture
def mailed() -> list[int]:
    """Give the list of what the shop has mailed."""
    return []


@pytest.fixture
def shop(url: str, mailed: list[int]) -> Outbox:
    """Give an outbox with one topic of two partitions, three records read by a group, one scheduled."""
    outbox = Outbox(url)
    outbox.migrate()
    outbox.log.create_topic("events", partitions=2)

    @outbox.handler("order.*", group="mailer")
    def send(record: Record) -> None:
        mailed.append(record.value)

    with outbox.transaction() as conn:
        for value in (1, 2, 3):
            outbox.publish(conn, "order.placed", value, key="o-1")
        outbox.publish(conn, "order.remind", 4, key="o-[1]", at=timedelta(hours=1), owner="anna")
    outbox.drain()
    return outbox


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Give a way to run a command; `typed` answers what it asks."""

    def command(*args: str, typed: str | None = None) -> tuple[int, str, str]:
        answers = iter([typed]) if typed is not None else iter([])
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: next(answers))
        monkeypatch.setattr(output, "is_terminal", lambda: typed is not None)
        left = refusal(SystemExit, main, list(args))
        printed = capsys.readouterr()
        return left.code if isinstance(left.code, int) else 0, printed.out, printed.err

    return command


def said(run: Run, *args: str) -> Any:
    code, out, err = run(*args, "--json")
    assert (code, err) == (0, ""), (args, err)
    return json.loads(out)


# --- topics ------------------------------------------------------------------------------------


def test_topics_are_listed_and_shown(run: Run, shop: Outbox) -> None:
    code, out, _ = run("topics", "list")
    assert code == 0
    assert "events" in out
    assert "as in the settings" in out
    (topic,) = said(run, "topics", "list")["topics"]
    assert (topic["name"], topic["partitions"], topic["records"], topic["groups"]) == ("events", 2, 3, ["mailer"])
    shown = said(run, "topics", "show", "events", "--partitions", "--size", "--limit", "1")
    assert (len(shown["partition_list"]), shown["bytes"] > 0, shown["after"] is None) == (1, True, False)
    code, out, err = run("topics", "show", "events", "--partitions", "--limit", "1", "--size")
    assert "size:" in out
    assert err.startswith("more: --after ")
    assert run("topics", "show", "nowhere")[0] == 1
    assert run("topics", "list", "--limit", "0")[0] == 2


def test_a_topic_grows(run: Run, shop: Outbox) -> None:
    assert run("topics", "grow", "events", "--partitions", "8") == (0, "topic events has 8 partitions, before 2\n", "")
    grown = said(run, "topics", "grow", "events", "--partitions", "16")
    assert (grown["partitions"], grown["before"]) == (16, 8)
    code, _, err = run("topics", "grow", "events", "--partitions", "20")
    assert (code, "it grows only to a multiple, such as 32 or 64" in err) == (2, True)
    assert run("topics", "grow", "nowhere", "--partitions", "8")[0] == 1
    assert run("topics", "grow", "events")[0] == 2


def test_a_topic_is_created_and_set(run: Run, shop: Outbox) -> None:
    assert run("topics", "create", "more", "--partitions", "3") == (0, "topic more created\n", "")
    assert run("topics", "create", "more", "--partitions", "3")[1] == "topic more exists already\n"
    assert run("topics", "create", "more", "--partitions", "4")[0] == 1
    assert run("topics", "create", "no topic")[0] == 2
    code, out, _ = run("topics", "set", "more", "--retention", "30d", "--max-bytes", "10GB")
    assert (code, out) == (0, "topic more keeps: 30d, 10.0 GB a partition\n")
    assert said(run, "topics", "set", "more", "--max-records", "unlimited")["retention_records"] == -1
    assert run("topics", "set", "more", "--retention", "forever")[1].startswith("topic more keeps: unlimited")
    assert run("topics", "set", "more", "--default")[1] == "topic more keeps: as in the settings\n"
    for bad in (
        ["--retention", "soon"],
        ["--retention", "30"],
        ["--max-bytes", "0"],
        ["--max-bytes", "much"],
        ["--max-records", "0"],
        ["--max-records", "few"],
        ["--default", "--retention", "1d"],
        [],
    ):
        assert run("topics", "set", "more", *bad)[0] == 2, bad
    assert said(run, "topics", "show", "more")["retention_ms"] is None


def test_a_topic_is_cleared_or_deleted_when_that_is_confirmed(run: Run, shop: Outbox) -> None:
    code, out, _ = run("topics", "clear", "events", "--dry-run")
    assert (code, out) == (
        0,
        "topic events: 3 records, 0 staged, 1 scheduled, 0 waiting lanes, 0 dead letters would be deleted\n",
    )
    assert run("topics", "clear", "events", typed="n")[0] == 130
    assert said(run, "topics", "show", "events")["records"] == 3
    assert run("topics", "clear", "events", typed="y")[0] == 0
    assert said(run, "topics", "clear", "events", "--yes")["records"] == 0
    assert run("topics", "delete", "events", typed="n")[0] == 130
    assert run("topics", "delete", "events", "--yes") == (0, "topic events deleted, with 0 records\n", "")
    assert run("topics", "list")[1] == "no topics\n"


# --- groups ------------------------------------------------------------------------------------


def test_groups_are_listed_and_shown(run: Run, shop: Outbox) -> None:
    (group,) = said(run, "groups", "list")["groups"]
    assert (group["name"], group["topics"], group["lag"], group["paused_at"]) == ("mailer", ["events"], 0, None)
    assert "flows" in run("groups", "list")[1]
    shown = said(run, "groups", "show", "mailer", "--partitions")
    assert [each["offset"] for each in shown["partitions"]] == [each["end"] for each in shown["partitions"]]
    code, out, _ = run("groups", "show", "mailer", "--partitions", "--topic", "events")
    assert (code, "state:      flows" in out) == (0, True)
    assert run("groups", "show", "nobody")[0] == 1


def test_a_group_is_paused_and_resumed(run: Run, shop: Outbox, mailed: list[int]) -> None:
    assert run("groups", "pause", "mailer") == (0, "group mailer is paused\n", "")
    assert run("groups", "pause", "mailer")[1] == "group mailer was paused already\n"
    assert "paused since" in run("groups", "list")[1]
    with shop.transaction() as conn:
        shop.publish(conn, "order.paid", 5, key="o-1")
    shop.drain()
    assert said(run, "groups", "resume", "mailer") == {"group": "mailer", "changed": True}
    assert run("groups", "resume", "mailer")[1] == "group mailer was not paused\n"
    assert mailed == [1, 2, 3]
    shop.drain()
    assert mailed == [1, 2, 3, 5]


def test_a_group_is_reset_when_that_is_confirmed(run: Run, shop: Outbox, mailed: list[int]) -> None:
    earliest = ("groups", "reset", "mailer", "--topic", "events", "--to", "earliest")
    code, out, _ = run(*earliest, "--dry-run")
    assert code == 0
    assert out.endswith("3 records would come again, 0 would be skipped\n")
    assert run(*earliest, typed="n")[0] == 130
    shop.drain()
    assert mailed == [1, 2, 3]
    assert run(*earliest, typed="y")[0] == 0
    shop.drain()
    assert mailed == [1, 2, 3, 1, 2, 3]
    assert said(run, *earliest, "--yes")["again"] == 3
    for to, more in (("latest", []), ("2020-01-01", []), ("2020-01-01T10:00+02:00", []), ("0", ["--partition", "0"])):
        code, _, err = run("groups", "reset", "mailer", "--topic", "events", "--to", to, "--yes", *more)
        assert (code, err) == (0, ""), to
    for to in ("sooner", "0", "-1"):
        assert run("groups", "reset", "mailer", "--topic", "events", "--to", to, "--yes")[0] == 2
    code, out, _ = run("groups", "reset", "mailer", "--to", "earliest", "--dry-run")  # of its one topic
    assert (code, "would come again" in out) == (0, True)


def test_a_group_is_deleted_when_that_is_confirmed(run: Run, shop: Outbox) -> None:
    assert run("groups", "delete", "mailer", "--dry-run")[1].startswith("group mailer would be deleted: 2 ")
    assert run("groups", "delete", "mailer", typed="n")[0] == 130
    assert run("groups", "delete", "mailer", typed="y")[0] == 0
    assert run("groups", "list")[1] == "no groups\n"


def test_what_a_group_has_passed_over_is_shown_and_asked_for(
    run: Run, shop: Outbox, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.transaction() as conn:
        for key in ("u-1", "u-2"):
            shop.publish(conn, "user.made", 1, key=key)
    shop.drain()
    assert "user.made" in run("groups", "show", "mailer")[1]
    (noted,) = said(run, "groups", "show", "mailer")["passed_over"]
    assert (noted["type"], noted["records"], noted["coming"]) == ("user.made", 2, False)
    late, seen = Outbox(url), list[bool]()
    late.handler("user.made", group="mailer", id="greet")(lambda record: seen.append(record.late))
    monkeypatch.setenv("PENSTOCK_PROCESSING_CATCH_UP", "0")
    late.drain()
    ask = ("groups", "catch-up", "mailer", "--type", "user.made")
    assert run(*ask, "--dry-run")[1].startswith("about 2 records (user.made) would come late, from ")
    assert said(run, *ask, "--since", "2999-01-01", "--dry-run")["records"] == 0
    assert run(*ask, "--since", "soon")[0] == 2
    assert said(run, *ask)["records"] == 2
    assert late.drain().delivered == 2
    assert seen == [True, True]
    assert run("groups", "catch-up", "mailer")[1] == "about 0 records come late, from 0 partitions\n"
    assert run("groups", "catch-up", "nobody")[0] == 1


# --- scheduled ---------------------------------------------------------------------------------


def test_scheduled_events_are_listed_shown_hastened_and_cancelled(run: Run, shop: Outbox) -> None:
    (event,) = said(run, "scheduled", "list", "--owner", "anna", "--key", "o-[1]")["scheduled"]
    assert (event["type"], event["topic"]) == ("order.remind", "events")
    assert "o-[1]" in run("scheduled", "list")[1]
    assert run("scheduled", "list", "--before", "2020-01-01")[1] == "no scheduled events match\n"
    assert run("scheduled", "list", "--before", "soon")[0] == 2
    assert said(run, "scheduled", "show", event["id"])["value"] == 4
    assert "value:      4\n" in run("scheduled", "show", event["id"])[1]
    named = ("scheduled", "cancel", "--id", event["id"])
    assert run(*named, "--dry-run")[1] == "1 scheduled event would be cancelled\n"
    assert run("scheduled", "run-now", event["id"])[0] == 0
    assert run(*named) == (0, "1 scheduled event cancelled\n", "")
    assert run(*named)[0] == 1
    assert run(*named, "--json")[0] == 1
    assert run("scheduled", "run-now", event["id"])[0] == 1
    assert run("scheduled", "cancel")[0] == 2
    assert run("scheduled", "cancel", "--all", "--key", "k")[0] == 2
    assert run("scheduled", "list")[1] == "no scheduled events\n"


# --- periodic ----------------------------------------------------------------------------------


def test_schedules_are_listed_shown_paused_run_and_removed(run: Run, shop: Outbox) -> None:
    assert run("periodic", "list") == (0, "no worker has declared a schedule\n", "")
    shop.periodic("sweep [1]", "30 2 * * *", type="sweep.due", timezone="Europe/Berlin")
    shop.drain()
    (listed,) = said(run, "periodic", "list")["schedules"]
    assert (listed["name"], listed["when"], listed["state"], listed["workers"]) == (
        "sweep [1]",
        "30 2 * * * Europe/Berlin",
        "ticking",
        0,
    )
    assert "sweep [1]" in run("periodic", "list")[1]
    shown = said(run, "periodic", "show", "sweep [1]")
    assert (shown["type"], shown["last_at"], len(shown["upcoming"])) == ("sweep.due", None, 5)
    assert shown["upcoming"][0] == shown["next_at"] == listed["next_at"]
    assert "catch_up:   last\n" in run("periodic", "show", "sweep [1]")[1]
    assert run("periodic", "pause", "sweep [1]") == (0, "schedule sweep [1] is paused\n", "")
    assert said(run, "periodic", "pause", "sweep [1]") == {"schedule": "sweep [1]", "changed": False}
    code, _, err = run("periodic", "run-now", "sweep [1]")
    assert (code, err) == (1, "error: schedule 'sweep [1]' is paused; resume it first: penstock periodic resume\n")
    assert run("periodic", "resume", "sweep [1]")[1] == "schedule sweep [1] ticks again\n"
    assert said(run, "periodic", "run-now", "sweep [1]") == {"schedule": "sweep [1]", "due": "now"}
    assert shop.drain().sequenced == 1
    assert run("periodic", "remove", "sweep [1]") == (0, "schedule sweep [1] is removed\n", "")
    assert run("periodic", "remove", "sweep [1]")[0] == 1
    assert [each["action"] for each in said(run, "audit")["audit"]] == [
        "periodic remove",
        "periodic run-now",
        "periodic resume",
        "periodic pause",
    ]


# --- audit and drop ----------------------------------------------------------------------------


def test_what_was_done_is_listed(run: Run, shop: Outbox) -> None:
    assert run("audit") == (0, "no audit entries\n", "")
    run("groups", "pause", "mailer")
    run("topics", "create", "more")
    newest, oldest = said(run, "audit")["audit"]
    assert (newest["action"], newest["subject"]) == ("topic create", {"topic": "more", "partitions": 256})
    assert (oldest["actor"], oldest["action"], oldest["count"]) == ("anna", "group pause", 1)
    _, out, err = run("audit", "--limit", "1")
    assert "topic=more partitions=256" in out
    assert err.startswith("more: ")
    assert run("audit", "--action", "group pause", "--actor", "anna")[1].count("anna") == 1


def test_the_tables_are_dropped_when_the_prefix_is_typed(run: Run, shop: Outbox) -> None:
    code, out, err = run("drop", typed="y")
    assert (code, out) == (130, "")
    assert "1 topics, 3 records, 0 staged, 1 scheduled, 1 groups, 0 dead letters" in err
    assert run("topics", "list")[0] == 0
    assert run("drop", typed="penstock_")[0] == 0
    assert run("topics", "list")[0] == 1
    assert run("drop", "--yes")[0] == 1
    shop.migrate()
    assert said(run, "drop", "--yes")["records"] == 0


# --- units -------------------------------------------------------------------------------------


def test_durations_sizes_and_moments_are_read_as_people_write_them() -> None:
    assert [duration(text) for text in ("30d", "12h", "90min", "1.5h", "2w", "0")] == [
        timedelta(days=30),
        timedelta(hours=12),
        timedelta(minutes=90),
        timedelta(minutes=90),
        timedelta(days=14),
        timedelta(0),
    ]
    assert [size(text) for text in ("10GB", "512MiB", "1000", "1.5k", "7 B")] == [10**10, 512 << 20, 1000, 1500, 7]
    assert moment("2026-11-16").isoformat() == "2026-11-16T00:00:00+00:00"
    for read, text in (
        (duration, "5"),
        (duration, "-1d"),
        (duration, "9" * 30 + "w"),
        (size, "-1"),
        (size, "GB"),
        (moment, "noon"),
    ):
        with pytest.raises(click.BadParameter):
            read(text)
    assert [size_text(count) for count in (999, 10**10, 10**16)] == ["999 B", "10.0 GB", "10000.0 TB"]


# --- restored, reconcile --type, dead fallbacks ------------------------------------------------


def test_a_restored_store_is_another_incarnation_and_the_audit_says_who_said_so(shop: Outbox, run: Run) -> None:
    before = shop.log.identity()
    assert run("restored", typed="n")[0] != 0
    assert run("restored", "--json")[0] != 0, "nobody is asked then"
    assert shop.log.identity() == before
    code, out, _ = run("restored", typed="y")
    after = shop.log.identity()
    assert (code, after.id) == (0, before.id)
    assert after.incarnation > before.incarnation
    assert f"incarnation {after.incarnation}" in out
    assert said(run, "restored", "--yes")["incarnation"] > after.incarnation
    assert [each["action"] for each in said(run, "audit")["audit"]] == ["restored"] * 2


def test_reconcile_compares_with_one_type(shop: Outbox, run: Run) -> None:
    with shop.transaction() as conn:
        shop.publish(conn, "customer.new", 5, key="c-1")
    shop.drain()
    against = ("--against", "SELECT 'o-1'", "--by", "key")
    assert run("reconcile", *against)[0] == 1
    code, out, _ = run("reconcile", *against, "--type", "order.placed")
    assert code == 0
    assert "logged=4 logged[order.placed]=3 delivered[mailer]=3 passed_over[mailer]=1" in out


def test_what_fallbacks_completed_is_listed(shop: Outbox, run: Run) -> None:
    assert run("dead", "fallbacks")[1] == "no record was completed by a fallback\n"

    @shop.handler("customer.*", group="crm", on_failure="dead", fallback=lambda record: None)
    def sync(record: Record) -> None:
        raise ValueError("not there")

    with shop.transaction() as conn:
        id = shop.publish(conn, "customer.new", 5, key="c-1")
    shop.drain()
    code, out, _ = run("dead", "fallbacks", "--group", "crm")
    assert code == 0
    assert "ValueError: not there" in out
    (found,) = said(run, "dead", "fallbacks")["fallbacks"]
    assert (found["id"], found["key"], found["failures"]) == (id, "c-1", 1)
