"""Sessions, joins of two streams and upserted windows, with late events, against plain Python.

Events come late by up to a minute and a half, which the two minutes of the watermark allow, and a few by an
hour, which no one waits for. All go through the command, in two runs over several batches.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from tests.pipeline.conftest import Command, Done
from tests.pipeline.read_back import read_back
from tests.pipeline.stores import TOPIC, LogStore
from tests.suites.records import a_record

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
START = datetime(2026, 3, 1, tzinfo=UTC)
DELAY, GAP, WITHIN = "2 minutes", "5 minutes", "10 minutes"
PER_BATCH = 250
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Seen:
    """Someone did something at a moment."""

    who: str
    at: datetime
    kind: str
    amount: int


def story(seed: int, many: int = 400) -> list[Seen]:
    """Return events in the order they come, most of them a little late."""
    rng = random.Random(seed)
    found = []
    for n in range(many):
        at = START + timedelta(seconds=n * 40 - rng.randint(0, 90))
        found.append(Seen(f"w{rng.randint(0, 12)}", at, rng.choice(["order.placed", "order.paid"]), n))
    return found


def far_too_late(rng: random.Random) -> list[Seen]:
    """Return events of an hour before all others, when the watermark has long passed them."""
    return [Seen(f"w{rng.randint(0, 12)}", START - 60 * MINUTE, "order.placed", 1_000_000) for _ in range(5)]


def put(store: LogStore, events: list[Seen]) -> None:
    """Append them under one key, so that they are read in this order."""
    store.outbox.log.append(
        TOPIC,
        [
            a_record(
                "shop",
                json.dumps({"who": each.who, "amount": each.amount}).encode(),
                type=each.kind,
                timestamp_ms=int(each.at.timestamp() * 1000),
            )
            for each in events
        ],
    )


def closing() -> list[Seen]:
    """Return two events of another year, after which everything before is closed."""
    return [Seen("last", START + timedelta(days=400), kind, 0) for kind in ("order.placed", "order.paid")]


def parsed(events: DataFrame) -> DataFrame:
    body = F.from_json(F.col("value").cast("string"), "who STRING, amount INT").alias("body")
    return events.select("timestamp", "type", body).select("timestamp", "type", "body.*")


def sessions(events: DataFrame) -> DataFrame:
    """What each one did until a pause of five minutes."""
    seen = parsed(events).withWatermark("timestamp", DELAY)
    grouped = seen.groupBy("who", F.session_window("timestamp", GAP).alias("session"))
    return grouped.agg(F.count("*").alias("many"), F.sum("amount").alias("amount")).select(
        "who", F.col("session.start").alias("start"), F.col("session.end").alias("end"), "many", "amount"
    )


def paid_orders(events: DataFrame) -> DataFrame:
    """Orders with payments of the same one within ten minutes; an order without any has no payment."""
    seen = parsed(events).withWatermark("timestamp", DELAY)
    placed = seen.where("type = 'order.placed'").selectExpr("who", "timestamp AS placed_at", "amount AS o")
    paid = seen.where("type = 'order.paid'").selectExpr("who AS payer", "timestamp AS paid_at", "amount AS p")
    near = f"who = payer AND paid_at BETWEEN placed_at AND placed_at + INTERVAL {WITHIN}"
    return placed.join(paid, F.expr(near), "left_outer").select("who", "o", "p")


def minutes(events: DataFrame) -> DataFrame:
    """The amount of each ten minutes so far: late events change what is there."""
    seen = parsed(events).withWatermark("timestamp", DELAY)
    grouped = seen.groupBy(F.window("timestamp", WITHIN).alias("window"))
    return grouped.agg(F.sum("amount").alias("amount")).select(F.col("window.start").alias("start"), "amount")


def run(command: Command, store: LogStore, to: Path, function: str, *more: str) -> Done:
    where = ["--url", store.url, "--topic", TOPIC, "--to", str(to), "--once", *more]
    name = f"{__name__}:{function}"
    return command("pipeline", "run", name, *where, "--batch-records", str(PER_BATCH))


def in_two_runs(command: Command, store: LogStore, to: Path, function: str, seed: int) -> list[Seen]:
    """Run a pipeline over a story, interrupted in the middle; return the events that count."""
    events = story(seed)
    put(store, events[:250])
    first = run(command, store, to, function)
    assert first.code == 0, first.err
    put(store, [*events[250:], *far_too_late(random.Random(seed)), *closing()])
    second = run(command, store, to, function)
    assert second.code == 0, second.err
    return events


def plain_sessions(events: list[Seen]) -> list[tuple[str, datetime, datetime, int, int]]:
    found = []
    by_who: dict[str, list[Seen]] = defaultdict(list)
    for each in events:
        by_who[each.who].append(each)
    for who, theirs in by_who.items():
        group: list[Seen] = []
        for then in [*sorted(theirs, key=lambda seen: seen.at), None]:  # Spark joins what touches
            if group and (then is None or then.at > group[-1].at + 5 * MINUTE):
                end = group[-1].at + 5 * MINUTE
                found.append((who, group[0].at, end, len(group), sum(one.amount for one in group)))
                group = []
            if then is not None:
                group.append(then)
    return found


def test_sessions_with_late_events_and_a_lost_checkpoint_is_refused(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    to = tmp_path / "sessions"
    events = in_two_runs(command, sqlite_store, to, "sessions", seed=1)
    columns = ["who", "start", "end", "many", "amount"]
    found = read_back(to, columns)
    assert sorted(found) == sorted(plain_sessions(events))
    assert len(found) < len(events)

    shutil.rmtree(to / "_penstock" / "checkpoint")  # and with it the sessions that are open
    put(sqlite_store, story(2, 20))
    refused = run(command, sqlite_store, to, "sessions")
    assert refused.code == 1
    assert refused.err.splitlines()[-1].startswith("error: ")
    assert "reset --rebuild" in refused.err.splitlines()[-1]
    assert "Traceback" not in refused.err
    assert read_back(to, columns) == found


def test_an_older_copy_of_the_checkpoint_loses_no_session_in_silence(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    to, copy = tmp_path / "sessions", tmp_path / "copy"
    checkpoint, columns = to / "_penstock" / "checkpoint", ["who", "start", "end", "many", "amount"]
    put(sqlite_store, story(4, 40))
    assert run(command, sqlite_store, to, "sessions").code == 0
    shutil.copytree(checkpoint, copy)
    put(sqlite_store, closing())
    assert run(command, sqlite_store, to, "sessions").code == 0
    found = read_back(to, columns)
    shutil.rmtree(checkpoint)
    shutil.move(copy, checkpoint)
    put(sqlite_store, [Seen("later", START + timedelta(days=500 * n), "order.paid", 1) for n in (1, 2)])
    refused = run(command, sqlite_store, to, "sessions")
    assert refused.code == 1
    assert re.search(r"ends with batch \d+ \(made .* now writes batch \d+ \(made .* older copy", refused.err)
    assert read_back(to, columns) == found


def test_a_join_of_two_streams_with_late_events(sqlite_store: LogStore, command: Command, tmp_path: Path) -> None:
    to = tmp_path / "joined"
    events = in_two_runs(command, sqlite_store, to, "paid_orders", seed=3)
    wanted = list[tuple[str, int, int | None]]()
    payments = [each for each in events if each.kind == "order.paid"]
    for order in events:
        if order.kind != "order.placed":
            continue
        near = [
            each.amount for each in payments if each.who == order.who and order.at <= each.at <= order.at + 10 * MINUTE
        ]
        wanted += [(order.who, order.amount, amount) for amount in near] or [(order.who, order.amount, None)]
    found = [row for row in read_back(to, ["who", "o", "p"]) if row[0] != "last"]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert {row[2] is None for row in wanted} == {True, False}


def test_windows_that_late_events_change_are_upserted(sqlite_store: LogStore, command: Command, tmp_path: Path) -> None:
    to = tmp_path / "minutes"
    events = story(5)
    more = ["--mode", "upsert", "--key", "start"]
    for part in (events[:250], [*events[250:], *far_too_late(random.Random(5))]):
        put(sqlite_store, part)
        done = run(command, sqlite_store, to, "minutes", *more)
        assert done.code == 0, done.err
        known = events if part[0] is not events[0] else events[:250]
        sums: dict[datetime, int] = defaultdict(int)
        for each in known:
            sums[each.at - (each.at - START) % (10 * MINUTE)] += each.amount
        assert sorted(read_back(to, ["start", "amount"], "NOT deleted")) == sorted(sums.items())
