"""Parts of the log suite: appends of producers, and retention: trim, sizes, holds."""

from concurrent.futures import ThreadPoolExecutor

from penstock.errors import (
    InvalidPartitioner,
    OutOfSequence,
    PartitionerDiffers,
    ProducerFenced,
    StillNeeded,
    UnknownTopic,
)
from penstock.log.contract import Batch, Keep, Log, OffsetRange, Position, Producer
from penstock.log.entry import ENTRY_BYTES
from penstock.model.partition import KAFKA
from tests.suites.log_reading import ALL, a_content, filled, numbered
from tests.suites.refusal import refusal

# Kafka's test vectors of murmur2 (its UtilsTest), as partitions of 100.
KAFKA_PLACES = {b"21": 40, b"foobar": 66, b"a-little-bit-long-string": 12, b"abc": 7}


class ProducerSuite:
    """Batches: for several topics at once, and once for each producer."""

    def test_one_append_may_go_to_several_topics(self, log: Log) -> None:
        """All or nothing."""
        for name in ("a", "b"):
            log.create_topic(name, partitions=1)
        given = log.append_all([Batch("a", numbered(2)), Batch("b", numbered(1)), Batch("a", numbered(1))])
        assert given == [[(0, 0), (0, 1)], [(0, 0)], [(0, 2)]]
        refusal(UnknownTopic, log.append_all, [Batch("a", numbered(1)), Batch("c", numbered(1))])
        assert log.bounds("a", 0) == (0, 3)

    def test_what_was_appended_can_be_waited_for(self, log: Log) -> None:
        """Until it is as durable as the engine's settings demand."""
        topic = filled(log, numbered(2))
        log.durable(topic, Position(0, 1))

    def test_a_topic_places_keys_by_its_own_partitioner(self, log: Log) -> None:
        """Kafka's for topics of Kafka clients; it never changes."""
        topic = log.create_topic("t", partitions=100, partitioner=KAFKA)
        assert log.topic("t").partitioner == topic.partitioner == KAFKA
        (given,) = log.append_all([Batch("t", [a_content(key=key) for key in KAFKA_PLACES])])
        assert [place for place, _ in given] == list(KAFKA_PLACES.values())
        refusal(PartitionerDiffers, log.create_topic, "t", partitions=100)
        refusal(InvalidPartitioner, log.create_topic, "u", partitioner="luck")

    def test_a_batch_that_is_sent_again_is_not_added_again(self, log: Log) -> None:
        """It returns the positions of the first append, whatever came in between."""
        log.create_topic("t", partitions=1)
        batch = Batch("t", numbered(3), 0, Producer("p", 1, 0))
        first = log.append_all([batch])
        log.append_all([Batch("t", numbered(1), 0)])
        assert log.append_all([batch]) == first
        assert log.bounds("t", 0) == (0, 4)
        last = log.last_batch("p")
        assert last is not None
        assert (last.epoch, last.sequence, last.positions) == (1, 0, tuple(first[0]))
        assert log.last_batch("q") is None

    def test_a_producers_last_batch_is_remembered_when_its_records_are_gone(self, log: Log) -> None:
        """So that a producer in doubt learns from the ids whether it was added, and repeats add nothing."""
        topic = log.create_topic("t", partitions=2)
        contents = [a_content("a"), a_content("b"), a_content("c")]
        batch = Batch("t", contents, 1, Producer("p", 1, 0))
        first = log.append_all([batch])
        log.trim(topic, [OffsetRange(1, 0, 3)])
        last = log.last_batch("p")
        assert last is not None
        assert (last.positions, last.ids) == (tuple(first[0]), ("a", "b", "c"))
        assert log.append_all([batch]) == first
        assert log.bounds("t", 1) == (3, 3)
        log.append_all([Batch("t", [a_content("d")], 0, Producer("p", 2, 3))])
        last = log.last_batch("p")
        assert last is not None
        assert (last.positions, last.ids) == (((0, 0),), ("d",))

    def test_the_next_batch_of_a_producer_follows_its_last(self, log: Log) -> None:
        """A batch that leaves a gap or goes back is refused, and nothing of that append is added."""
        log.create_topic("t", partitions=1)
        log.append_all([Batch("t", numbered(3), 0, Producer("p", 1, 0))])
        log.append_all([Batch("t", numbered(2), 0, Producer("p", 1, 3))])
        for sequence in (4, 6, 0):
            batch = Batch("t", numbered(1), 0, Producer("p", 1, sequence))
            refusal(OutOfSequence, log.append_all, [Batch("t", numbered(1), 0), batch])
        assert log.bounds("t", 0) == (0, 5)

    def test_a_producer_of_an_older_epoch_is_refused(self, log: Log) -> None:
        """Its successor has appended; each producer has its own epoch."""
        log.create_topic("t", partitions=1)
        log.append_all([Batch("t", numbered(1), 0, Producer("p", 2, 0))])
        refusal(ProducerFenced, log.append_all, [Batch("t", numbered(1), 0, Producer("p", 1, 1))])
        log.append_all([Batch("t", numbered(1), 0, Producer("q", 1, 0))])
        assert log.bounds("t", 0) == (0, 2)

    def test_two_who_begin_as_one_producer_add_one_batch(self, log: Log) -> None:
        """Also at the same time, and to different partitions."""
        log.create_topic("t", partitions=8)
        with ThreadPoolExecutor(8) as threads:
            for round in range(5):
                producer = Producer(f"p-{round}", 1, 0)
                batches = [Batch("t", [a_content(str(each))], each, producer) for each in range(8)]
                given = list(threads.map(lambda batch: log.append_all([batch]), batches))
                assert len({position for ((position,),) in given}) == 1
        assert sum(bounds.end for bounds in log.all_bounds(log.topic("t")).values()) == 5

    def test_producers_of_a_kind_are_forgotten_once_they_are_old(self, log: Log) -> None:
        """Others stay, and so do the records."""
        log.create_topic("t", partitions=1)
        for epoch, id in enumerate(("k:1", "k:2", "k:3", "j:1", "l:1")):
            log.append_all([Batch("t", numbered(1), 0, Producer(id, epoch, 0))])
        assert (log.trim_producers("k:", 2, limit=1), log.trim_producers("k:", 2)) == (1, 1)
        assert log.trim_producers("k:", 2) == 0
        left = [id for id in ("k:1", "k:2", "k:3", "j:1", "l:1") if log.last_batch(id) is not None]
        assert (left, log.bounds("t", 0)) == (["k:3", "j:1", "l:1"], (0, 5))


class KeepingSuite:
    """Trimming, retention limits, holds and identity."""

    def test_a_log_has_an_id_and_an_incarnation(self, log: Log) -> None:
        """The same each time."""
        id, incarnation = log.identity()
        assert id
        assert incarnation >= 1
        assert log.identity() == (id, incarnation)

    def test_a_topic_remembers_what_is_kept_of_it(self, log: Log) -> None:
        """By default, as in the settings."""
        topic = filled(log, [])
        assert topic.keep == Keep(None, None, None)
        log.retain(topic, Keep(1000, None, 5))
        assert log.topic("t").keep == log.topics()[0].keep == Keep(1000, None, 5)
        log.delete_topic("t")
        refusal(UnknownTopic, log.retain, topic, Keep())

    def test_one_limit_is_set_without_a_word_about_the_others(self, log: Log) -> None:
        """So that concurrent changes of different limits do not undo each other."""
        topic = filled(log, [])
        log.retain(topic, Keep(1000, 2000, 3000))
        log.retain(topic, Keep(records=5), only=["records"])
        assert log.topic("t").keep == Keep(1000, 2000, 5)
        log.retain(topic, Keep(), only=["age_ms", "bytes"])
        assert log.topic("t").keep == Keep(None, None, 5)

    def test_a_topic_can_be_pinned_by_name(self, log: Log) -> None:
        """It returns the topic; a missing one is unknown."""
        topic = filled(log, [])
        assert log.pinned_topic("t") == log.pinned_topic("t", alone=True) == topic
        refusal(UnknownTopic, log.pinned_topic, "other")

    def test_trimmed_records_are_gone_and_the_rest_keeps_its_offsets(self, log: Log) -> None:
        """Also when a partition becomes empty: its offsets are not reused."""
        topic = filled(log, numbered(5))
        assert log.trim(topic, [OffsetRange(0, 0, 2)]) == 2
        assert log.all_bounds(topic)[0] == (2, 5)
        assert [each.id for each in log.read("t", 0, 2)] == ["2", "3", "4"]
        assert log.trim(topic, [OffsetRange(0, 2, 5)]) == 3
        assert log.all_bounds(topic)[0] == (5, 5)
        assert log.append_all([Batch("t", numbered(1), 0)]) == [[(0, 5)]]

    def test_a_cleared_topic_is_empty_and_goes_on_with_its_offsets(self, log: Log) -> None:
        """No reader gets the old records again."""
        topic = filled(log, numbered(3))
        log.clear(topic)
        log.sweep(topic)
        assert log.all_bounds(topic) == {0: (3, 3), 1: (0, 0)}
        assert log.read_ranges(topic, [OffsetRange(0, 0, 3)], max_bytes=ALL).entries == []
        assert log.append_all([Batch("t", numbered(1), 0)]) == [[(0, 3)]]

    def test_a_trim_that_turns_out_to_be_wrong_deletes_nothing(self, log: Log) -> None:
        """The caller decides again once no other trim can run."""
        topic = filled(log, numbered(3))
        refusal(StillNeeded, log.trim, topic, [OffsetRange(0, 0, 2)], unless=lambda: True)
        assert log.all_bounds(topic)[0] == (0, 3)
        assert len(log.read("t", 0)) == 3

    def test_a_moment_is_found_in_what_is_left(self, log: Log) -> None:
        """The time marks of trimmed records are removed with them."""
        topic = filled(log, [a_content(str(n), timestamp_ms=n) for n in range(3000)])
        log.trim(topic, [OffsetRange(0, 0, 2500)])
        assert log.offsets_at(topic, 0)[0] == 2500
        assert log.offsets_at(topic, 2700)[0] == 2700

    def test_sizes_count_keys_values_and_headers(self, log: Log) -> None:
        """In each range, with the overhead of each record; missing records count nothing."""
        topic = filled(log, numbered(3, key=b"kk", value=b"vvv", headers=b"\x00"))
        wanted = 2 * (6 + ENTRY_BYTES)
        assert log.sizes(topic, [OffsetRange(0, 0, 2), OffsetRange(1, 0, 9)]) == {0: wanted, 1: 0}

    def test_reach_says_how_far_so_many_bytes_go(self, log: Log) -> None:
        """To after the record that holds the last byte; to the end of the range if there are fewer."""
        topic = filled(log, numbered(5, key=None, value=b"x" * 10))
        each = 10 + ENTRY_BYTES
        for size, reached in ((1, 1), (each, 1), (each + 1, 2), (3 * each, 3), (1000, 5)):
            assert log.reach(topic, [OffsetRange(0, 0, 5)], [size]) == {0: reached}

    def test_a_reader_holds_what_it_says_until_it_says_otherwise(self, log: Log) -> None:
        """One reader's hold does not change another's; a topic's holds are deleted with it."""
        topic = filled(log, numbered(5))
        log.hold("lake", topic, {0: 2, 1: 0})
        log.hold("copy", topic, {0: 4})
        assert log.holds(topic) == {"lake": {0: 2, 1: 0}, "copy": {0: 4}}
        assert log.holds_of([topic]) == {topic.id: log.holds(topic)}
        log.hold("lake", topic, {0: 3})
        log.hold("copy", topic, {})
        assert log.holds(topic) == {"lake": {0: 3}}
        log.delete_topic("t")
        assert log.holds(topic) == {}

    def test_reading_is_not_disturbed_by_a_trim(self, log: Log) -> None:
        """Records below the start are left out, the rest is returned."""
        topic = filled(log, numbered(5))
        log.trim(topic, [OffsetRange(0, 0, 3)])
        entries, _ = log.read_ranges(topic, [OffsetRange(0, 0, 5)], max_bytes=ALL)
        assert [each.offset for each in entries] == [3, 4]
