"""`penstock tail` and `produce` on stores and on Kafka's protocol, and the lists of a cluster."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from penstock.cli import group
from penstock.cli.records import _parts
from penstock.errors import Error
from penstock.model.partition import MURMUR3, partition_of
from tests.kafka.raw import RawClient
from tests.kafka.served import Served
from tests.kafka.test_group_memory import commit
from tests.unit.cli.program import penstock

LINES = b"a:one\nb:two\na:three:x\nc:\xc3\xbc\n"


def run(*args: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(group, list(args), input=given)


def tailed(*args: str) -> list[dict[str, Any]]:
    done = run("tail", *args, "--no-follow", "--json")
    assert done.exit_code == 0, done.output
    return [msgspec.json.decode(each) for each in done.stdout.splitlines()]


@pytest.fixture(params=["store", "kafka"])
def url(served: Served, request: pytest.FixtureRequest) -> str:
    """Give a topic `t`: a store by its own address, where others may write it, and by its port."""
    served.topic("t", 3)
    if request.param == "store" and served.url.startswith("file:"):
        pytest.skip("a log in files has one writer, which is served here; see the test of its own")
    return served.url if request.param == "store" else f"kafka://{served.address}"


def test_lines_go_in_and_come_out(url: str) -> None:
    done = run("produce", "t", "--url", url, "--key-separator", ":", "--header", "a=b=c", "--type", "x.y", given=LINES)
    assert (done.exit_code, done.stdout) == (0, "4 records added to topic t\n"), done.output
    found = tailed("t", "--url", url)
    assert sorted((each["key"], each["value"]) for each in found) == [
        ("a", "one"),
        ("a", "three:x"),
        ("b", "two"),
        ("c", "ü"),
    ]
    assert [each["value"] for each in found if each["key"] == "a"] == ["one", "three:x"]
    assert all(each["headers"] == {"a": "b=c"} and each["type"] == "x.y" and each["id"] for each in found)
    one = next(each for each in found if each["value"] == "three:x")
    place = ["--url", url, "--partition", str(one["partition"])]
    assert tailed("t", *place, "--from", str(one["offset"]))[0]["value"] == "three:x"
    assert tailed("t", "--url", url, "--from", "latest") == []
    assert len(tailed("t", "--url", url, "--from", "1h")) == 4
    assert tailed("t", "--url", url, "--from", "2999-01-01") == []
    assert len(tailed("t", "--url", url, "--limit", "2")) == 2
    text = run("tail", "t", "--no-follow", "--url", url).stdout
    assert "  a  x.y  three:x\n" in text


def test_keys_go_where_a_topic_of_an_outbox_keeps_them(served: Served) -> None:
    served.topic("events", 5, MURMUR3)
    url, keys = f"kafka://{served.address}", [f"k{number}" for number in range(20)]
    given = "".join(f"{key}:1\n" for key in keys)
    done = run("produce", "events", "--url", url, "--key-separator", ":", "--type", "a", given=given.encode())
    assert (done.exit_code, done.stdout) == (0, "20 records added to topic events\n"), done.output
    found = {each["key"]: each["partition"] for each in tailed("events", "--url", url)}
    assert found == {key: partition_of(key, 5) for key in keys}


def test_it_goes_on_with_what_comes(url: str) -> None:
    following = subprocess.Popen(
        penstock("tail", "t", "--url", url, "--from", "earliest", "--limit", "3", "--json"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    run("produce", "t", "--url", url, given=b"1\n")
    assert msgspec.json.decode(following.stdout.readline())["value"] == "1"
    run("produce", "t", "--url", url, given=b"2\n3\n")
    rest = {msgspec.json.decode(following.stdout.readline())["value"] for _ in range(2)}
    assert rest == {"2", "3"}
    assert following.wait(60) == 0
    following.stdout.close()


def test_what_is_not_there_is_named(url: str) -> None:
    for args in (["tail", "nowhere", "--no-follow"], ["produce", "nowhere"]):
        done = run(*args, "--url", url, given=b"x\n")
        assert isinstance(done.exception, Error), done.output
        assert "nowhere" in str(done.exception)
    done = run("tail", "t", "--partition", "3", "--url", url)
    assert "0 to 2, not 3" in str(done.exception)


def test_a_log_in_files_is_written_and_read_by_its_directory(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/data"
    with Served(url) as served:
        served.topic("t", 2)
    assert run("produce", "t", "--url", url, "--key-separator", ":", given=LINES).exit_code == 0
    assert [each["value"] for each in tailed("t", "--url", url) if each["key"] == "a"] == ["one", "three:x"]


def test_the_lists_of_a_cluster(sqlite_store: str) -> None:
    with Served(sqlite_store) as served, RawClient(served.address) as client:
        url = f"kafka://{served.address}"
        assert run("topics", "list", "--url", url).stdout == "no topics\n"
        served.topic("t", 3)
        commit(client, "readers", 0)
        topics = msgspec.json.decode(run("topics", "list", "--url", url, "--json").stdout)
        assert topics["topics"] == [{"name": "t", "partitions": 3}]
        groups = msgspec.json.decode(run("groups", "list", "--url", url, "--json").stdout)
        assert [each["name"] for each in groups["groups"]] == ["readers"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["produce", "t", "--url", "kafka://nowhere"], "kafka://host:port"),
        (["produce", "t", "--url", "kafka://127.0.0.1:1"], "cannot be reached"),
        (["produce", "t", "--url", "kafka://127.0.0.1:1", "--header", "x"], "NAME=VALUE"),
        (["tail", "t", "--url", "kafka://127.0.0.1:1", "--from", "soon"], "not earliest, latest"),
    ],
)
def test_what_cannot_be_meant_is_refused(args: list[str], said: str) -> None:
    done = run(*args)
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)


@pytest.mark.parametrize("place", ["127.0.0.1:1", "127.0.0.1"])
def test_a_password_in_the_address_of_a_cluster_is_not_shown(place: str) -> None:
    done = run("topics", "list", "--url", f"kafka://joe:HUNTER2pw@{place}")
    assert done.exit_code != 0
    assert "kafka://joe@127.0.0.1" in done.output + str(done.exception)
    assert "HUNTER2pw" not in done.output + done.stderr + str(done.exception)


def test_lines_are_whole_however_they_come() -> None:
    class Slow:
        def __init__(self, *parts: bytes) -> None:
            self.parts = list(parts)

        def read1(self, size: int) -> bytes:
            return self.parts.pop(0) if self.parts else b""

    assert list(_parts(Slow(b"a\nb", b"c\r\n\nd", b"e"))) == [[b"a"], [b"bc", b""], [b"de"]]  # type: ignore[arg-type]
