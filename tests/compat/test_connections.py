"""A worker opens no more connections than the page on production says."""

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from penstock import Outbox
from tests.crash.waiting import wait_until
from tests.docs.pages import PROJECT
from tests.examples.program import Program

pytestmark = pytest.mark.slow

CONCURRENCY, EVENTS = 8, 300
OPEN = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
APP = """
import os, time
from penstock import Outbox

outbox = Outbox(os.environ["URL"])
for number in range(int(os.environ["GROUPS"])):

    @outbox.handler("a", group=f"g{number}", id=f"h{number}", transaction=True)
    def handle(record):
        record.tx.execute("INSERT INTO handled VALUES (%s)", (record.offset,))
        time.sleep(0.02)
"""


def bound(groups: int) -> int:
    """Return the bound of the page, for handlers with `transaction=True`."""
    return 4 + CONCURRENCY + (groups - 1) * max(1, CONCURRENCY // groups)


def test_the_page_has_the_formula_and_its_results() -> None:
    page = (PROJECT / "docs" / "how-to" / "production.md").read_text("utf-8")
    assert "+ C + (G - 1) * max(1, C // G)" in page
    for groups, words in ((1, "one group"), (3, "three groups")):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| have `transaction=True`, {words}")]
        assert row.split(" | ")[-1] == f"{bound(groups)} |"


@pytest.mark.parametrize("groups", [1, 3])
def test_a_busy_worker_stays_within_the_bound(groups: int, postgres_url: str, tmp_path: Path, brisk: None) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    outbox = Outbox(postgres_url)
    outbox.migrate()
    with outbox.transaction() as conn:
        conn.execute("CREATE TABLE handled (place bigint)")
        for number in range(EVENTS):
            outbox.publish(conn, "a", number, key=f"k{number}")
    outbox.close()
    name = str(conninfo_to_dict(postgres_url)["dbname"])
    worker = Program("penstock worker app:outbox", tmp_path, {"URL": postgres_url, "GROUPS": str(groups)})
    most = 0

    def done() -> bool:
        nonlocal most
        (seen,) = watching.execute(OPEN, (name,)).fetchone() or (0,)
        most = max(most, seen)
        return watching.execute("SELECT count(*) FROM handled").fetchone() == (EVENTS * groups,)

    try:
        with psycopg.connect(postgres_url, autocommit=True) as watching:
            wait_until(done, "every group has handled every event")
    finally:
        worker.stop()
    assert 4 < most <= bound(groups)
