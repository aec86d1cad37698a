"""The configs of topics: what is refused is told what it must be."""

import pytest

from penstock.broker.topic_configs import read_configs
from penstock.errors import InvalidConfig


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("retention.ms", "-5", "a whole number of 0 or more, or -1 for no limit"),
        ("retention.bytes", "-5", "a whole number above 0, or -1 for no limit"),
        ("retention.bytes", "0", "a whole number above 0, or -1 for no limit"),
        ("delete.retention.ms", "-5", "a whole number of 0 or more"),
        ("max.message.bytes", "-5", "a whole number of 0 or more"),
        ("retention.ms", str(1 << 63), "a whole number of 64 bits"),
        ("retention.ms", "week", "a whole number"),
    ],
)
def test_a_number_that_is_refused_is_told_what_it_must_be(name: str, value: str, wanted: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_configs({name: value})
    assert str(caught.value) == f"{name}={value!r}: it must be {wanted}"
