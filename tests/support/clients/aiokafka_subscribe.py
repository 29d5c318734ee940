"""aiokafka in a group: python aiokafka_subscribe.py BOOTSTRAP TOPIC…"""

from __future__ import annotations

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer


async def main(bootstrap: str, topics: list[str]) -> None:
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap, group_id="aiokafka-subscribe", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        async for record in consumer:
            key, value = (part and part.hex() for part in (record.key, record.value))
            print(json.dumps([record.topic, record.partition, record.offset, key, value]), flush=True)
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
