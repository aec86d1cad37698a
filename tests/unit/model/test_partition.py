import subprocess

import mmh3
import pytest

from penstock.errors import InvalidPartitions
from penstock.model.partition import MAX_PARTITIONS, SLOTS, check_partitions, key_hash, partition, partition_of, slot
from tests.unit.ground.child import finish, start

# Appendix B: key, murmur3 x86_32, then the partition among 256, 8, 100 and 10000.
VECTORS = [
    ("order-123", 0xADAE14BD, {256: 189, 8: 5, 100: 93, 10_000: 3293}),
    ("user-456", 0x1DD4D016, {256: 22, 8: 6, 100: 66, 10_000: 6166}),
    ("order-789", 0xE74781F4, {256: 244, 8: 4, 100: 72, 10_000: 9572}),
    ("order-1", 0xF5725621, {256: 33, 8: 1, 100: 25, 10_000: 7425}),
    ("a", 0x3C2569B2, {256: 178, 8: 2, 100: 50, 10_000: 4850}),
    ("", 0x00000000, {256: 0, 8: 0, 100: 0, 10_000: 0}),
]
# Keys that a hash over UTF-16 or over characters would place elsewhere; the numbers come from
# a murmur3 written by hand (tests/property/murmur3.py), held fixed.
BEYOND_ASCII = {"Straße-7": 0x40796769, "注文-1": 0x29D56BAD, "🛒-9": 0x0D9301E1}


@pytest.mark.parametrize(("key", "hashed", "places"), VECTORS, ids=[key or "empty" for key, _, _ in VECTORS])
def test_a_key_has_the_hash_and_the_partitions_of_appendix_b(key: str, hashed: int, places: dict[int, int]) -> None:
    assert key_hash(key) == hashed & 0x7FFFFFFF
    assert {n: partition(key_hash(key), n) for n in places} == places
    assert {n: partition_of(key, n) for n in places} == places
    assert slot(key_hash(key)) == hashed & 255


@pytest.mark.parametrize(("key", "hashed"), [("test", 0xBA6BD213), ("Hello, world!", 0xC0363E43)])
def test_the_hash_is_murmur3_x86_32_without_its_top_bit(key: str, hashed: int) -> None:
    assert mmh3.hash(key, 0, signed=False) == hashed
    assert key_hash(key) == hashed & 0x7FFFFFFF


@pytest.mark.parametrize(("key", "hashed"), BEYOND_ASCII.items())
def test_a_string_counts_as_its_utf8_bytes(key: str, hashed: int) -> None:
    assert key_hash(key) == key_hash(key.encode("utf-8")) == hashed


def test_a_key_keeps_its_partition_whatever_the_hash_seed_of_the_process() -> None:
    program = (
        "from penstock.model.partition import key_hash, partition;"
        "print([partition(key_hash(f'key-{i}'), n) for i in range(500) for n in (8, 100, 256, 10000)])"
    )
    children: list[subprocess.Popen[str]] = [start(program, PYTHONHASHSEED=seed) for seed in ("0", "1", "4711")]
    here = [partition(key_hash(f"key-{i}"), n) for i in range(500) for n in (8, 100, 256, 10_000)]

    assert [finish(child) for child in children] == [f"{here}\n"] * 3


def test_100_000_keys_spread_evenly_over_256_partitions() -> None:
    counts = [0] * 256
    for number in range(100_000):
        counts[partition(key_hash(f"order-{number}"), 256)] += 1

    even = 100_000 / 256
    assert min(counts) >= 0.8 * even
    assert max(counts) <= 1.2 * even


def test_a_topic_of_256_partitions_has_a_partition_per_slot() -> None:
    hashes = [key_hash(f"key-{number}") for number in range(1000)]

    assert [slot(each) for each in hashes] == [partition(each, SLOTS) for each in hashes]


@pytest.mark.parametrize("count", [1, 256, MAX_PARTITIONS])
def test_a_partition_count_within_the_range_is_taken(count: int) -> None:
    assert check_partitions(count) == count


@pytest.mark.parametrize("count", [0, -1, MAX_PARTITIONS + 1, True, 8.0, "8", None])
def test_a_partition_count_out_of_range_is_refused_by_name_value_and_range(count: object) -> None:
    with pytest.raises(InvalidPartitions) as refused:
        check_partitions(count)  # type: ignore[arg-type]

    assert str(refused.value) == f"partitions={count!r} must be a whole number from 1 to 10000"


@pytest.mark.parametrize("partitions", [0, -1, MAX_PARTITIONS + 1, True, "8"])
def test_the_partition_of_a_key_needs_a_count_that_a_topic_may_have(partitions: int) -> None:
    with pytest.raises(InvalidPartitions):
        partition_of("k", partitions)
