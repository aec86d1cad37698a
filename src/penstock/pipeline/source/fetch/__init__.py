"""Fetchers: rows of a topic as Arrow, straight from the database's own driver.

A fetcher is opened in a worker of Spark, one per task, which imports only the driver it needs. It yields
batches of a bounded size with the columns `partition, offset, type, timestamp_ms, key, value, headers`; a
column that is not requested is all null. Two SQLite libraries in one process drop each other's locks
(`sqlite.py`): no code of ours opens a SQLite file while a fetcher has it open.
"""

from penstock.database.address import directory_in
from penstock.database.dialects import dialect_name
from penstock.database.naming import Names
from penstock.errors import StoreUnsupported
from penstock.log.kafka_settings import KafkaSettings

from ...address import is_kafka
from .contract import Fetcher


def open_fetcher(url: str, names: Names, topic: str = "", kafka: KafkaSettings | None = None) -> Fetcher:
    """Open the fetcher of a store or topic. Raises MissingExtra, InvalidUrl, StoreUnreachable, StoreUnsupported."""
    if is_kafka(url):
        from .kafka import KafkaFetcher

        return KafkaFetcher(url, topic, kafka)
    directory = directory_in(url)
    if directory is not None:
        from .files import FilesFetcher

        return FilesFetcher(directory)
    dialect = dialect_name(url)
    if dialect == "postgres":
        from .postgres import PostgresFetcher

        return PostgresFetcher(url, names)
    if dialect == "sqlite":
        from .sqlite import SqliteFetcher

        return SqliteFetcher(url, names)
    raise StoreUnsupported("a pipeline", "a log that other processes can reach: in SQLite, PostgreSQL or files")
