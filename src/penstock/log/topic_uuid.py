"""The UUID of a topic, used by Kafka's clients and in the folder names of a log in files.

It is a hash of the log's id and the topic's, so every process computes the same one, and no other topic has
it: not a later one of the same name, and not one in another log.
"""

from hashlib import blake2b
from uuid import UUID


def topic_uuid(log_id: str, topic_id: int) -> UUID:
    """Return the UUID of a topic."""
    return UUID(bytes=blake2b(f"{log_id}/{topic_id}".encode(), digest_size=16).digest())
