"""The Java consumer and Kafka's console consumer, unchanged and in their defaults, read every change."""

from __future__ import annotations

import pytest

from tests.support.clients import runners
from tests.support.live import LiveShop


@pytest.mark.parametrize("how", ["assign", "subscribe"])
def test_java_consumer_and_confluents_deserializer(avro_shop: LiveShop, how: str) -> None:
    service = avro_shop.service
    with runners.java_client(service.kafka, service.registry_url, how, avro_shop.topics) as client:
        avro_shop.judge(client)


def test_console_consumer(json_shop: LiveShop) -> None:
    topic = json_shop.service.topic("orders")
    with runners.console_consumer(json_shop.service.kafka, topic) as client:
        json_shop.judge(client, topics=[topic])
