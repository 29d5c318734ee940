"""kafka-python in a group: python kafka_python_subscribe.py BOOTSTRAP TOPIC…"""

from __future__ import annotations

import json
import sys

from kafka import KafkaConsumer


def main(bootstrap: str, topics: list[str]) -> None:
    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        group_id="kafka-python-subscribe",
        auto_offset_reset="earliest",
    )
    for record in consumer:
        key, value = (part and part.hex() for part in (record.key, record.value))
        print(json.dumps([record.topic, record.partition, record.offset, key, value]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
