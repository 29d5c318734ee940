"""Kafka's own shell tools, unchanged, against the gateway; what they print is what they print of a broker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import consume
from tests.support.clients import runners
from tests.support.jars import class_path, java, kafka_jars
from tests.support.live import LiveShop


def tool(name: str, *arguments: str, given: str = "", timeout_s: float = 60) -> tuple[int, str]:
    """Run a tool; its exit code and what it printed."""
    command = [java(), *runners.JAVA_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", class_path(kafka_jars()), f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def at(avro_shop: LiveShop) -> list[str]:
    return ["--bootstrap-server", avro_shop.service.kafka]


def test_kafka_topics_list(avro_shop: LiveShop, at: list[str]) -> None:
    code, text = tool("TopicCommand", *at, "--list")
    assert code == 0, text
    assert set(avro_shop.topics) <= set(text.split())


def test_kafka_topics_describe(avro_shop: LiveShop, at: list[str]) -> None:
    topic = avro_shop.service.topic("orders")
    code, text = tool("TopicCommand", *at, "--describe", "--topic", topic)
    assert code == 0, text
    assert re.search(rf"Topic: {re.escape(topic)}\s+TopicId: \S+\s+PartitionCount: 1", text), text
    assert re.search(r"Partition: 0\s+Leader: \d+", text), text


def test_kafka_topics_create_is_refused(at: list[str]) -> None:
    code, text = tool("TopicCommand", *at, "--create", "--topic", "new", "--partitions", "1")
    assert code != 0, text


@pytest.mark.parametrize("when", ["earliest", "latest", "max-timestamp", "1000"])
def test_kafka_get_offsets(avro_shop: LiveShop, at: list[str], when: str) -> None:
    topic = avro_shop.service.topic("ledger")
    end = consume.ends(avro_shop.service.kafka, [topic])[topic]
    code, text = tool("GetOffsetShell", *at, "--topic", topic, "--time", when)
    assert code == 0, text
    found = int(text.strip().rsplit(":", 1)[1])
    match when:
        case "latest":
            assert found == end
        case "max-timestamp":
            assert 0 <= found < end
        case _:
            assert found == 0


def test_kafka_consumer_groups(avro_shop: LiveShop, at: list[str]) -> None:
    """A group that kcat-like clients left behind: listed, described with its lag, and gone when deleted."""
    topic = avro_shop.service.topic("orders")
    end = consume.ends(avro_shop.service.kafka, [topic])[topic]
    code, text = tool(
        "consumer.ConsoleConsumer", *at, "--topic", topic, "--group", "tools", "--from-beginning",
        "--max-messages", str(end),
    )  # fmt: skip
    assert code == 0, text[-2000:]
    code, text = tool("consumer.group.ConsumerGroupCommand", *at, "--list")
    assert code == 0, text
    assert "tools" in text.split()
    code, text = tool("consumer.group.ConsumerGroupCommand", *at, "--describe", "--group", "tools")
    assert code == 0, text
    assert re.search(rf"tools\s+{re.escape(topic)}\s+0\s+{end}\s+{end}\s+0", text), text
    code, text = tool("consumer.group.ConsumerGroupCommand", *at, "--describe", "--group", "tools", "--state")
    assert code == 0, text
    assert "Empty" in text


def test_kafka_consumer_perf_test(avro_shop: LiveShop, at: list[str]) -> None:
    topic = avro_shop.service.topic("ledger")
    end = consume.ends(avro_shop.service.kafka, [topic])[topic]
    code, text = tool("ConsumerPerformance", *at, "--topic", topic, "--num-records", str(end))
    assert code == 0, text
    assert f" {end}," in text, text


def test_kafka_broker_api_versions(at: list[str]) -> None:
    code, text = tool("BrokerApiVersionsCommand", *at)
    assert code == 0, text
    assert re.search(r"Fetch\(1\): 4 to 1\d", text), text


def test_kafka_cluster_id(at: list[str]) -> None:
    code, text = tool("ClusterTool", "cluster-id", *at)
    assert code == 0, text
    assert re.search(r"Cluster ID: \S+", text), text


def test_kafka_console_producer_is_told_why_not(avro_shop: LiveShop, at: list[str], tmp_path: Path) -> None:
    topic = avro_shop.service.topic("orders")
    _, text = tool("ConsoleProducer", *at, "--topic", topic, given="a line\n")
    assert "POLICY_VIOLATION" in text or "PolicyViolation" in text, text
    assert "read-only" in text.lower() or "read only" in text.lower(), text
