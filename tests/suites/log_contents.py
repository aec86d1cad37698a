"""Parts of the log suite: the content of a record is returned unchanged, and a time finds its offset."""

import random
from collections.abc import Sequence
from itertools import pairwise

from penstock.log.contract import Log
from penstock.model.record import RawHeaders, Record
from tests.suites.records import a_record

_START_MS = 1_700_000_000_000
# One character or more of every kind that is often lost: controls, each plane, combining marks, right to
# left, characters of quoting and escaping, and the ends of the ranges.
_TEXTS = (
    "plain",
    "Straße",
    "e\u0301",
    "注文",
    "שלום",
    "\U0001f6d2",
    "\U00010000\U0001fffd\U0002fffd\U000e0001\U0010fffd",
    "\u0000\u0001\u007f\u0080\u2028\ufeff\ufffd\uffff",
    "'; DROP TABLE penstock_head; --",
    '"\\%s%(x)s:x?$1{}',
)


class TimeSuite:
    """From a time to an offset."""

    def test_the_offset_at_a_moment_is_the_first_at_or_after_it(self, log: Log) -> None:
        """The end if there is none, the start if all are later."""
        log.create_topic("t", partitions=2)
        _at(log, [10, 20, 20, 30])
        found = [log.offset_at("t", 0, moment) for moment in (0, 9, 10, 11, 20, 21, 30, 31, 10**15)]
        assert found == [0, 0, 0, 1, 1, 3, 3, 4, 4]

    def test_an_empty_partition_has_its_end_at_any_moment(self, log: Log) -> None:
        """Also beside one that is not empty."""
        log.create_topic("t", partitions=2)
        _at(log, [10])
        assert [log.offset_at("t", 1, moment) for moment in (0, 10, 20)] == [0, 0, 0]

    def test_records_may_be_older_than_those_before_them(self, log: Log) -> None:
        """The first record at or after the time counts, even if an earlier time follows."""
        log.create_topic("t", partitions=1)
        times = [50, 10, 40, 20, 60, 5]
        _at(log, times)
        _ask_all(log, times, range(70))

    def test_thousands_of_rising_moments_are_found_as_in_a_list(self, log: Log) -> None:
        """Appended in uneven lots, so that sparse marks fall in various places."""
        log.create_topic("t", partitions=1)
        times = [_START_MS + 3 * (number // 2) for number in range(4_000)]
        for start, stop in _lots(len(times), seed=1):
            _at(log, times[start:stop])
        _ask_all(log, times, _samples(times, seed=2))

    def test_thousands_of_jumping_moments_are_found_as_in_a_list(self, log: Log) -> None:
        """A record far ahead of its time, old ones behind it, and one at the very end."""
        log.create_topic("t", partitions=1)
        source = random.Random(3)
        times = [_START_MS + number * 5 + source.randint(-20_000, 500) for number in range(3_500)]
        times[1_200] += 10**7
        times[-1] += 2 * 10**7
        for start, stop in _lots(len(times), seed=4):
            _at(log, times[start:stop])
        _ask_all(log, times, _samples(times, seed=5))


class ContentSuite:
    """Records are read as they were written."""

    def test_nothing_is_not_the_same_as_empty(self, log: Log) -> None:
        """For keys, values and headers' values alike."""
        for key in (None, "", "k"):
            for data in (None, b"", b"0"):
                assert _round_trip(log, a_record(key, data)) == (key, data, ())

    def test_headers_keep_order_repeats_and_null_values(self, log: Log) -> None:
        """Also many headers, with empty and long values."""
        several: RawHeaders = (("b", b"1"), ("a", None), ("b", b""), ("a", b"\x00\xff"), ("b", b"1"))
        many: RawHeaders = tuple((f"name-{number}", bytes([number % 256]) * number) for number in range(300))
        for headers in ((), several, many, (("h", b"x" * 70_000),)):
            assert _round_trip(log, a_record(raw_headers=headers)) == ("o-1", b"{}", headers)

    def test_text_of_every_plane_comes_back_as_it_was(self, log: Log) -> None:
        """B-11: in keys, values, header names and header values."""
        for text in _TEXTS:
            raw = text.encode()
            headers: RawHeaders = ((text, raw),)
            assert _round_trip(log, a_record(text, raw, raw_headers=headers)) == (text, raw, headers)

    def test_every_byte_comes_back_as_it_was(self, log: Log) -> None:
        """Values are bytes, not text."""
        every = bytes(range(256))
        assert _round_trip(log, a_record(data=every * 3)) == ("o-1", every * 3, ())

    def test_a_key_that_is_no_utf8_comes_back_as_it_was(self, log: Log) -> None:
        """Another client may send any bytes; they become escaped surrogates, and keep one partition."""
        log.create_topic("keys", partitions=256)
        for raw in (b"\xff", b"ok\x80\xfe", b"\xed\xa0\x80", b"\x00\xc3"):
            key = raw.decode("utf-8", "surrogateescape")
            assert _round_trip(log, a_record(key)) == (key, b"{}", ())
            first, second = log.append("keys", [a_record(key), a_record(key)])
            assert first.partition == second.partition
            (record, _) = log.read("keys", *first)
            assert record.key is not None
            assert record.key.encode("utf-8", "surrogateescape") == raw

    def test_a_value_of_a_mebibyte_comes_back_whole(self, log: Log) -> None:
        """The largest that may be published by default, and one byte more."""
        for size in (1 << 20, (1 << 20) + 1):
            data = random.Random(size).randbytes(size)
            assert _round_trip(log, a_record(data=data)) == ("o-1", data, ())

    def test_type_id_and_timestamp_come_back_as_they_were(self, log: Log) -> None:
        """From 1970 to the year 9999."""
        log.create_topic("t", partitions=1)
        for moment_ms in (0, 1, _START_MS + 123, 253_402_300_799_999):
            wanted = a_record(type="Straße.注文", timestamp_ms=moment_ms)
            (place,) = log.append("t", [wanted])
            (record,) = log.read("t", *place)
            assert (record.id, record.type, record.timestamp_ms) == (wanted.id, wanted.type, moment_ms)


def _round_trip(log: Log, record: Record) -> tuple[str | None, bytes | None, RawHeaders]:
    """Append a record, read it back, and return its content."""
    log.create_topic("content", partitions=1)
    (place,) = log.append("content", [record])
    (found,) = log.read("content", *place)
    assert found.id == record.id
    return found.key, found.data, found.raw_headers


def _at(log: Log, times: Sequence[int]) -> None:
    log.append("t", [a_record(timestamp_ms=moment) for moment in times], partition=0)


def _ask_all(log: Log, times: Sequence[int], moments: Sequence[int]) -> None:
    """Compare every result with that of a plain list."""
    for moment in moments:
        wanted = next((offset for offset, each in enumerate(times) if each >= moment), len(times))
        assert log.offset_at("t", 0, moment) == wanted, f"at {moment}"


def _lots(many: int, seed: int) -> list[tuple[int, int]]:
    """Return cuts of a range into lots of uneven size."""
    cuts = sorted({0, many, *random.Random(seed).sample(range(1, many), 12)})
    return list(pairwise(cuts))


def _samples(times: Sequence[int], seed: int) -> list[int]:
    """Return times to search for: the ends, those of some records, and their neighbours."""
    some = random.Random(seed).sample(list(times), 60)
    own = [moment + step for moment in some for step in (-1, 0, 1)]
    return [0, min(times), max(times), max(times) + 1, *own]
