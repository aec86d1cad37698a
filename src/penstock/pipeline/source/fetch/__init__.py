"""From a store's address to its fetcher; a task imports only the driver it needs."""

from penstock.database.address import directory_in
from penstock.database.dialects import dialect_name
from penstock.database.naming import Names
from penstock.errors import StoreUnsupported
from penstock.log.kafka_settings import KafkaSettings

from ...address import is_kafka
from .contract import Fetcher


def open_fetcher(url: str, names: Names, topic: str = "", kafka: KafkaSettings | None = None) -> Fetcher:
    """Open the fetcher of a store, or of a topic of a Kafka cluster.

    Raises MissingExtra, InvalidUrl, StoreUnreachable, StoreUnsupported.
    """
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
