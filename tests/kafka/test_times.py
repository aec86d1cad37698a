"""Records that say no time: they have that of their arrival, by which retention goes."""

import time

import pytest

from penstock.wire.kafka.apis.records import PRODUCE
from penstock.wire.kafka.record_batch import NO_TIME_MS, Compression
from penstock.wire.kafka.records import KafkaRecord, encode_records
from tests.kafka.raw import RawClient
from tests.kafka.served import Served


def sent(client: RawClient, records: bytes) -> int:
    asked = {
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
    }
    (topic,) = client.ask(PRODUCE, asked, 7)["responses"]
    (answer,) = topic["partition_responses"]
    number: int = answer["error_code"]
    return number


def a_batch(*times: int, codec: Compression = Compression.NONE) -> bytes:
    records = [KafkaRecord(each, ms, None, b"%d" % ms, []) for each, ms in enumerate(times)]
    return bytes(encode_records(records, codec=codec))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_a_record_without_a_time_has_that_of_its_arrival(served: Served, codec: Compression) -> None:
    served.topic("t", 1)
    before = time.time() * 1000
    with RawClient(served.address) as client:
        assert sent(client, a_batch(NO_TIME_MS, NO_TIME_MS, codec=codec)) == 0
        assert sent(client, a_batch(5, codec=codec) + a_batch(NO_TIME_MS, codec=codec)) == 0
    first, second, dated, last = (each.timestamp_ms for each in served.store.log.read("t", 0))
    assert before - 1 <= first == second <= last <= time.time() * 1000
    assert dated == 5
