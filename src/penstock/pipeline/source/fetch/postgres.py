"""Fetching from PostgreSQL with its Arrow driver, by binary COPY: memory is one batch of 16 MB."""

from collections.abc import Iterator
from contextlib import closing

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from penstock.database.address import without_password
from penstock.database.naming import Names
from penstock.database.statements import statement
from penstock.errors import StoreUnreachable

from .contract import WANTED, Fetcher, Request


class PostgresFetcher(Fetcher):
    """One connection; each request is a transaction of its own."""

    def __init__(self, url: str, names: Names) -> None:
        self._names = names
        try:
            self._conn = dbapi.connect(url)
        except adbc_driver_manager.Error as exc:
            raise StoreUnreachable(without_password(url), str(exc).partition("\n")[0]) from exc

    def batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        with closing(self._conn.cursor()) as cursor:
            self._ask(request)
            cursor.execute(self._sql("fetch"))
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    yield batch
        self._conn.rollback()

    def starts(self, topic_id: int) -> dict[int, int]:
        self._ask(Request(topic_id, (), ()))
        with closing(self._conn.cursor()) as cursor:
            cursor.execute(self._sql("starts"))
            found = dict(cursor.fetchall())
        self._conn.rollback()
        return found

    def close(self) -> None:
        self._conn.close()

    def _sql(self, name: str) -> str:
        return statement("log", "postgres", f"arrow_{name}", self._names)

    def _ask(self, request: Request) -> None:
        lists = [",".join(str(each) for each in column) for column in zip(*request.pieces, strict=True)] or [""] * 3
        wanted = ["true" if request.wants(column) else "false" for column in WANTED]
        with closing(self._conn.cursor()) as cursor:
            cursor.execute(self._sql("ask"), (str(request.topic_id), *lists, *wanted))
            cursor.fetchall()
