"""The series of a pipeline: what each batch says, for whoever scrapes the process."""

from __future__ import annotations

from penstock.gateway.exposition import exposition
from penstock.metrics import SERIES
from penstock.pipeline.progress import PipelineSeries, Progress
from tests.pipeline.conftest import Command
from tests.pipeline.stores import LogStore


def test_batches_and_interruptions_are_counted() -> None:
    series = PipelineSeries("shop.db", "lake-test")
    series.count(Progress(0, 300, 100.0, 3.0, 50))
    series.count(Progress(1, 50, 100.0, 0.5, 0))
    series.count_interruption()
    lines = exposition(SERIES).splitlines()
    assert 'penstock_pipeline_records_total{pipeline="lake-test"} 350' in lines
    assert 'penstock_pipeline_lag_records{store="shop.db",pipeline="lake-test"} 0' in lines
    assert 'penstock_pipeline_interruptions_total{pipeline="lake-test"} 1' in lines
    assert 'penstock_pipeline_batch_seconds_count{pipeline="lake-test"} 2' in lines


def test_series_are_not_served_to_other_machines_unasked(sqlite_store: LogStore, penstock: Command) -> None:
    where = ["--url", sqlite_store.url, "--topic", "orders", "--to", "lake"]
    done = penstock("pipeline", "lake", *where, "--http", "0.0.0.0:0")
    assert (done.code, "--insecure" in done.err) == (2, True)
    cluster = ["--url", "kafka://127.0.0.1:9", "--to", "lake", "--http", "127.0.0.1:0"]
    done = penstock("pipeline", "lake", *cluster)
    assert (done.code, "a Kafka cluster has its own" in done.err) == (2, True)
