"""From a key to its place: hash, slot and partition.

The function is murmur3 x86 32-bit, seed 0, without its top bit; never Python's `hash()`, which differs
between processes. Slots and partitions come from the same hash, so a key has one slot and one partition per
topic wherever it is computed: here, in SQL, or in another language.

A topic stores its partitioner. `murmur3` is ours; `kafka` places keys as Kafka's own clients do, for topics
created through the Kafka port: murmur2, which agrees with ours for one key in two hundred.
"""

from mmh3 import hash as _murmur3

from penstock.errors import InvalidPartitioner, InvalidPartitions

SLOTS = 256
MAX_PARTITIONS = 10_000
MURMUR3, KAFKA = "murmur3", "kafka"
PARTITIONERS = (MURMUR3, KAFKA)


def key_hash(key: str | bytes) -> int:
    """Return the 31-bit hash of a key; a string counts as its UTF-8 bytes."""
    return _murmur3(key) & 0x7FFFFFFF


def slot(hashed: int) -> int:
    """Return the slot of a hash, the unit of sequencing; all topics share the same 256 slots."""
    return hashed & (SLOTS - 1)


def place(key: str | bytes) -> tuple[int, int]:
    """Return the slot of a key, and its hash."""
    hashed = _murmur3(key) & 0x7FFFFFFF
    return hashed & (SLOTS - 1), hashed


def partition(hashed: int, partitions: int) -> int:
    """Return the partition of a hash in a topic of that many partitions."""
    return hashed % partitions


def partition_of(key: str | bytes, partitions: int) -> int:
    """Return the partition of a key in an outbox topic of that many partitions.

    The same on every machine and for ever; after a topic has grown, `partition_of` with the new count returns
    the partition of the key's later records. Raises InvalidPartitions.
    """
    return partition(key_hash(key), check_partitions(partitions))


def partition_for(partitioner: str, key: bytes | None, id: str, partitions: int) -> int:
    """Return the partition of a record by a topic's partitioner; a record without a key goes by its id."""
    if partitioner == KAFKA and key is not None:
        return (murmur2(key) & 0x7FFFFFFF) % partitions
    return partition(key_hash(id if key is None else key), partitions)


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 of Kafka's default partitioner (its seed and its length of whole words)."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    hashed = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = (hashed * multiplier & mask) ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15


def check_partitioner(partitioner: str) -> str:
    """Return the name of a partitioner that a topic may have. Raises InvalidPartitioner."""
    if partitioner not in PARTITIONERS:
        raise InvalidPartitioner(partitioner, PARTITIONERS)
    return partitioner


def check_partitions(partitions: int) -> int:
    """Return a partition count that a topic may have. Raises InvalidPartitions."""
    fits = isinstance(partitions, int) and not isinstance(partitions, bool)
    if not fits or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitions(partitions, MAX_PARTITIONS)
    return partitions
