"""Prints the changes of a topic, decoded by confluent-kafka's own Avro deserializer."""

import argparse
import json

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--kafka", default="127.0.0.1:9092")
parser.add_argument("--registry", default="http://127.0.0.1:8081")
parser.add_argument("--topic", default="shop.public.orders")
parser.add_argument("--group", default="example-python")
parser.add_argument("--until-end", action="store_true", help="stop at the end of the topic")
arguments = parser.parse_args()

deserialize = AvroDeserializer(SchemaRegistryClient({"url": arguments.registry}))
consumer = Consumer(
    {
        "bootstrap.servers": arguments.kafka,
        "group.id": arguments.group,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": arguments.until_end,
    }
)
consumer.subscribe([arguments.topic])
try:
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        if error is not None:
            raise KafkaException(error)
        key = deserialize(message.key(), SerializationContext(message.topic(), MessageField.KEY))
        change = deserialize(message.value(), SerializationContext(message.topic(), MessageField.VALUE))
        operation = "tombstone" if change is None else change["op"]
        row = None if change is None else change["after"]
        print(message.offset(), operation, json.dumps(key, default=str), json.dumps(row, default=str))
except KeyboardInterrupt:
    pass
finally:
    consumer.close()
