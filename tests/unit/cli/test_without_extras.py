"""Without Kafka's codec, an extra, all that does not need it works: commands on a store, and pipelines."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox

HIDE = "import sys; sys.modules.update(dict.fromkeys(['fastcrc', 'aiokafka', 'cramjam']));"
COMMAND = f"{HIDE} from penstock.cli import main; main(sys.argv[1:])"
ROOMS = (
    "formats",
    "query",
    "writeback.writer",
    "replay",
    "source.fetch.sqlite",
    "source.fetch.postgres",
    "lake.iceberg.table",
)


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
