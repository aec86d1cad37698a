"""Decoding and encoding in steps: the same values and refusals as at once, and few elements in each step."""

import random
from itertools import islice

import pytest

from penstock.errors import InvalidRequest
from penstock.wire.kafka.apis.cluster import FIND_COORDINATOR
from penstock.wire.kafka.apis.groups import OFFSET_FETCH
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.layout import Api
from penstock.wire.kafka.stepwise import decode_request, encode_answer

from .samples import a_message, drained
from .test_layout import each_version


@each_version
def test_steps_give_the_same_as_all_at_once(api: Api, version: int) -> None:
    for seed in range(5):
        data = api.encode_request(a_message(api.request, version, seed), version)
        assert drained(decode_request(api, data, version)) == api.decode_request(data, version)
        said = a_message(api.answer, version, seed)
        assert drained(encode_answer(api, said, version)) == api.encode_answer(said, version)


@each_version
def test_steps_refuse_the_same_as_all_at_once(api: Api, version: int) -> None:
    draw = random.Random(version)
    whole = api.encode_request(a_message(api.request, version, 2), version)
    for _ in range(40):
        bad = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            if bad:
                bad[draw.randrange(len(bad))] = draw.randrange(256)
        try:
            at_once: object = api.decode_request(bad, version)
        except InvalidRequest as exc:
            at_once = str(exc)
        try:
            found: object = drained(decode_request(api, bad, version))
        except InvalidRequest as exc:
            found = str(exc)
        assert found == at_once


def test_a_long_list_takes_many_steps_however_deep_it_is() -> None:
    names = [f"n{each}" for each in range(10_000)]
    places = [{"name": "t", "partition_indexes": list(range(10_000))}]
    for api, version, asked in (
        (METADATA, 9, {"topics": [{"name": each} for each in names]}),
        (FIND_COORDINATOR, 4, {"coordinator_keys": names}),
        (OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": places}]}),
    ):
        steps = decode_request(api, api.encode_request(asked, version), version)
        assert len(list(islice(steps, 500))) == 500
    answer = {"topics": [{"name": each, "partitions": ()} for each in names]}
    assert len(list(islice(encode_answer(METADATA, answer, 9), 500))) == 500


@pytest.mark.parametrize("version", [8, 9])
def test_a_name_that_no_thing_can_have_is_refused_before_anything_else(version: int) -> None:
    longest = {"topics": [{"name": "x" * 0x7FFF}]}
    assert METADATA.decode_request(METADATA.encode_request(longest, version), version)["topics"]
    if version == 9:  # in earlier versions a string cannot be longer
        data = METADATA.encode_request({"topics": [{"name": "x" * 0x8000}]}, version)
        with pytest.raises(InvalidRequest, match="name has 32768 bytes"):
            METADATA.decode_request(data, version)


def test_more_tagged_fields_than_anything_has_are_refused() -> None:
    """They are read in one step, wherever they stand."""
    tags = b"\x65" + b"\x07\x00" * 101
    for body in (b"\x01\x00\x00\x00" + tags, b"\x02\x02t" + tags + b"\x00\x00\x00\x00"):
        with pytest.raises(InvalidRequest, match="101 tagged fields"):
            METADATA.decode_request(body, 9)
        with pytest.raises(InvalidRequest, match="101 tagged fields"):
            drained(decode_request(METADATA, body, 9))
