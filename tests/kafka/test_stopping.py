"""`penstock serve` says where it listens, a line for each door, and ends in good order on SIGTERM."""

import subprocess
from pathlib import Path

import pytest

from penstock.wire.kafka.apis.groups import JOIN_GROUP
from tests.kafka.raw import RawClient, frame
from tests.kafka.served import Served, ServedProcess
from tests.kafka.test_crowds import fetching
from tests.unit.cli.program import penstock


def test_a_line_for_each_door(sqlite_store: str) -> None:
    with Served(sqlite_store):
        pass  # it makes the tables
    process = subprocess.Popen(
        [*penstock("serve", "--url", sqlite_store), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        doors = [process.stdout.readline().split(" listening on 127.0.0.1:")[0] for _ in range(2)]
        assert doors == ["kafka", "http"]
        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("door", ["--http", "--grpc"])
def test_a_directory_is_served_by_one_process_whichever_its_doors(tmp_path: Path, door: str) -> None:
    url = f"{tmp_path}/data/"
    command = [*penstock("serve", "--url", url), door, "127.0.0.1:0", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout is not None
            assert " listening on " in first.stdout.readline()
            second = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert second.returncode == 1
            assert second.stdout == ""
            assert f"process {first.pid} writes the log in" in second.stderr
            assert "Traceback" not in second.stderr
            shown = subprocess.run(penstock("topics", "list", "--url", url), capture_output=True, text=True, timeout=60)
            assert shown.returncode == 0, shown.stderr
        finally:
            first.terminate()


def test_waiting_fetches_and_members_are_answered_before_it_ends(kafka_url: str) -> None:
    with Served(kafka_url) as made:
        made.topic("t", 1)
    group = {
        "group_id": "g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    env = {"PENSTOCK_BROKER_JOIN_DELAY": "60"}
    with (
        ServedProcess(kafka_url, env=env) as served,
        RawClient(served.address) as reader,
        RawClient(served.address) as member,
    ):
        reader.send(fetching(max_wait_ms=60_000))
        member.send(frame(JOIN_GROUP, 3, JOIN_GROUP.encode_request(group, 3)))
        with RawClient(served.address) as other:  # answered behind them: both have begun
            other.send(fetching())
            assert other.receive()
        assert served.stop() == 0
        assert reader.receive()
        told = JOIN_GROUP.decode_answer(member.receive(), 3, 4)
        assert told["error_code"] in (15, 16)  # not here, or nobody is: it asks who is
        assert reader.receive() == b""
