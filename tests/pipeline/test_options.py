"""The options of the source: what is taken, and what a refusal says."""

import pytest

from penstock.errors import InvalidOption
from penstock.pipeline.columns import COLUMNS
from penstock.pipeline.source.options import ReadingPlace, read_options

URL = "sqlite:///shop.db"


def test_what_is_left_out_has_a_default() -> None:
    options = read_options({"url": URL})
    assert options.topic == "events"
    assert options.columns == tuple(COLUMNS)
    assert (options.starting, options.ending) == (ReadingPlace("earliest"), ReadingPlace("latest"))
    assert options.max_records is None
    assert options.fail_on_loss
    assert not options.may_cut


def test_offsets_are_given_as_to_the_kafka_source() -> None:
    place = read_options({"url": URL, "startingOffsets": '{"events": {"0": 12, "1": -1}}'}).starting
    assert place == ReadingPlace("earliest", offsets={0: 12, 1: -1})


@pytest.mark.parametrize("moment", ["1700000000000", "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00"])
def test_a_moment_is_milliseconds_or_a_time_with_its_zone(moment: str) -> None:
    assert read_options({"url": URL, "startingTimestamp": moment}).starting.timestamp_ms == 1_700_000_000_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", ""),
        ("columns", "key,size"),
        ("columns", "key,key"),
        ("columns", ","),
        ("startingOffsets", "first"),
        ("startingOffsets", '{"other": {"0": 1}}'),
        ("startingOffsets", '{"events": {"0": -3}}'),
        ("startingOffsets", '{"events": {"0": "1"}}'),
        ("startingOffsets", '{"events": {"0": true}}'),
        ("startingOffsets", '{"events": {"-1": 1}}'),
        ("startingOffsets", '{"events": {"*": "1"}}'),
        ("endingOffsets", '{"events": 3}'),
        ("startingTimestamp", "2023-11-14T22:13:20"),
        ("startingTimestamp", "yesterday"),
        ("maxRecordsPerBatch", "0"),
        ("numPartitions", "many"),
        ("maxOffsetsPerTrigger", "-1"),
        ("maxTriggerDelay", "soon"),
        ("failOnDataLoss", "maybe"),
    ],
)
def test_a_refusal_names_option_and_value(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=name) as refused:
        read_options({"url": URL} | {name: value})
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("500ms", 0.5), ("5s", 5.0), ("5.0s", 5.0), ("15m", 900.0), ("2 minutes", 120.0), ("1 second", 1.0)],
)
def test_words_of_the_kafka_source_shape_batches(said: str, seconds: float) -> None:
    given = {"maxOffsetsPerTrigger": "7", "minOffsetsPerTrigger": "3", "maxTriggerDelay": said}
    options = read_options({"url": URL} | given)
    assert (options.max_records, options.min_records, options.wait_seconds) == (7, 3, seconds)
    with pytest.raises(InvalidOption, match="left out when maxRecordsPerBatch"):
        read_options({"url": URL, "maxOffsetsPerTrigger": "7", "maxRecordsPerBatch": "8"})


def test_offsets_and_a_moment_do_not_go_together() -> None:
    with pytest.raises(InvalidOption, match="left out"):
        read_options({"url": URL, "startingOffsets": "latest", "startingTimestamp": "1"})
