"""confluent-kafka by subscribe(), values also decoded by its own AvroDeserializer where a registry is given.

python confluent_subscribe.py BOOTSTRAP REGISTRY_URL|- TOPIC…
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext


def main(bootstrap: str, registry_url: str, topics: list[str]) -> None:
    deserialize = None
    if registry_url != "-":
        deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "confluent-subscribe", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(topics)
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise SystemExit(str(message.error()))
        if deserialize is not None and message.value() is not None:
            change = deserialize(
                message.value(), SerializationContext(message.topic() or "", MessageField.VALUE)
            )
            assert change["op"] in ("r", "c", "u", "d"), change["op"]
        key, value = (part and part.hex() for part in (message.key(), message.value()))
        print(json.dumps([message.topic(), message.partition(), message.offset(), key, value]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
