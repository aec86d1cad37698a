"""Requests with some bytes changed at every door: each is answered properly or ends its connection."""

from pathlib import Path

import pytest

from tests.fuzzing.feeder import TOPIC, Fed
from tests.fuzzing.run import FEEDERS, HONEST, SETTINGS, HonestClient, fed, p99_ms
from tests.gateway.doors_process import DoorsProcess
from tests.services.budget import Budget

MB = 1_000_000
MOST_GROWN = 40 * MB


# The fast set feeds each door a few requests, the slow set many: twenty thousand in CI.
@pytest.mark.parametrize("door", [*FEEDERS, *(pytest.param(each, marks=pytest.mark.slow) for each in FEEDERS)])
def test_changed_requests_end_connections_and_nothing_else(door: str, tmp_path: Path, budget: Budget) -> None:
    """What grows is not what Python holds: SQLite's caches, of 2 MB for each of some twenty connections."""
    topics = {TOPIC: 2, HONEST: 1}
    with (
        DoorsProcess(tmp_path, "--log-level", "error", doors=(door,), topics=topics, env=SETTINGS) as served,
        HonestClient(door, served) as honest,
    ):
        before, total = 0, Fed()
        for turn in budget("doors.fuzz"):
            total += fed(door, served, turn.seed)
            used = served.memory
            if turn.number > 2:  # by then all of the code has run
                before = before or used
                assert used - before < MOST_GROWN, f"{(used - before) / MB:.1f} MB more in round {turn.number}"
        honest.end()
        assert total.answered > total.cases / 3
        assert served.stop() == 0
        assert served.complaints == []
    print(f"{door}: {total.cases} cases, {total.answered} answered, honest p99 {p99_ms(honest.rounds):.1f} ms")
