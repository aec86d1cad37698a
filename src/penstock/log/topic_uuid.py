"""The UUID of a topic: how Kafka's clients and the folders of a log in files call it.

Drawn from the log's id and the topic's, so it is the same wherever it is asked for, and never that of another
topic: not of the next one of its name, and not of one in another log.
"""

from hashlib import blake2b
from uuid import UUID


def topic_uuid(log_id: str, topic_id: int) -> UUID:
    """Return the UUID of a topic."""
    return UUID(bytes=blake2b(f"{log_id}/{topic_id}".encode(), digest_size=16).digest())
