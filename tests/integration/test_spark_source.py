"""Spark 4.2's Kafka source, batch and streaming, with from_avro: what it decodes folds into the tables."""

from __future__ import annotations

from tests.support import consume
from tests.support.clients import runners
from tests.support.live import LiveShop


def test_batch(avro_shop: LiveShop) -> None:
    expected = avro_shop.settle()
    service = avro_shop.service
    with runners.spark("batch", service.kafka, service.registry_url, avro_shop.topics) as client:
        found = client.wait(sum(map(len, expected.values())), timeout_s=120)
    avro_shop.compare(expected, found)
    folds = avro_shop.folded(expected, runners.decoded(client.output()).__getitem__)
    assert avro_shop.differences(folds) == []


def test_streaming(avro_shop: LiveShop) -> None:
    service = avro_shop.service
    with runners.spark("stream", service.kafka, service.registry_url, avro_shop.topics) as client:
        client.wait(sum(consume.ends(service.kafka, avro_shop.topics).values()), timeout_s=120)
        avro_shop.judge(client)
        decode = runners.decoded(client.output()).__getitem__
    folds = avro_shop.folded(consume.read(service.kafka, avro_shop.topics), decode)
    assert avro_shop.differences(folds) == []
