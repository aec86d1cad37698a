"""From a key to its place: hash, slot and partition.

The function is murmur3 x86 32-bit, seed 0, without its top bit; never Python's `hash()`, which differs
between processes. Slots and partitions are both taken from the same hash, so a key has one mover and one
partition per topic wherever it is computed: here, in SQL, or in another language.
"""

from mmh3 import hash as _murmur3

from penstock.errors import InvalidPartitions

SLOTS = 256
MAX_PARTITIONS = 10_000


def key_hash(key: str | bytes) -> int:
    """Return the 31-bit hash of a key; a string counts as its UTF-8 bytes."""
    return _murmur3(key) & 0x7FFFFFFF


def slot(hashed: int) -> int:
    """Return the slot, the unit of sequencing, of a hash: the same 256 for all topics."""
    return hashed & (SLOTS - 1)


def partition(hashed: int, partitions: int) -> int:
    """Return the partition of a hash in a topic of so many partitions."""
    return hashed % partitions


def check_partitions(partitions: int) -> int:
    """Return a partition count that a topic may have.

    Raises InvalidPartitions.
    """
    fits = isinstance(partitions, int) and not isinstance(partitions, bool)
    if not fits or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitions(partitions, MAX_PARTITIONS)
    return partitions
