from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bench import Case, NotMeasured, Peer, Ratio, Run, Size, Target, Variant
from bench.result import Settings
from bench.runner import ROUNDS, Runner
from tests.unit.bench.fakes import Journal, SpentTime, a_case, results_of


def test_each_round_begins_with_the_next_variant() -> None:
    time = SpentTime()
    case = a_case(time.variant("A", 1), time.variant("B", 1), time.variant("C", 1))

    results_of(case, time, rounds=4)

    ran = "".join(line for line in time.journal if len(line) == 1)
    assert ran == "ABC" + "ABC" + "BCA" + "CAB" + "ABC"


def test_the_warm_up_round_is_thrown_away() -> None:
    time = SpentTime()

    result = results_of(a_case(time.variant("A", 3, 1, 2)), time, rounds=3)

    spread = result.variants[0].spread["wall_seconds"]
    assert (spread.min, spread.median, spread.max) == (1, 2, 3)
    assert [measures["wall_seconds"] for measures in result.variants[0].rounds] == [3, 1, 2]


def test_setup_teardown_and_progress_stay_outside_the_measured_interval() -> None:
    time = SpentTime()

    @contextmanager
    def setup(run: Run) -> Iterator[str]:
        time.journal.append("set up")
        time.spend(7)
        yield "a thing"
        time.spend(7)
        time.journal.append("cleared away")

    def body(run: Run, thing: str) -> None:
        assert thing == "a thing"
        time.spend(1)
        time.journal.append("body")

    result = results_of(a_case(Variant("A", body, setup=setup)), time, watcher=Journal(time.journal))

    one = ["set up", "measure", "body", "measured", "cleared away"]
    assert time.journal == ["begin toy, 1 rounds", "step 0 A", *one, "step 1 A", *one]
    assert result.variants[0].spread["wall_seconds"].median == 1


def test_cost_per_record_uses_the_count_of_the_variant() -> None:
    time = SpentTime()

    result = results_of(a_case(time.variant("A", 2, records=1000)), time)

    assert result.variants[0].rounds == [
        {
            "wall_seconds": 2,
            "cpu_seconds": 2,
            "wall_us": 2000,
            "cpu_us": 2000,
            "records": 1000,
            "records_per_second": 500,
        }
    ]


def test_a_body_may_return_more_measures_and_how_many_records_it_did() -> None:
    time = SpentTime()

    def body(run: Run) -> dict[str, float]:
        time.spend(1)
        return {"records": 4, "wal_bytes": 512}

    measures = results_of(a_case(Variant("A", body)), time).variants[0].rounds[0]

    assert (measures["wall_us"], measures["records"], measures["wal_bytes"]) == (250_000, 4, 512)


def test_a_variant_that_fails_is_left_out_and_the_others_go_on() -> None:
    time, watcher = SpentTime(), Journal()

    def broken(run: Run) -> None:
        if run.round == 2:
            raise ZeroDivisionError("on the way")

    case = a_case(
        Variant("broken", broken),
        time.variant("B", 1),
        targets=[Target("cpu", Ratio("broken", "B", "cpu_us"), at_most=3)],
    )
    result = results_of(case, time, rounds=4, watcher=watcher)

    broken_result, other = result.variants
    assert broken_result.not_measured == "ZeroDivisionError: on the way"
    assert broken_result.rounds == []
    assert len(other.rounds) == 4
    assert result.targets[0].not_measured == "ZeroDivisionError: on the way"
    assert result.targets[0].passed is None
    assert any(line.startswith("Traceback") for line in watcher.lines)


def test_a_peer_that_cannot_be_installed_is_tried_once_and_its_target_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Peer] = []

    def refuse(peer: Peer, say: object) -> None:
        tried.append(peer)
        raise NotMeasured("the index is away")

    monkeypatch.setattr(Peer, "ensure", refuse)
    time = SpentTime()
    peer = Peer(name="rival", requirements=["rival==1"], home=tmp_path)
    case = a_case(
        Variant("one", lambda run: None, peer=peer),
        Variant("two", lambda run: None, peer=peer),
        time.variant("ours", 1),
        targets=[Target("cpu", Ratio("ours", "one", "cpu_us"), at_most=1)],
    )

    result = results_of(case, time)

    assert tried == [peer]
    assert [variant.not_measured for variant in result.variants] == ["the index is away"] * 2 + [None]
    assert result.targets[0].not_measured == "the index is away"


def test_a_shared_thing_is_opened_once_per_case_and_closed_with_it() -> None:
    journal: list[str] = []

    @contextmanager
    def server(run: Run) -> Iterator[int]:
        journal.append("open")
        yield 42
        journal.append("closed")

    def body(run: Run) -> None:
        journal.append(str(run.once(server)))

    results_of(a_case(Variant("A", body), Variant("B", body)), SpentTime(), rounds=1)

    assert journal == ["open", "42", "42", "42", "42", "closed"]


@pytest.mark.parametrize("full", [False, True])
def test_sizes_follow_quick_and_full(full: bool) -> None:
    seen: list[tuple[int, int]] = []

    def body(run: Run) -> None:
        seen.append((run.records, run.size(quick=1, full=2)))

    case = Case(name="toy", about="a toy", variants=[Variant("A", body)], records=Size(quick=10, full=20))
    result = Runner(Settings(full=full), SpentTime(), Journal()).run(case)

    assert set(seen) == {(20, 2) if full else (10, 1)}
    assert result.rounds == (ROUNDS.full if full else ROUNDS.quick)


def test_a_case_that_warms_up_by_itself_has_no_round_before_the_first() -> None:
    time = SpentTime()
    case = replace(a_case(time.variant("A", 3), time.variant("B", 1)), warm_up=False)

    result = results_of(case, time, rounds=2)

    assert "".join(line for line in time.journal if len(line) == 1) == "ABBA"
    assert [len(variant.rounds) for variant in result.variants] == [2, 2]


def test_versions_stay_with_the_numbers() -> None:
    def body(run: Run) -> None:
        run.note("Abacus", "7 PASS")

    pinned = Peer(name="rival", requirements=("rival==1.6", "loop==2"))
    time = SpentTime()
    case = a_case(Variant("A", body), Variant("B", body, peer=pinned))
    runner = Runner(Settings(rounds=1), time, Journal())
    runner._peers[str(pinned.folder)] = "cannot be installed here"

    assert runner.run(case).versions == {"Abacus": "7 pass", "rival": "rival==1.6, loop==2"}
