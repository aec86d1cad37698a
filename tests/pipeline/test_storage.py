"""What each storage of lakes promises: a file is there as a whole, by one of many, and no change is lost."""

from __future__ import annotations

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import BucketMissing, InvalidOption, StorageAway, StorageRefused
from penstock.pipeline.lake.paths import local_path, table_path
from penstock.pipeline.lake.storage import Location, asking, located, location, storage_of
from tests.services.object_store import SECRET, ObjectStore

RIVALS = 8


@pytest.fixture(params=["local", pytest.param("bucket", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Give a folder in one storage after the other."""
    if request.param == "local":
        return tmp_path / "my lake é" / "a~2Fb"
    found: str = request.getfixturevalue("bucket")
    return location(f"{found}/my lake é/a~2Fb")


def test_what_is_written_is_found_again(folder: Location) -> None:
    storage = storage_of(folder)
    for name in ("one.json", "two.parquet"):
        storage.replace(folder / name, name.encode())
    storage.replace(folder / "below" / "three", b"3")
    assert sorted(each.name for each in folder.iterdir()) == ["below", "one.json", "two.parquet"]
    assert [each.name for each in folder.glob("*.parquet")] == ["two.parquet"]
    assert (folder / "one.json").read_bytes() == b"one.json"
    assert (folder / "one.json").stat().st_size == len("one.json")
    assert (folder.is_dir(), folder.is_file(), folder.exists()) == (True, False, True)
    assert ((folder / "one.json").is_dir(), (folder / "one.json").is_file()) == (False, True)
    assert not (folder / "on").exists(), "a key that begins so is another one"
    assert location(str(folder)) == pickle.loads(pickle.dumps(folder)) == folder
    with pytest.raises(FileNotFoundError):
        (folder / "four").read_bytes()
    storage.remove(folder / "below")
    storage.remove(folder / "one.json")
    assert [each.name for each in folder.iterdir()] == ["two.parquet"]


def test_one_of_many_makes_a_file(folder: Location) -> None:
    storage, start = storage_of(folder), Barrier(RIVALS)
    storage.replace(folder / "other", b"")

    def make(number: int) -> bool:
        start.wait()
        try:
            storage.put_new(folder / "00000000000000000001.json", str(number).encode())
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(RIVALS) as pool:
        made = list(pool.map(make, range(RIVALS)))
    assert made.count(True) == 1
    assert (folder / "00000000000000000001.json").read_bytes() == str(made.index(True)).encode()


@pytest.mark.slow
def test_no_change_of_many_is_lost_in_a_bucket(bucket: str) -> None:
    file, start = location(f"{bucket}/lake/_penstock/tables.json"), Barrier(RIVALS)

    def add(number: int) -> None:
        start.wait()
        storage_of(file).update(file, lambda found: json.dumps([*json.loads(found or b"[]"), number]).encode())

    with ThreadPoolExecutor(RIVALS) as pool:
        list(pool.map(add, range(RIVALS)))
    assert sorted(json.loads(file.read_bytes())) == list(range(RIVALS))


def test_a_file_that_is_given_up_leaves_nothing(folder: Location) -> None:
    storage, file = storage_of(folder), folder / "part.parquet"
    for size in (10, 20 << 20):
        sink = storage.begin(file)
        sink.write(os.urandom(size))
        storage.abandon(file, sink)
        sink.close()
        assert not file.exists()
    sink = storage.begin(file)
    sink.close()
    storage.abandon(file, sink)
    assert not file.exists()


def test_a_parquet_file_of_many_parts_is_read_back(folder: Location) -> None:
    rows = pa.table({"n": list(range(3)), "noise": [os.urandom(7 << 20) for _ in range(3)]})
    storage, file = storage_of(folder), folder / "part.parquet"
    sink = storage.begin(file)
    with pq.ParquetWriter(sink, rows.schema) as writer:
        for row in range(3):
            writer.write_table(rows.slice(row, 1))
    sink.close()
    assert file.stat().st_size > rows.nbytes
    with storage.parquet(file) as source:
        assert source.read() == rows


@pytest.mark.slow
def test_an_upload_has_few_parts_on_their_way_however_slow_the_store_is(bucket: str, object_store: ObjectStore) -> None:
    """What is on its way is held in memory, and a task has a file open for each table."""
    file = location(f"{bucket}/lake/part.parquet")
    object_store.parts_in_flight()
    sink, noise = storage_of(file).begin(file), os.urandom(1 << 20)
    for many in (1, 30, 9):  # a write of many parts is held back, too
        sink.write(many * noise)
    sink.close()
    assert file.stat().st_size == 40 << 20
    assert 1 <= object_store.parts_in_flight() <= 3


def test_addresses_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    plain = ("gs://b/lake", "hdfs://n/lake", "", "s3:///lake", "s3://b/../c")
    keyed = [f"{kind}://AKIA:{key}@b/lake" for kind in ("s3", "s3a", "gs") for key in ("canary", "can/ary")]
    for address in (*plain, *keyed):
        with pytest.raises(InvalidOption, match="BUCKET/FOLDER") as refused:
            located("--to", address)
        assert not [each for each in ("AKIA", "can", "ary") if each in str(refused.value)], address
    with pytest.raises(InvalidOption, match=r"s3://b/lake"):
        table_path("--to", "s3://b")
    with pytest.raises(InvalidOption, match="a folder on a disk"):
        local_path("--checkpoint", "s3://b/checkpoint")
    assert located("--to", f"file://{tmp_path}") == tmp_path


@pytest.mark.slow
def test_a_store_that_cannot_be_used_is_said_in_one_sentence(
    bucket: str, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    lake, said = f"{bucket}/lake", list[str]()
    with pytest.raises(BucketMissing, match="there is no bucket 'nobodys'") as error:
        table_path("--to", "s3://nobodys/lake")
    said.append(str(error.value))
    object_store.look_at_keys(from_now_on=True)
    try:
        with pytest.raises(StorageRefused, match="AWS_SECRET_ACCESS_KEY") as refused:
            table_path("--to", lake)
        said.append(str(refused.value))
        with pytest.raises(StorageRefused), asking(location(lake)):
            DeltaTable(lake, storage_options=dict(storage_of(location(lake)).delta_options or {}))
    finally:
        object_store.look_at_keys(from_now_on=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageAway, match="AWS_ENDPOINT_URL") as away:
        table_path("--to", lake)
    said.append(str(away.value))
    with pytest.raises(StorageAway), asking(location(lake)):
        DeltaTable(lake, storage_options=dict(storage_of(location(lake)).delta_options or {}))
    assert not any(SECRET in each or "\n" in each for each in said)


GENERIC_S3 = "Generic S3 error: Error performing PUT http://127.0.0.1:9/lake/a.parquet in 20.1s, after 4 retries"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (f"{GENERIC_S3}, max_retries: 4, retry_timeout: 20s  - HTTP error: error sending request", StorageAway),
        (f"{GENERIC_S3} - Server returned error response: 503 Service Unavailable", StorageAway),
        ("Kernel error: Error interacting with object store: Generic S3 error: 500 Internal Error", StorageAway),
        ("Error after 4 retries: SlowDown: Please reduce your request rate.", StorageAway),
        ("Connection reset by peer (os error 104)", StorageAway),
        ("operation timed out", StorageAway),
        ("Generic S3 error: The operation lacked the privileges to complete", StorageRefused),
        ("Client error with status 403 Forbidden: SignatureDoesNotMatch", StorageRefused),
        ("Client error with status 404 Not Found: <Code>NoSuchBucket</Code>", BucketMissing),
        ("Generic DeltaTable error: The table's minimum reader version is 5 but deltalake supports 4", None),
        ("Generic error: the schema of the table differs", None),
        ("Parquet error: expected 502 values, found 500", None),
        ("Invalid table version: 504", None),
        ("Failed to parse column 507: not an integer", None),
    ],
)
def test_a_store_that_is_away_is_told_from_what_is_wrong_with_a_table(said: str, kind: type[Exception] | None) -> None:
    """What is away is asked again after a pause; of a fault in a table that would never end."""
    from deltalake.exceptions import DeltaError

    with pytest.raises(kind or DeltaError) as found, asking(location("s3://shop/lake")):
        raise DeltaError(said)
    if kind is None:
        assert str(found.value) == said
