"""confluent-kafka by assign(): python confluent_assign.py BOOTSTRAP TOPIC…"""

from __future__ import annotations

import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def main(bootstrap: str, topics: list[str]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "confluent-assign"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise SystemExit(str(message.error()))
        key, value = (part and part.hex() for part in (message.key(), message.value()))
        print(json.dumps([message.topic(), message.partition(), message.offset(), key, value]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
