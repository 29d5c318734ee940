"""Stock Python and C consumers, unchanged and in their defaults, each read every change."""

from __future__ import annotations

import pytest

from tests.support.clients import runners
from tests.support.live import LiveShop


def test_confluent_kafka_assign(avro_shop: LiveShop) -> None:
    with runners.python_client("confluent_assign.py", avro_shop.service.kafka, *avro_shop.topics) as client:
        avro_shop.judge(client)


def test_confluent_kafka_subscribe_and_its_avro_deserializer(avro_shop: LiveShop) -> None:
    service = avro_shop.service
    arguments = [service.kafka, service.registry_url, *avro_shop.topics]
    with runners.python_client("confluent_subscribe.py", *arguments) as client:
        avro_shop.judge(client)


def test_aiokafka_subscribe(avro_shop: LiveShop) -> None:
    with runners.python_client("aiokafka_subscribe.py", avro_shop.service.kafka, *avro_shop.topics) as client:
        avro_shop.judge(client)


@pytest.mark.parametrize("how", ["assign", "subscribe"])
def test_kafka_python(avro_shop: LiveShop, how: str) -> None:
    script = f"kafka_python_{how}.py"
    with runners.python_client(script, avro_shop.service.kafka, *avro_shop.topics) as client:
        avro_shop.judge(client)


def test_kcat_as_a_group_member(avro_shop: LiveShop) -> None:
    with runners.kcat(avro_shop.service.kafka, avro_shop.topics, group="kcat") as client:
        avro_shop.judge(client)


def test_kcat_as_a_simple_consumer(avro_shop: LiveShop) -> None:
    topic = avro_shop.service.topic("ledger")
    with runners.kcat(avro_shop.service.kafka, [topic], group=None) as client:
        avro_shop.judge(client, topics=[topic])


def test_confluent_kafka_reads_json(json_shop: LiveShop) -> None:
    arguments = [json_shop.service.kafka, "-", *json_shop.topics]
    with runners.python_client("confluent_subscribe.py", *arguments) as client:
        json_shop.judge(client)
