"""The snippets of the page "Use Kafka clients" run as they are, at another address."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.maven import cache, kafka_jars
from tests.kafka.served import Served
from tests.services.budget import level_from_environment

PAGE = Path(__file__).parents[2] / "docs/how-to/kafka-clients.md"
_SNIPPET = re.compile(r"<!-- client: (\w+) -->\n```text\n(.*?)```", re.S)
SECONDS = 120
GO_CLIENT, NODE_CLIENT = "github.com/twmb/franz-go@v1.18.1", "kafkajs@2.2.4"
SAID = 'o-1 {"total": 42}'


@pytest.fixture
def shop(sqlite_store: str) -> Iterator[Served]:
    """Give a broker with the topic of the page, over one store: other tests ask every kind."""
    with Served(sqlite_store) as broker:
        broker.topic("orders", 8)
        yield broker


def snippet(name: str, served: Served) -> str:
    """Return a snippet of the page for a broker."""
    found: dict[str, str] = dict(_SNIPPET.findall(PAGE.read_text("utf-8")))
    return found[name].replace("127.0.0.1:9092", served.address)


def ran(command: list[str], folder: Path, **env: str) -> str:
    """Run a program and return what it printed last."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


def node_client() -> Path:
    """Return where kafkajs is; skips where there is none to be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed (Debian: apt-get install npm)")
    home = cache("kafkajs")
    if not (home / "node_modules/kafkajs/package.json").is_file():
        install = ["npm", "install", "--prefix", str(home), NODE_CLIENT]
        if subprocess.run(install, capture_output=True, timeout=SECONDS).returncode:
            pytest.skip("kafkajs cannot be had from npm here")
    return home / "node_modules"


def go_program(source: str, folder: Path) -> Path:
    """Return a program in Go, compiled; skips where its client is not to be had, or would take too long.

    The first time Go compiles its own library and the client's, for more than a minute: that is for the long
    set. What it has compiled it keeps.
    """
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    (folder / "main.go").write_text(source)
    formed = subprocess.run(["gofmt", "-l", "-e", "main.go"], cwd=folder, capture_output=True, text=True)
    assert (formed.returncode, formed.stdout) == (0, ""), formed.stderr + formed.stdout
    compiled = cache("franz-go") / GO_CLIENT.rpartition("@")[2]
    if not compiled.exists() and level_from_environment() != "long":
        pytest.skip("Go compiles for more than a minute the first time: ./scripts/test --long does")
    env = {**os.environ, "CGO_ENABLED": "0"}
    for step in (["mod", "init", "penstock.local/orders"], ["get", GO_CLIENT], ["mod", "tidy"]):
        done = subprocess.run(["go", *step], cwd=folder, capture_output=True, text=True, timeout=SECONDS, env=env)
        if done.returncode:
            pytest.skip(f"franz-go cannot be had from Go's modules here: {done.stderr[-300:]}")
    built = subprocess.run(["go", "build", "-o", "orders", "."], cwd=folder, capture_output=True, text=True, env=env)
    assert built.returncode == 0, built.stderr
    compiled.touch()
    return folder / "orders"


def test_the_snippets_in_python_run_as_they_are(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install confluent-kafka")
    for name in ("admin", "confluent"):
        exec(snippet(name, served), {})
    assert capsys.readouterr().out.strip() == """b'o-1' b'{"total": 42}'"""


@pytest.mark.slow
def test_the_snippet_in_java_runs_as_it_is(shop: Served, tmp_path: Path) -> None:
    jars = kafka_jars()
    (tmp_path / "Orders.java").write_text(snippet("java", shop))
    assert ran(["java", "-Xmx256m", "-cp", f"{jars}/*", "Orders.java"], tmp_path) == SAID


@pytest.mark.slow
def test_the_snippet_in_go_runs_as_it_is(shop: Served, tmp_path: Path) -> None:
    assert ran([str(go_program(snippet("go", shop), tmp_path))], tmp_path) == SAID


@pytest.mark.slow
def test_the_snippet_in_node_runs_as_it_is(shop: Served, tmp_path: Path) -> None:
    modules = node_client()
    (tmp_path / "orders.js").write_text(snippet("node", shop))
    said = ran(["node", "orders.js"], tmp_path, NODE_PATH=str(modules), KAFKAJS_NO_PARTITIONER_WARNING="1")
    assert said == SAID


def test_the_commands_of_kcat_run_as_they_are(shop: Served, tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    (tmp_path / "orders.sh").write_text("set -e\n" + snippet("kcat", shop))
    assert ran(["sh", "orders.sh"], tmp_path) == SAID


def test_every_snippet_is_run() -> None:
    found = {name for name, _ in _SNIPPET.findall(PAGE.read_text("utf-8"))}
    assert found == {"confluent", "admin", "java", "go", "node", "kcat"}
