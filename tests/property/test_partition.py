from hypothesis import given
from hypothesis import strategies as st

from penstock.model.partition import MAX_PARTITIONS, SLOTS, key_hash, partition, slot
from tests.property.murmur3 import murmur3
from tests.property.strategies import texts

hashes = st.integers(0, 0x7FFFFFFF)


@given(texts)
def test_the_hash_of_a_key_is_murmur3_of_its_utf8_bytes_without_the_top_bit(key: str) -> None:
    assert key_hash(key) == murmur3(key.encode()) & 0x7FFFFFFF


@given(st.binary(max_size=600))
def test_the_hash_of_bytes_is_murmur3_without_the_top_bit(key: bytes) -> None:
    assert key_hash(key) == murmur3(key) & 0x7FFFFFFF


@given(texts, st.integers(1, MAX_PARTITIONS))
def test_a_key_has_one_partition_and_one_slot_each_within_its_range(key: str, partitions: int) -> None:
    place = partition(key_hash(key), partitions)

    assert 0 <= place < partitions
    assert 0 <= slot(key_hash(key)) < SLOTS
    copied = key.encode().decode()
    assert partition(key_hash(copied), partitions) == place
    assert partition(key_hash(key.encode()), partitions) == place


@given(hashes)
def test_a_slot_is_the_low_byte_of_the_hash_and_the_partition_among_256(hashed: int) -> None:
    assert slot(hashed) == hashed & 255 == partition(hashed, SLOTS)


@given(hashes, st.integers(1, 5000))
def test_a_topic_that_doubles_moves_a_key_only_to_its_twin_partition(hashed: int, partitions: int) -> None:
    assert partition(hashed, 2 * partitions) % partitions == partition(hashed, partitions)
