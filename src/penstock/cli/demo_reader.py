"""The Kafka client of the demo: it knows nothing of Penstock, and reads the shop's topic."""

import asyncio

import aiokafka

_SECONDS = 60


def read_topic(address: str, topic: str, group: str) -> list[str]:
    """Read a topic from its first record to its end as a new group; return the keys in order."""
    return asyncio.run(asyncio.wait_for(_read(address, topic, group), _SECONDS))


async def _read(address: str, topic: str, group: str) -> list[str]:
    consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest")
    keys: list[str] = []
    await consumer.start()
    try:
        parts = [aiokafka.TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
        ends = await consumer.end_offsets(parts)
        places: dict[tuple[str, int], int] = {}
        while any(places.get((each.topic, each.partition), 0) < end for each, end in ends.items()):
            for part, records in (await consumer.getmany(timeout_ms=500)).items():
                keys += [record.key.decode() for record in records]
                places[part.topic, part.partition] = records[-1].offset + 1
        await consumer.commit()
    finally:
        await consumer.stop()
    return keys
