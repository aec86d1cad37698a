"""A replay runs a range of a topic again, beside the live pipeline and without touching what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.pipeline.conftest import Command, Done
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore
from tests.pipeline.test_continue import Driver, places

RECORDS = 300


def held(store: LogStore) -> dict[str, dict[int, int]]:
    return store.outbox.log.holds(store.outbox.log.topic(TOPIC))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def filled(sqlite_store: LogStore) -> LogStore:
    sqlite_store.fill(RECORDS)
    return sqlite_store


def dry(penstock: Command, store: LogStore, to: Path, *words: str) -> Any:
    done = penstock(
        "pipeline", "replay", "--url", store.url, "--topic", TOPIC, "--to", str(to), "--dry-run", "--json", *words
    )
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_dry_run_says_the_ranges_and_changes_nothing(filled: LogStore, penstock: Command, tmp_path: Path) -> None:
    told = dry(penstock, filled, tmp_path / "again")
    assert (told["topic"], told["pipeline"], told["records"]) == (TOPIC, "lake", RECORDS)
    ends = {each["partition"]: each["end"] for each in told["ranges"]}
    assert ends == filled.ends()
    assert not (tmp_path / "again").exists()
    assert held(filled) == {}
    said = penstock(
        "pipeline", "replay", "--url", filled.url, "--topic", TOPIC, "--to", str(tmp_path / "again"), "--dry-run"
    )
    assert said.out.endswith(f"{RECORDS} records of topic {TOPIC} to replay\n")
    assert "partition" in said.out


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("5000", "10"),
        ("5000", "4000"),
        ("latest", "10"),
        ("2026-02-01", "2026-01-01"),
        (json.dumps({TOPIC: {"0": 3}}), json.dumps({TOPIC: {"0": 2}})),
    ],
)
def test_a_range_that_ends_before_it_begins_is_refused(
    filled: LogStore, penstock: Command, tmp_path: Path, first: str, last: str
) -> None:
    where = ["--url", filled.url, "--topic", TOPIC, "--to", str(tmp_path / "again")]
    done = penstock("pipeline", "replay", *where, "--from", first, "--until", last, "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: option --from={first!r}: it must be a place before --until {last}\n"


def test_a_range_with_nothing_in_it_is_no_mistake(filled: LogStore, penstock: Command, tmp_path: Path) -> None:
    for words in (("--from", "5", "--until", "5"), ("--from", "latest"), ("--from", "5000")):
        assert dry(penstock, filled, tmp_path / "again", *words)["records"] == 0


def test_a_range_is_given_by_offsets_or_times(filled: LogStore, penstock: Command, tmp_path: Path) -> None:
    to = tmp_path / "again"
    by_offset = dry(penstock, filled, to, "--from", "3", "--until", "5")
    assert {(each["start"], each["end"]) for each in by_offset["ranges"]} == {(3, 5)}
    one = json.dumps({TOPIC: {"0": 2, **{str(p): -1 for p in range(1, PARTITIONS)}}})
    (named,) = dry(penstock, filled, to, "--from", one)["ranges"]
    assert (named["partition"], named["start"], named["end"]) == (0, 2, filled.ends()[0])
    # Record n was published n seconds after the start.
    by_time = dry(penstock, filled, to, "--from", "2023-11-14T22:14:20", "--until", "2023-11-14T22:15:00+00:00")
    within = [
        place
        for place, record in filled.records().items()
        if 60_000 <= record.timestamp_ms - 1_700_000_000_000 < 100_000
    ]
    assert 0 < by_time["records"] == len(within)
    assert dry(penstock, filled, to, "--from", "latest")["records"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "yesterday"], "a duration back such as 2h"),
        (["--to-topic", "copies"], "--to-topic is for a pipeline that @pipeline declares"),
        (["--mode", "complete", "--key", "a"], "complete is for a pipeline of your own"),
        (["--topic", "nothing"], "nothing"),
    ],
)
def test_what_cannot_be_replayed_is_refused_before_spark_starts(
    filled: LogStore, penstock: Command, tmp_path: Path, words: list[str], said: str
) -> None:
    where = ["--url", filled.url, "--topic", TOPIC, "--to", str(tmp_path / "again")]
    done = penstock("pipeline", "replay", *where, *words)
    assert done.code in (1, 2)
    assert said in done.err
    assert "starting Spark" not in done.err
    assert not (tmp_path / "again").exists()


def test_what_retention_has_removed_is_not_passed_over(filled: LogStore, penstock: Command, tmp_path: Path) -> None:
    filled.expire(0, 4)
    where = ["--url", filled.url, "--topic", TOPIC, "--to", str(tmp_path / "again"), "--dry-run"]
    done = penstock("pipeline", "replay", *where, "--from", "0")
    assert (done.code, "no longer holds partition 0: 0 to before 4" in done.err) == (1, True)
    assert penstock("pipeline", "replay", *where).code == 0


def test_what_a_live_pipeline_has_is_refused(filled: LogStore, penstock: Command, tmp_path: Path, module: str) -> None:
    Driver(filled, tmp_path / "lake", tmp_path / "checkpoint").step()
    before = files_in(tmp_path / "lake")
    (tmp_path / "plain").mkdir()

    def replay(*words: str) -> Done:
        return penstock("pipeline", "replay", "--url", filled.url, *words)

    done = replay("--topic", TOPIC, "--to", str(tmp_path / "lake"))
    assert (done.code, "a folder of its own" in done.err) == (2, True)
    done = replay(f"{module}:plain", "--to", str(tmp_path / "plain"))
    assert (done.code, "is the folder of the live pipeline" in done.err) == (2, True)
    to = ["--to", str(tmp_path / "again")]
    done = replay(f"{module}:copying", *to)
    assert (done.code, "name another one with --to-topic" in done.err) == (2, True)
    done = replay(f"{module}:copying", *to, "--to-topic", "copies")
    assert (done.code, "that the live pipeline writes to" in done.err) == (2, True)
    done = replay(f"{module}:copying", *to, "--to-topic", "nowhere")
    assert (done.code, "nowhere" in done.err, "starting Spark" in done.err) == (1, True, False)
    done = replay(f"{module}:pushing", *to)
    assert (done.code, "writes its own output" in done.err) == (2, True)
    assert files_in(tmp_path / "lake") == before
    assert not (tmp_path / "again").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_range_goes_into_tables_and_topics_of_its_own(
    filled: LogStore, command: Command, module: str, tmp_path: Path
) -> None:
    live, log = tmp_path / "plain", filled.outbox.log
    where = ["--url", filled.url]
    assert command("pipeline", "run", f"{module}:plain", *where, "--once").code == 0
    before, place = files_in(live), held(filled)
    words = ["pipeline", "replay", f"{module}:plain", *where, "--to", str(tmp_path / "again")]
    words += ["--from", "3", "--until", "20", "--batch-records", "50", "--json"]
    done = command(*words)
    assert done.code == 0, done.err
    wanted = sorted(place for place in filled.records() if 3 <= place[1] < 20)
    told = json.loads(done.out)
    assert (told["records"], told["rows"], told["stopped"]) == (len(wanted), len(wanted), False)
    assert told["batches"] > 1
    assert places(tmp_path / "again") == wanted
    filled.fill(50)
    assert json.loads(command(*words).out)["rows"] == 0, "it is all there, and ends where it ended"
    other = command(*[word if word != "20" else "21" for word in words])
    assert (other.code, "another folder: here is a replay of topic orders" in other.err) == (2, True)
    assert (files_in(live), held(filled)) == (before, place)
    assert len(DeltaTable(live).to_pyarrow_table()) == RECORDS

    log.create_topic("copies", partitions=2)
    log.create_topic("copies-again", partitions=2)
    to = ["--to", str(tmp_path / "copied"), "--to-topic", "copies-again", "--until", "4"]
    done = command("pipeline", "replay", f"{module}:copying", *where, *to)
    assert done.out.endswith(f"done: {4 * PARTITIONS} rows in 1 batches\n"), done.err
    assert sum(len(log.read("copies", p, 0, 1_000)) for p in range(2)) == 0
    found = [each.data for p in range(2) for each in log.read("copies-again", p, 0, 1_000)]
    assert sorted((each or b"").decode() for each in found) == sorted(
        f"{partition}/{offset}" for partition in range(PARTITIONS) for offset in range(4)
    )
    assert held(filled) == place


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_range_across_a_growth_has_all_its_records_and_no_more(
    filled: LogStore, command: Command, tmp_path: Path
) -> None:
    log, words = filled.outbox.log, ["pipeline", "replay", "--url", filled.url, "--topic", TOPIC, "--json"]
    before = [*words, "--to", str(tmp_path / "before")]
    done = command(*before)
    assert done.code == 0, done.err
    wanted = sorted(filled.records())
    assert places(tmp_path / "before") == wanted

    log.grow(TOPIC, 2 * PARTITIONS)
    filled.fill(RECORDS)
    again = command(*before)  # its range was fixed before there were more partitions
    assert (again.code, json.loads(again.out)["rows"]) == (0, 0), again.err
    assert places(tmp_path / "before") == wanted

    done = command(*words, "--to", str(tmp_path / "after"), "--until", "5")  # all of it before the growth
    assert done.code == 0, done.err
    wanted = sorted(place for place in filled.records() if place[1] < 5)
    assert max(partition for partition, _ in wanted) >= PARTITIONS
    assert (json.loads(done.out)["rows"], places(tmp_path / "after")) == (len(wanted), wanted)
