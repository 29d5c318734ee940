"""kafka-python by assign(), without a group: python kafka_python_assign.py BOOTSTRAP TOPIC…"""

from __future__ import annotations

import json
import sys

from kafka import KafkaConsumer, TopicPartition


def main(bootstrap: str, topics: list[str]) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0) for topic in topics])
    consumer.seek_to_beginning()
    for record in consumer:
        key, value = (part and part.hex() for part in (record.key, record.value))
        print(json.dumps([record.topic, record.partition, record.offset, key, value]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
