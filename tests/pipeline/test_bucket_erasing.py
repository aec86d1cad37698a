"""Erasing in tables of a bucket: by the rules of a folder, also for a batch that is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from penstock import points
from penstock.errors import StorageRefused
from penstock.pipeline.lake.commit import BEFORE_COMMIT, AppendFiles
from penstock.pipeline.lake.erasure import ErasedRows
from penstock.pipeline.lake.iceberg.catalog import begin
from penstock.pipeline.lake.state import ErasedPlaces, erased_places, note_erased
from penstock.pipeline.lake.storage import location
from penstock.pipeline.lake.storage.bucket import BucketPath
from penstock.pipeline.lake.upsert import Upsert
from penstock.pipeline.offsets import Piece
from tests.pipeline.test_bucket_lake import objects
from tests.pipeline.test_erasing import ADA, BOB, Shop, erased
from tests.pipeline.test_table import Query, all_places, ends, rows_of

pytestmark = pytest.mark.slow


@pytest.fixture(params=["append", "upsert", "iceberg append", "iceberg upsert"])
def shop(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> Iterator[Shop]:
    committing, to = Upsert(("key",), (1,)), location(f"{bucket}/shop/lake")
    if request.param.startswith("iceberg"):
        begin(to, request.getfixturevalue("postgres_url"), None)
    shop = Shop(tmp_path, AppendFiles() if request.param.endswith("append") else committing, to)
    yield shop
    shop.outbox.close()


def traces(shop: Shop, text: str) -> list[str]:
    """Return the objects that say something, as they are or unpacked."""
    return [name for name, content in objects(shop.to).items() if text in _said(name, content)]


def _said(name: str, content: bytes) -> str:
    if name.endswith(".avro"):
        return repr((content, list(fastavro.reader(BytesIO(content)))))
    if not name.endswith(".parquet"):
        return content.decode()
    file = pq.ParquetFile(BytesIO(content))
    return repr((file.read().to_pylist(), file.metadata.to_dict()))


def test_no_byte_of_an_erased_owner_is_left_in_the_bucket(shop: Shop) -> None:
    for owners in ("abab", "bbbb", "aaaa", "ab"):
        shop.publish(owners)
    assert traces(shop, ADA) != []
    (done,) = erased(shop, ADA)
    assert done.rows == 7
    assert traces(shop, ADA) == []
    assert shop.names() == [BOB] * 7
    shop.publish("b")
    assert shop.names() == [BOB] * 8


def test_a_batch_that_was_read_before_and_is_committed_after_leaves_the_rows_out(shop: Shop) -> None:
    shop.publish("ab")
    batch = shop.read("aba")
    assert erased(shop, ADA, older_than_hours=1)[0].rows == 1
    shop.commit(batch)
    assert shop.names() == [BOB, BOB]
    assert traces(shop, ADA) == []
    shop.publish("ab")  # what comes later is hers again
    assert shop.names() == [ADA, BOB, BOB, BOB]


def test_a_commit_that_is_overtaken_by_the_erasing_looks_again(shop: Shop) -> None:
    shop.publish("bb")
    batch = shop.read("aab")
    done = list[ErasedRows]()
    points.arm(BEFORE_COMMIT, lambda: done.extend(erased(shop, ADA, older_than_hours=1)))
    shop.commit(batch)
    assert [each.rows for each in done] == [0]
    assert shop.names() == [BOB] * 3


def test_notes_of_a_table_and_of_its_lake_both_count(bucket: str) -> None:
    lake = location(f"{bucket}/lake")
    of_table, of_lake = (ErasedPlaces("log", 1, None, {0: n}, (Piece(0, n, n + 1),)) for n in (3, 5))
    note_erased(lake / "order", [of_table])
    note_erased(lake, [of_lake])
    assert erased_places(lake / "order") == (of_table, of_lake)
    assert erased_places(lake) == (of_lake,)


def test_whoever_may_see_no_more_than_the_table_can_commit_to_it(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a rule of the bucket allows it; the server of these tests knows no rules."""
    to = BucketPath.parse(f"{bucket}/shop/table")

    def refused_elsewhere(ask: Callable[[BucketPath], Any]) -> Callable[[BucketPath], Any]:
        def asked(self: BucketPath) -> Any:
            if not self.key.startswith(f"{to.key}/"):
                raise StorageRefused(self.bucket)
            return ask(self)

        return asked

    monkeypatch.setattr(BucketPath, "read", refused_elsewhere(BucketPath.read))
    monkeypatch.setattr(BucketPath, "stat", refused_elsewhere(BucketPath.stat))
    Query(tmp_path / "one", to).run(ends(0), ends(10))
    assert rows_of(to) == all_places(10)
