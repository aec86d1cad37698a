"""The core works without any extra, and importing it loads nothing that a publisher does not need."""

import pytest

from tests.architecture.alone import run_alone

HEAVY = (
    "rich",
    "click",
    "prometheus_client",
    "starlette",
    "uvicorn",
    "opentelemetry",
    "pydantic",
    "sqlalchemy",
    "psycopg",
    "django",
    "alembic",
)

PUBLISH = """
import sqlite3, tempfile, pathlib
import penstock
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "shop.db"
    outbox = penstock.Outbox(f"sqlite:///{path}")
    outbox.migrate()
    conn = sqlite3.connect(path)
    with conn:
        print(outbox.publish(conn, "order.placed", {"total": 42}, key="o-1"))
    print(conn.execute("SELECT count(*) FROM penstock_staged").fetchone()[0], "staged")
    conn.close()
    outbox.close()
"""


def test_publish_works_without_any_extra() -> None:
    done = run_alone(PUBLISH)
    assert done.stderr == ""
    assert done.stdout.endswith("1 staged\n")


def test_the_command_line_works_without_any_extra() -> None:
    done = run_alone("from penstock.cli import main\nmain(['doctor', '--json'])")
    assert done.returncode == 0, done.stderr
    assert '"[pydantic]"' in done.stdout


def test_importing_penstock_loads_no_heavy_package() -> None:
    done = run_alone(f"import penstock\nprint([name for name in {HEAVY} if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_what_a_process_of_spark_imports_loads_no_outbox_and_no_worker() -> None:
    """There are ten such processes for a pipeline, and each would take a quarter of a second more."""
    loaded = "sorted({name.split('.')[1] for name in sys.modules if name.startswith('penstock.')})"
    done = run_alone(f"import penstock.pipeline\nprint({loaded})")
    assert done.stderr == ""
    assert not {"app", "worker", "outbox", "delivery", "membership"} & set(eval(done.stdout)), done.stdout


def test_the_guard_keeps_an_extra_away() -> None:
    done = run_alone("import pydantic")
    assert done.returncode == 1
    assert "No module named 'pydantic'" in done.stderr


def test_a_planted_heavy_import_is_seen() -> None:
    done = run_alone(f"import click\nprint([name for name in {HEAVY} if name in sys.modules])")
    assert done.stdout == "['click']\n", done.stderr


@pytest.mark.parametrize("module", ["source.data_source", "lake.sink", "session"])
def test_a_pipeline_without_its_extra_names_it(module: str) -> None:
    done = run_alone(f"import penstock.pipeline.{module}")
    assert "penstock-outbox[spark]" in done.stderr, done.stderr
