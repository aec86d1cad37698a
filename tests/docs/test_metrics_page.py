"""The page of series names only series that are there, and every fact of Namastack's has one."""

import re

from penstock.metrics import SERIES
from tests.docs.pages import PROJECT

NAMASTACK = {
    "outbox.record.schedule",
    "outbox.record.process",
    "outbox.records",
    "outbox.instance.partitions.assigned",
    "outbox.instance.records.pending",
    "outbox.cluster.instances.active",
    "outbox.cluster.partitions.unassigned",
}


def test_each_series_of_the_page_is_there_and_each_fact_has_one() -> None:
    page = (PROJECT / "docs" / "how-to" / "metrics.md").read_text("utf-8")
    assert set(re.findall(r"`(penstock_\w+)`", page)) <= {series.name for series in SERIES}
    rows = re.findall(r"^\| `(outbox\.[a-z.]+)`.*\|.*`penstock_", page, re.MULTILINE)
    assert set(rows) == NAMASTACK
