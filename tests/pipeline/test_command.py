"""`penstock pipeline` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import group
from penstock.pipeline.lake.paths import tables_in
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_table import Query, ends


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Give a lake of two tables."""
    to = tmp_path / "lake"
    Query(to / "_penstock" / "checkpoint", to, tableBy="type").run(ends(0), ends(10), ["a", "b"])
    return to


def run(*words: str, **options: Any) -> Any:
    return CliRunner().invoke(group, ["pipeline", *words], catch_exceptions=False, **options)


def test_the_tables_of_a_lake_are_listed(lake: Path) -> None:
    assert [line.split()[:2] for line in run("list", str(lake)).output.splitlines()[1:3]] == [["a", "15"], ["b", "15"]]
    found = json.loads(run("list", str(lake), "--json").output)
    assert [(each["name"], each["size"]["rows"]) for each in found] == [("a", 15), ("b", 15)]


def test_a_table_shows_up_to_where_it_holds_its_topics(lake: Path) -> None:
    assert "orders" in run("show", str(lake)).output
    (first, _) = json.loads(run("show", str(lake), "--json").output)
    assert first["sources"][0]["ends"] == {"0": 10, "1": 10, "2": 10}


def test_vacuum_says_what_goes(lake: Path) -> None:
    (lake / "a" / "part-x.zstd.parquet").write_bytes(b"x")
    os.utime(lake / "a" / "part-x.zstd.parquet", (1_000, 1_000))
    assert "1 files would go" in run("vacuum", str(lake), "--dry-run").output
    assert "a/part-x.zstd.parquet\n1 files removed" in run("vacuum", str(lake)).output
    assert json.loads(run("vacuum", str(lake), "--json").output)[0]["files"] == []


def test_a_young_age_is_asked_about(lake: Path) -> None:
    (lake / "a" / "part-x.zstd.parquet").write_bytes(b"x")
    assert run("vacuum", str(lake), "--older-than", "0").exit_code == 2
    assert (lake / "a" / "part-x.zstd.parquet").exists()
    assert run("vacuum", str(lake), "--older-than", "0", "--dry-run").exit_code == 0
    assert run("vacuum", str(lake), "--older-than", "0", "--yes").exit_code == 0
    assert not (lake / "a" / "part-x.zstd.parquet").exists()


def test_optimize_joins_files_and_history_shows_it(lake: Path) -> None:
    assert "a: 3 files would become about 1" in run("optimize", str(lake), "--dry-run").output
    assert "a: 3 files became 1" in run("optimize", str(lake)).output
    assert run("optimize", str(lake)).output == "nothing to join\n"
    found = json.loads(run("history", str(lake), "--table", "a", "--json").output)
    assert [(each["operation"], each["files_added"], each["files_removed"]) for each in found] == [
        ("OPTIMIZE", 1, 3),
        ("WRITE", 3, 0),
        ("CREATE TABLE", 0, 0),
    ]
    assert found[1]["rows"] == 15
    assert "optimize" in run("history", str(lake), "--limit", "1").output


def test_reset_asks_first(lake: Path) -> None:
    asked = run("reset", str(lake), input="n\n")
    assert asked.exit_code == 2
    assert "no terminal to ask for confirmation" in asked.output
    assert "use --yes" in asked.output
    assert (lake / "_penstock").exists()
    run("reset", str(lake), "--rebuild", "--yes")
    assert tables_in(lake) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "nowhere"], "MODULE:NAME"),
        (["run", "json:nothing"], "has no 'nothing'"),
        (["run", "json:__name__"], "not a function"),
        (["lake", "--conf", "x"], "KEY=VALUE"),
    ],
)
def test_a_wrong_word_is_a_usage_error(words: list[str], said: str, tmp_path: Path) -> None:
    done = run(*words, "--url", "sqlite:///x.db", "--to", str(tmp_path / "t"))
    assert done.exit_code == 2
    assert said in done.output


def a_command(*words: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", "pipeline", *words],
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_no_java_at_all_is_one_sentence(
    sqlite_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.errors import NoJava
    from penstock.pipeline import session

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(NoJava, match="Java 17 or later, and found none"):
        run("lake", "--url", sqlite_store.url, "--topic", TOPIC, "--to", str(tmp_path / "t"))
