"""A command needs only the extra of the door that it opens, and names that extra where it is missing."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox
from tests.architecture.alone import alone, run_alone

HIDE = "import sys; sys.modules.update(dict.fromkeys(['fastcrc', 'aiokafka', 'cramjam']));"
COMMAND = f"{HIDE} from penstock.cli import main; main(sys.argv[1:])"
ROOMS = ("query", "writeback", "replay", "source.fetch.sqlite", "source.fetch.postgres", "lake.iceberg.table")


@pytest.mark.parametrize("words", ["topics list", "groups list", "tail orders --no-follow", "produce orders"])
def test_commands_on_a_store_need_no_kafka_client(tmp_path: Path, words: str) -> None:
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox:
        outbox.migrate()
        outbox.log.create_topic("orders", partitions=1)
    line = [sys.executable, "-c", COMMAND, *words.split(), "--url", f"sqlite:///{tmp_path}/shop.db"]
    done = subprocess.run(line, input="x\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused = subprocess.run([*line[:-1], "kafka://127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert "penstock-outbox[kafka]" in refused.stderr


def test_pipelines_of_a_store_need_no_kafka_client() -> None:
    imports = "; ".join(f"import penstock.pipeline.{name}" for name in ROOMS)
    program = f"{HIDE} {imports}; import penstock.cli.pipeline_course"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PASSWORD = "0" * 64
DOORS = [
    ("serve --http 127.0.0.1:0", "http"),
    ("serve --grpc 127.0.0.1:0", "grpc"),
    ("serve --kafka 127.0.0.1:0", "kafka"),
    ("serve --http 127.0.0.1:0 --console", "console"),
    ("serve --tinyq 127.0.0.1:0", None),
    ("console --listen 127.0.0.1:0", "console"),
    ("worker shop:outbox --http 127.0.0.1:0", "http"),
]
SHOP = """
from penstock import Outbox

outbox = Outbox("sqlite:///shop.db")

@outbox.handler("orders", group="mail")
def mail(record): ...
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a shop and its tables, and go there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_TINYQ_PASSWORD_SHA256", PASSWORD)
    (tmp_path / "shop.py").write_text(SHOP)
    with closing(Outbox("sqlite:///shop.db")) as outbox:
        outbox.migrate()
    return tmp_path


def command(words: str) -> list[str]:
    return words.split() + ([] if words.startswith("worker") else ["--url", "sqlite:///shop.db"])


@pytest.mark.parametrize(("words", "extra"), DOORS)
def test_a_door_opens_with_its_own_extra(shop: Path, words: str, extra: str | None) -> None:
    program = alone("from penstock.cli import main\nmain(sys.argv[1:])", () if extra is None else (extra,))
    line = [sys.executable, "-c", program, *command(words)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = []
        for heard in process.stdout:
            said.append(heard)
            if "listening on" in heard:
                process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, "".join(said)
    assert any("listening on" in heard for heard in said), "".join(said)


@pytest.mark.parametrize(("words", "extra"), [(words, extra) for words, extra in DOORS if extra])
def test_a_door_names_the_extra_that_is_missing(shop: Path, words: str, extra: str) -> None:
    done = run_alone(f"from penstock.cli import main\nmain({command(words)!r})")
    assert done.returncode == 1
    assert f"penstock-outbox[{'http' if 'serve --http' in words else extra}]" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
