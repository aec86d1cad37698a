"""Kafka's messages: decode undoes encode, other programs read the same, and bad bytes raise one error."""

import importlib
import pkgutil
import random
from functools import cache
from typing import Any

import pytest

from penstock.errors import InvalidRequest
from penstock.wire.kafka.apis import APIS
from penstock.wire.kafka.apis.cluster import API_VERSIONS
from penstock.wire.kafka.apis.records import FETCH, PRODUCE
from penstock.wire.kafka.apis.topics import METADATA
from penstock.wire.kafka.hot import (
    AnsweredPart,
    FetchedPart,
    decode_fetch,
    decode_produce,
    encode_fetched,
    encode_produced,
)
from penstock.wire.kafka.layout import Api, Message
from penstock.wire.kafka.stepwise import encode_element
from tests.unit.wire.kafka.samples import a_message, drained

VERSIONS = [(api, version) for api in APIS.values() for version in range(api.versions[0], api.versions[1] + 1)]
each_version = pytest.mark.parametrize(
    ("api", "version"), VERSIONS, ids=[f"{api.name}-{version}" for api, version in VERSIONS]
)


def without_absent(found: Any, said: Any) -> Any:
    """Return what was decoded, cut down to the fields that were said."""
    if isinstance(said, dict):
        return {name: without_absent(found[name], value) for name, value in said.items()}
    if isinstance(said, list):
        assert len(found) == len(said)
        return [without_absent(*each) for each in zip(found, said, strict=True)]
    return bytes(found) if isinstance(found, memoryview) else found


@each_version
def test_decoding_undoes_encoding(api: Api, version: int) -> None:
    for seed in range(5):
        said = a_message(api.request, version, seed)
        found = api.decode_request(api.encode_request(said, version), version)
        assert without_absent(found, said) == said
        said = a_message(api.answer, version, seed)
        found = api.decode_answer(api.encode_answer(said, version), version)
        assert without_absent(found, said) == said


@cache
def kafka_python() -> dict[str, Any]:
    """Return the messages of another implementation, made from Apache Kafka's own definitions."""
    package = importlib.import_module("kafka.protocol")
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate" not in module.name:
            found |= vars(importlib.import_module(module.name))
    return found


@each_version
def test_another_implementation_reads_and_writes_the_same_bytes(api: Api, version: int) -> None:
    pytest.importorskip("kafka", reason="pip install kafka-python")
    for side, fields, encode in (
        ("Request", api.request, api.encode_request),
        ("Response", api.answer, api.encode_answer),
    ):
        theirs = kafka_python()[f"{api.name}{side}"]
        if not theirs.min_version <= version <= theirs.max_version:
            continue
        for seed in range(5):
            said = a_message(fields, version, seed)
            if api is API_VERSIONS and side == "Response":
                # With an error they read it as version 0, as every client must; features we do not send.
                said = {"error_code": 0, "api_keys": said["api_keys"]}
            ours = encode(said, version)
            read = theirs.decode(ours, version=version)
            read._header = None  # it has none of its own when it was read without one
            assert bytes(read.encode(version=version)) == ours


@each_version
def test_what_is_cut_short_is_refused(api: Api, version: int) -> None:
    whole = api.encode_request(a_message(api.request, version, 1), version)
    for length in range(len(whole)):
        with pytest.raises(InvalidRequest):
            api.decode_request(whole[:length], version)


@each_version
def test_random_bytes_raise_nothing_but_a_refusal(api: Api, version: int) -> None:
    draw = random.Random(version)
    whole = bytearray(api.encode_request(a_message(api.request, version, 2), version))
    for _ in range(60):
        bad = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            if bad:
                bad[draw.randrange(len(bad))] = draw.randrange(256)
        try:
            api.decode_request(bad, version)
            if api is PRODUCE:
                drained(decode_produce(bad, version))
            if api is FETCH:
                drained(decode_fetch(bad, version))
        except InvalidRequest:
            pass


def test_a_small_message_cannot_promise_very_many_elements() -> None:
    with pytest.raises(InvalidRequest, match="elements"):
        METADATA.decode_request(b"\x7f\xff\xff\xff" + b"\0" * 100, 8)
    many = b"\x00\x10\x00\x00" + b"\0\0" * (1 << 20)
    with pytest.raises(InvalidRequest, match="elements"):
        METADATA.decode_request(many, 8)


def test_an_element_encoded_before_stands_in_the_answer_as_if_encoded_with_it() -> None:
    for version in range(13):
        said = a_message(METADATA.answer, version, 3)
        pieces = [drained(encode_element(METADATA, "topics", each, version)) for each in said["topics"]]
        assert METADATA.encode_answer(said | {"topics": pieces}, version) == METADATA.encode_answer(said, version)


# -- by hand, and by the tables


@pytest.mark.parametrize("version", range(11))
def test_produce_by_hand_is_produce_by_the_table(version: int) -> None:
    for seed in range(30):
        data = PRODUCE.encode_request(a_message(PRODUCE.request, version, seed), version)
        told, found = PRODUCE.decode_request(data, version), drained(decode_produce(data, version))
        assert (found.transactional_id, found.acks) == (told["transactional_id"], told["acks"])
        assert list(map(tuple, found.parts)) == [
            (topic["name"], part["index"], part["records"])
            for topic in told["topic_data"]
            for part in topic["partition_data"]
        ]
        topics = [("a", [AnsweredPart(3, 0, 5, 6, 7, None)]), ("b" * 200, [AnsweredPart(1, 87, message="no")])]
        answer = {"throttle_time_ms": 9, "responses": [_produced(*each) for each in topics]}
        assert drained(encode_produced(topics, version, 9)) == PRODUCE.encode_answer(answer, version)


@pytest.mark.parametrize("version", range(3, 11))
@pytest.mark.parametrize("counts", [(1,), (2,), (0,), (), (1, 1), (2, 3)])
def test_few_partitions_are_read_as_many_are(version: int, counts: tuple[int, ...]) -> None:
    """What most producers send, one partition and no transaction, has a way of its own."""
    asked = {
        "acks": -1,
        "timeout_ms": 5,
        "topic_data": [
            {"name": f"té{at}", "partition_data": [{"index": n, "records": b"abc" * n} for n in range(count)]}
            for at, count in enumerate(counts)
        ],
    }
    data = PRODUCE.encode_request(asked, version)
    found = drained(decode_produce(b"head" + data, version, 4))
    assert (found.transactional_id, found.acks) == (None, -1)
    expected = [(f"té{at}", n, b"abc" * n) for at, count in enumerate(counts) for n in range(count)]
    assert [(each.topic, each.partition, bytes(each.records or b"")) for each in found.parts] == expected
    for length in range(len(data)):
        with pytest.raises(InvalidRequest):
            drained(decode_produce(data[:length], version))


def _produced(name: str, parts: list[AnsweredPart]) -> Message:
    return {
        "name": name,
        "partition_responses": [
            {
                "index": part.partition,
                "error_code": part.error,
                "base_offset": part.base_offset,
                "log_append_time_ms": part.append_ms,
                "log_start_offset": part.start,
                "error_message": part.message,
            }
            for part in parts
        ],
    }


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_by_hand_is_fetch_by_the_table(version: int) -> None:
    names = ("partition", "current_leader_epoch", "fetch_offset", "partition_max_bytes")
    for seed in range(30):
        said = a_message(FETCH.request, version, seed)
        data = FETCH.encode_request(said, version)
        told, found = FETCH.decode_request(data, version), drained(decode_fetch(data, version))
        assert found.parts == [
            (topic["topic"], *(each[name] for name in names))
            for topic in told["topics"]
            for each in topic["partitions"]
        ]
        assert (found.max_wait_ms, found.min_bytes, found.max_bytes) == (
            told["max_wait_ms"],
            told["min_bytes"],
            told["max_bytes"],
        )
        assert (found.session_id, found.session_epoch) == (told["session_id"], told["session_epoch"])
    parts = [
        FetchedPart("a", 1, 0, 10, 9, 2, [(7, 8)], [b"abc", b"defg"]),
        FetchedPart("a", 2, 3),
        FetchedPart("a", 3, 0, 5, 5, 0, ()),
    ]
    fetched = {"throttle_time_ms": 4, "responses": [{"topic": "a", "partitions": [_fetched(each) for each in parts]}]}
    assert b"".join(drained(encode_fetched([("a", parts)], version, throttle_ms=4))) == FETCH.encode_answer(
        fetched, version
    )


def _fetched(part: FetchedPart) -> Message:
    return {
        "partition_index": part.partition,
        "error_code": part.error,
        "high_watermark": part.end,
        "last_stable_offset": part.stable,
        "log_start_offset": part.start,
        "aborted_transactions": None
        if part.aborted is None
        else [{"producer_id": id, "first_offset": first} for id, first in part.aborted],
        "records": b"".join(part.pieces),
    }
