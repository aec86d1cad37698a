"""Parts of the log suite: reads of workers, pipelines and `why`, by ranges, positions, ids and keys."""

from collections.abc import Sequence

from penstock.log.contract import Batch, Log, OffsetRange, Position, Topic
from penstock.log.entry import Content
from penstock.model.limits import ERASED
from tests.suites.records import a_record, some_records

ALL = 1 << 40  # bytes


def a_content(id: str = "1", key: bytes | None = b"k", value: bytes | None = b"v", **fields: object) -> Content:
    """Return the content of a record, with defaults for all fields."""
    filled = {"type": "t", "headers": None, "timestamp_ms": 1, "owner": None} | fields
    return Content(id=id, key=key, value=value, **filled)  # type: ignore[arg-type]


def filled(log: Log, contents: Sequence[Content], partition: int = 0) -> Topic:
    """Return a topic of two partitions with these records in one."""
    topic = log.create_topic("t", partitions=2)
    log.append_all([Batch("t", contents, partition)])
    return topic


def numbered(count: int, **fields: object) -> list[Content]:
    """Return contents with the ids 0, 1, 2 and so on."""
    return [a_content(str(number), **fields) for number in range(count)]  # type: ignore[arg-type]


class RangeSuite:
    """Ends, bounds, ranges and positions."""

    def test_ends_and_bounds_say_what_there_is(self, log: Log) -> None:
        """Bounds of every partition; ends may leave out those that never held a record."""
        topic = filled(log, numbered(3))
        assert {number: end for number, end in log.ends(topic).items() if end} == {0: 3}
        assert log.all_bounds(topic) == {0: (0, 3), 1: (0, 0)}

    def test_a_deleted_topic_holds_nothing(self, log: Log) -> None:
        """A stale Topic value gives no records, and no error."""
        topic = filled(log, numbered(3))
        log.delete_topic("t")
        assert (log.ends(topic), log.all_bounds(topic)) == ({}, {})
        assert log.read_ranges(topic, [OffsetRange(0, 0, 3)], max_bytes=ALL).entries == []
        assert log.at(topic, [Position(0, 1)]) == []

    def test_several_topics_are_asked_together(self, log: Log) -> None:
        """For their bounds and for the times of records; a deleted one holds nothing."""
        topic = filled(log, [a_content(str(n), timestamp_ms=10 + n) for n in range(3)])
        other, gone = (log.create_topic(name, partitions=1) for name in ("other", "gone"))
        log.append_all([Batch("other", [a_content("x", timestamp_ms=7)], 0)])
        log.delete_topic("gone")
        bounds = {topic.id: {0: (0, 3), 1: (0, 0)}, other.id: {0: (0, 1)}, gone.id: {}}
        assert log.bounds_of([topic, other, gone]) == bounds
        assert (log.bounds_of([]), log.times_at({})) == ({}, {})
        first, last, beyond = Position(0, 0), Position(0, 2), Position(1, 5)
        times = log.times_at({topic: [last, first, beyond], other: [first], gone: [first]})
        assert times == {topic.id: {first: 10, last: 12}, other.id: {first: 7}, gone.id: {}}

    def test_ranges_come_in_their_order(self, log: Log) -> None:
        """Each in order of its offsets, up to the end of the log."""
        topic = filled(log, numbered(5))
        log.append("t", some_records(2), partition=1)
        wanted = [OffsetRange(1, 0, 9), OffsetRange(0, 3, 9), OffsetRange(0, 1, 2)]
        entries, cut = log.read_ranges(topic, wanted, max_bytes=ALL)
        assert [each[:2] for each in entries] == [(1, 0), (1, 1), (0, 3), (0, 4), (0, 1)]
        assert not cut

    def test_a_range_holds_the_bytes_as_they_came(self, log: Log) -> None:
        """Neither key nor headers are decoded."""
        content = a_content(key=b"\xff\x00", value=b"\x00", headers=b"no headers at all", timestamp_ms=7)
        topic = filled(log, [content])
        (entry,) = log.read_ranges(topic, [OffsetRange(0, 0, 1)], max_bytes=ALL).entries
        assert entry[2:8] == content[:6]

    def test_bytes_end_a_read_of_ranges_early(self, log: Log) -> None:
        """Keys, values and headers count; at least one record is returned, and `cut` is true."""
        for fields in ({"value": b"x" * 100}, {"key": b"x" * 100}, {"headers": b"x" * 100}):
            topic = filled(log, numbered(10, **fields))
            entries, cut = log.read_ranges(topic, [OffsetRange(0, 0, 10)], max_bytes=350)
            assert 3 <= len(entries) <= 5, fields
            assert cut
            (entry,), cut = log.read_ranges(topic, [OffsetRange(0, 4, 10)], max_bytes=1)
            assert (entry.offset, cut) == (4, True)
            log.delete_topic("t")

    def test_bare_records_have_no_value_and_no_headers(self, log: Log) -> None:
        """For counting, comparing and searching."""
        topic = filled(log, [a_content(headers=b"\x00")])
        (entry,) = log.read_ranges(topic, [OffsetRange(0, 0, 1)], max_bytes=ALL, bare=True).entries
        assert (entry.id, entry.key, entry.type, entry.value, entry.headers) == ("1", b"k", "t", None, None)

    def test_bare_records_are_never_cut(self, log: Log) -> None:
        """A walk over a range gets all of it with one read."""
        topic = filled(log, numbered(9))
        chunk = log.read_ranges(topic, [OffsetRange(0, 0, 9)], max_bytes=1, bare=True)
        assert (len(chunk.entries), chunk.cut) == (9, False)

    def test_positions_give_records_sorted_and_with_their_owners(self, log: Log) -> None:
        """Missing ones are left out, a repeated one is returned once."""
        topic = filled(log, numbered(3, owner="tenant-7"))
        asked = [Position(0, 2), Position(1, 0), Position(0, 9), Position(0, 0), Position(0, 2)]
        found = log.at(topic, asked)
        assert [(each.offset, each.owner, each.value) for each in found] == [
            (0, "tenant-7", b"v"),
            (2, "tenant-7", b"v"),
        ]
        assert [each.value for each in log.at(topic, asked, bare=True)] == [None, None]

    def test_a_record_may_have_no_type(self, log: Log) -> None:
        """One that was not published through the outbox."""
        topic = filled(log, [a_content(type=None)])
        assert log.read_ranges(topic, [OffsetRange(0, 0, 1)], max_bytes=ALL).entries[0].type is None
        assert log.at(topic, [Position(0, 0)])[0].type is None
        assert log.read("t", 0)[0].type is None

    def test_the_first_offset_after_a_trim_is_where_reading_goes_on(self, log: Log) -> None:
        """The position itself while it is held; nothing at the end."""
        topic = filled(log, numbered(5))
        log.trim(topic, [OffsetRange(0, 0, 3)])
        assert log.first_offsets(topic, [Position(0, 0), Position(1, 0)]) == {0: 3}
        assert log.first_offsets(topic, [Position(0, 4)]) == {0: 4}
        assert log.first_offsets(topic, [Position(0, 5)]) == {}

    def test_a_moment_is_found_in_all_partitions_or_in_ranges(self, log: Log) -> None:
        """The end of each if there is none."""
        topic = log.create_topic("t", partitions=2)
        for partition, times in ((0, (10, 20, 30)), (1, (25,))):
            log.append("t", [a_record(timestamp_ms=each) for each in times], partition=partition)
        assert log.offsets_at(topic, 20) == {0: 1, 1: 0}
        assert log.offsets_at(topic, 99) == {0: 3, 1: 1}
        assert log.offsets_at(topic, 30, [OffsetRange(0, 0, 2)]) == {0: 2}
        assert log.offsets_at(topic, 0, [OffsetRange(0, 1, 2)]) == {0: 1}


class SearchSuite:
    """Searches by id and by key."""

    def test_an_id_is_found_in_any_partition(self, log: Log) -> None:
        """Bare, with its position; a missing id is not found."""
        topic = filled(log, numbered(5), partition=1)
        found = log.find_id(topic, "3", since_ms=None, walk=100).found
        assert found is not None
        assert (found.partition, found.offset, found.value) == (1, 3, None)
        search = log.find_id(topic, "x", since_ms=None, walk=100)
        assert (search.found, search.cut, search.gone) == (None, False, False)
        assert log.find_id(topic, "3", since_ms=None, walk=100, partition=0).found is None

    def test_a_search_says_that_retention_may_have_deleted_it(self, log: Log) -> None:
        """When a partition no longer begins at 0."""
        topic = filled(log, numbered(5))
        log.trim(topic, [OffsetRange(0, 0, 2)])
        assert log.find_id(topic, "0", since_ms=None, walk=100).gone
        assert log.find_id(topic, "4", since_ms=1, walk=100).found is not None

    def test_a_search_looks_at_so_many_records_and_says_what_it_left_out(self, log: Log) -> None:
        """The last ones without a time, else those from that time on."""
        topic = log.create_topic("t", partitions=1)
        log.append("t", [a_record(id=f"old-{each}", timestamp_ms=10 + each) for each in range(4)])
        search = log.find_id(topic, "old-0", since_ms=None, walk=3)
        assert (search.found, search.cut, search.gone) == (None, True, False)
        search = log.find_id(topic, "old-1", since_ms=None, walk=3)
        assert search.found is not None
        search = log.find_id(topic, "old-0", since_ms=10, walk=3)
        assert (search.found is not None, search.cut) == (True, True)
        search = log.find_id(topic, "old-3", since_ms=1, walk=3)
        assert (search.found, search.cut, search.gone) == (None, True, False)
        assert log.find_id(topic, "old-3", since_ms=0, walk=1 << 62).found is not None
        log.trim(topic, [OffsetRange(0, 0, 2)])
        assert log.find_id(topic, "x", since_ms=11, walk=100).gone, "it may have been before the start"
        assert not log.find_id(topic, "x", since_ms=13, walk=100).gone

    def test_a_key_is_found_in_a_range_in_order_or_from_its_end(self, log: Log) -> None:
        """By the key's bytes, not its text."""
        keys = [b"a", b"b", b"a", b"\xff", b"a"]
        topic = filled(log, [a_content(str(number), key) for number, key in enumerate(keys)])
        everything = OffsetRange(0, 0, 5)
        assert [each.offset for each in log.find_key(topic, everything, b"a", limit=9)] == [0, 2, 4]
        assert [each.offset for each in log.find_key(topic, everything, b"a", limit=2)] == [0, 2]
        assert [each.offset for each in log.find_key(topic, everything, b"a", limit=1, last=True)] == [4]
        (newest,) = log.find_key(topic, everything, b"a", limit=1, last=True)
        assert newest.value is None
        assert newest.headers == log.at(topic, [Position(0, 4)])[0].headers
        assert [each.offset for each in log.find_key(topic, OffsetRange(0, 1, 4), b"a", limit=9)] == [2]
        assert [each.offset for each in log.find_key(topic, everything, b"\xff", limit=9)] == [3]
        parts = [OffsetRange(0, 3, 9), OffsetRange(0, 0, 2)]
        assert [each.offset for each in log.find_key_in(topic, parts, b"a")] == [0, 4]
        assert log.find_key_in(topic, parts, b"a")[0] == log.find_key(topic, everything, b"a", limit=1)[0]
        assert log.find_key_in(topic, [], b"a") == []

    def test_records_are_found_by_their_owner_tag(self, log: Log) -> None:
        """In every topic, up to a limit."""
        topic = filled(log, numbered(3, owner="a"))
        log.append_all([Batch("t", numbered(2, owner="b"), 1)])
        assert [(id, each.offset) for id, each in log.owned("a", 2)] == [(topic.id, 0), (topic.id, 1)]
        assert (log.count_owned("a"), log.count_owned("b"), log.count_owned("c")) == (3, 2, 0)

    def test_an_erased_record_keeps_its_place_and_nothing_else(self, log: Log) -> None:
        """Records of another owner are left alone; a second erasure finds nothing."""
        topic = filled(log, numbered(2, owner="a"))
        positions = [Position(0, 0), Position(0, 1)]
        assert log.erase(topic, positions, owner="b") == 0
        assert log.erase(topic, positions[:1], owner="a") == 1
        assert log.erase(topic, positions[:1], owner="a") == 0
        erased, kept = log.at(topic, positions)
        assert (erased.key, erased.value, erased.headers, erased.owner) == (None, None, None, None)
        assert (erased.type, kept.type, erased.id) == (ERASED, "t", "0")
        assert log.all_bounds(topic)[0] == (0, 2)
