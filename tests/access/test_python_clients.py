"""aiokafka and kafka-python, unmodified, at `penstock serve`: SASL_SSL, and what they may not do."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.errors
import pytest

from tests.access.house import PASSWORD, House, token

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its own files in an old way
    import kafka
    import kafka.errors
    import kafka.net.sasl.oauth

SECONDS = 30


class AsyncTokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]  # it brings no types
    """Gives aiokafka a token."""

    async def token(self) -> str:
        return token()


class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]  # it brings no types
    """Gives kafka-python a token."""

    def token(self) -> str:
        return token()


PASSWORDS = {"sasl_plain_username": "ana", "sasl_plain_password": PASSWORD}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def settings(house: House, address: str, mechanism: str, tokens: Any) -> dict[str, Any]:
    shown = {"sasl_oauth_token_provider": tokens} if mechanism == "OAUTHBEARER" else PASSWORDS
    return {
        "bootstrap_servers": address.replace("127.0.0.1", "localhost"),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "ssl_context": house.context(),
        **shown,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_writes_and_reads_what_it_may(mechanism: str, house: House, address: str) -> None:
    given = settings(house, address, mechanism, AsyncTokens())

    async def story() -> tuple[bytes, str]:
        async with aiokafka.AIOKafkaProducer(**given) as producer:
            sent = await producer.send_and_wait("orders", mechanism.encode())
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError) as refused:
                await producer.send_and_wait("payroll", b"x")
        async with aiokafka.AIOKafkaConsumer(**given) as consumer:
            place = aiokafka.TopicPartition("orders", 0)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            found = await consumer.getone()
        return found.value, type(refused.value).__name__

    assert asyncio.run(asyncio.wait_for(story(), SECONDS))[0] == mechanism.encode()


@contextmanager
def closing(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_writes_and_reads_what_it_may(mechanism: str, house: House, address: str) -> None:
    given = settings(house, address, mechanism, Tokens())
    with closing(kafka.KafkaProducer(**given)) as producer:
        sent = producer.send("orders", mechanism.encode()).get(SECONDS)
        with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
            producer.send("payroll", b"x").get(SECONDS)
    with closing(kafka.KafkaConsumer(**given, consumer_timeout_ms=SECONDS * 1000)) as consumer:
        place = kafka.TopicPartition("orders", 0)
        consumer.assign([place])
        consumer.seek(place, sent.offset)
        assert next(consumer).value == mechanism.encode()
