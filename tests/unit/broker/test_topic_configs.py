"""The configs of topics: what is refused is told what it must be."""

import pytest

from penstock.broker.topic_configs import UNIMPORTANT, read_configs, shown_configs
from penstock.errors import InvalidConfig
from penstock.log.contract import Topic
from penstock.log.topics import MESSAGE_BYTES
from penstock.model.partition import KAFKA


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("retention.ms", "-5", "a whole number of 0 or more, or -1 for no limit"),
        ("retention.bytes", "-5", "a whole number above 0, or -1 for no limit"),
        ("retention.bytes", "0", "a whole number above 0, or -1 for no limit"),
        ("delete.retention.ms", "-5", "a whole number of 0 or more"),
        ("max.message.bytes", "-5", "a whole number from 0 to 67108864, the port's own bound"),
        ("max.message.bytes", "99999999", "a whole number from 0 to 67108864, the port's own bound"),
        ("min.compaction.lag.ms", "5", "0: there is no other here"),
        ("retention.ms", str(1 << 63), "a whole number of 64 bits"),
        ("retention.ms", "week", "a whole number"),
    ],
)
def test_a_number_that_is_refused_is_told_what_it_must_be(name: str, value: str, wanted: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_configs({name: value})
    assert str(caught.value) == f"{name}={value!r}: it must be {wanted}"


@pytest.mark.parametrize("name", sorted(UNIMPORTANT | {MESSAGE_BYTES}))
def test_a_config_that_is_taken_is_written_down_and_shown(name: str) -> None:
    written = {key: value for key, value in read_configs({name: "7"}).configs.items() if value is not None}
    assert written == {name: "7"}
    topic = Topic(1, "t", 1, KAFKA)
    shown = {each.name: each for each in shown_configs(topic, written, None, 1, 1000)}
    assert (shown[name].value, shown[name].is_default) == ("7", False)
