"""Metadata, DescribeCluster, DescribeTopicPartitions, DescribeConfigs, ApiVersions: what we are."""

from collections.abc import Iterator
from typing import Any

import pytest

from capture.log.writer import SEGMENT_BYTES
from gateway.topics.lookup import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import UNKNOWN_OPERATIONS, MetadataRequest, MetadataRequestTopic
from tests.support.in_process import InProcessGateway


@pytest.fixture(scope="module")
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        service.topic("b.orders", partitions=3, config={"retention.ms": "60000"})
        service.topic("a.customers")
        service.topic("__internal", partitions=2)
        yield service


def metadata(service: InProcessGateway, version: int, topics: Any, **fields: Any) -> Any:
    with service.client() as client:
        return client.ask(MetadataRequest(topics=topics, **fields), version)


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(service: InProcessGateway, version: int) -> None:
    everything = metadata(service, version, [] if version == 0 else None)
    assert {topic.name for topic in everything.topics} == {"b.orders", "a.customers", "__internal"}
    [broker] = everything.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, *service.address)
    if version >= 1:
        assert everything.controller_id == 1
        assert metadata(service, version, []).topics == []
        assert not any(topic.is_internal for topic in everything.topics)
    if version >= 2:
        assert len(everything.cluster_id) == 22
    named = metadata(service, version, [MetadataRequestTopic(name="b.orders")])
    [topic] = named.topics
    assert [found.partition_index for found in topic.partitions] == [0, 1, 2]
    for found in topic.partitions:
        assert (found.leader_id, found.replica_nodes, found.isr_nodes) == (1, [1], [1])
        assert found.leader_epoch == (0 if version >= 7 else -1)
        assert (found.error_code, found.offline_replicas) == (0, [])


def test_metadata_keeps_the_order_and_drops_doubles(service: InProcessGateway) -> None:
    names = ["b.orders", "nobody", "a.customers", "b.orders", "not legal!", ""]
    found = metadata(service, 9, [MetadataRequestTopic(name=name) for name in names]).topics
    assert [(topic.name, topic.error_code) for topic in found] == [
        ("b.orders", 0),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a.customers", 0),
        ("not legal!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_metadata_tells_what_may_be_done_if_asked(service: InProcessGateway) -> None:
    plain = metadata(service, 8, None)
    assert plain.cluster_authorized_operations == UNKNOWN_OPERATIONS
    assert {topic.topic_authorized_operations for topic in plain.topics} == {UNKNOWN_OPERATIONS}
    asked = metadata(
        service,
        8,
        None,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert asked.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert {topic.topic_authorized_operations for topic in asked.topics} == {TOPIC_OPERATIONS}


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(service: InProcessGateway, version: int) -> None:
    with service.client() as client:
        answer = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
        assert (answer.error_code, answer.controller_id, len(answer.cluster_id)) == (0, 1, 22)
        assert [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers] == [
            (1, *service.address)
        ]
        assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
        if version >= 1:
            controllers = client.ask(DescribeClusterRequest(endpoint_type=2), version)
            assert controllers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            assert controllers.brokers == []


def pages(
    service: InProcessGateway, names: list[str], limit: int
) -> list[list[tuple[str | None, list[int]]]]:
    found = []
    cursor: Cursor | None = None
    with service.client() as client:
        for _ in range(20):
            answer = client.ask(
                DescribeTopicPartitionsRequest(
                    topics=[TopicRequest(name=name) for name in names],
                    response_partition_limit=limit,
                    cursor=cursor,
                ),
                0,
            )
            found.append(
                [(topic.name, [one.partition_index for one in topic.partitions]) for topic in answer.topics]
            )
            cursor = answer.next_cursor
            if cursor is None:
                return found
    raise AssertionError("the pages do not end")


def test_describe_topic_partitions_page_by_page(service: InProcessGateway) -> None:
    everything = [("__internal", [0, 1]), ("a.customers", [0]), ("b.orders", [0, 1, 2])]
    assert pages(service, [], 2000) == [everything]
    assert pages(service, ["b.orders", "a.customers", "b.orders"], 2000) == [everything[1:]]
    for limit in (1, 2, 3, 4, 5, 6):
        merged: dict[str | None, list[int]] = {}
        for page in pages(service, [], limit):
            assert sum(len(indexes) for _, indexes in page) <= limit
            for name, indexes in page:
                merged[name] = merged.get(name, []) + indexes
        assert list(merged.items()) == everything, limit


def test_describe_topic_partitions_of_unknown_topics(service: InProcessGateway) -> None:
    with service.client() as client:
        asked = [TopicRequest(name="nobody"), TopicRequest(name="b.orders"), TopicRequest(name="/")]
        topics = client.ask(DescribeTopicPartitionsRequest(topics=asked), 0).topics
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("/", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b.orders", 0),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def configs(service: InProcessGateway, kind: int, name: str, version: int = 4, **fields: Any) -> Any:
    keys = fields.pop("keys", None)
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    with service.client() as client:
        [result] = client.ask(DescribeConfigsRequest(resources=[resource], **fields), version).results
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_topic_configs_are_those_in_force(service: InProcessGateway, version: int) -> None:
    result = configs(service, TOPIC_RESOURCE, "b.orders", version, include_synonyms=True)
    found = {entry.name: entry for entry in result.configs}
    assert found["retention.ms"].value == "60000"
    assert found["retention.ms"].config_source == 1
    assert found["retention.bytes"].value == "-1"
    assert found["retention.bytes"].config_source == 5
    assert found["segment.bytes"].value == str(SEGMENT_BYTES)
    assert found["cleanup.policy"].value == "delete"
    assert [synonym.value for synonym in found["retention.ms"].synonyms] == ["60000"]
    assert all(entry.read_only and not entry.is_sensitive for entry in result.configs)


def test_some_configs_by_name_and_documented(service: InProcessGateway) -> None:
    result = configs(
        service, TOPIC_RESOURCE, "b.orders", keys=["retention.ms", "unheard.of"], include_documentation=True
    )
    assert [(entry.name, entry.synonyms) for entry in result.configs] == [("retention.ms", [])]
    assert result.configs[0].documentation


def test_broker_configs(service: InProcessGateway) -> None:
    found = {entry.name: entry.value for entry in configs(service, BROKER_RESOURCE, "1").configs}
    assert found["advertised.listeners"] == f"PLAINTEXT://{service.bootstrap}"
    assert found["auto.create.topics.enable"] == "false"
    assert found["node.id"] == "1"
    assert configs(service, BROKER_RESOURCE, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC_RESOURCE, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER_RESOURCE, "2", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.NONE),
        (32, "group", ErrorCode.NONE),
    ],
)
def test_configs_of_other_resources(service: InProcessGateway, kind: int, name: str, code: ErrorCode) -> None:
    result = configs(service, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert bool(result.error_message) is bool(code)


@pytest.mark.parametrize("version", range(6))
def test_api_versions_in_every_version(service: InProcessGateway, version: int) -> None:
    with service.client() as client:
        asked = ApiVersionsRequest(client_software_name="franz-go", client_software_version="1.22")
        answer = client.ask(asked, version)
        assert answer.error_code == 0
        assert {api.api_key for api in answer.api_keys} >= {0, 1, 2, 3, 18}


def test_api_versions_of_clients_that_err(service: InProcessGateway) -> None:
    with service.client() as client:
        nameless = ApiVersionsRequest(client_software_name="", client_software_version="1")
        assert client.ask(nameless, 3).error_code == ErrorCode.INVALID_REQUEST
        known = {"client_software_name": "java", "client_software_version": "4.4"}
        cluster_id = service.gateway._context().cluster_id
        assert client.ask(ApiVersionsRequest(**known, cluster_id=cluster_id, node_id=1), 5).error_code == 0
        for wrong in ({"cluster_id": "another"}, {"node_id": 2}):
            answer = client.ask(ApiVersionsRequest(**known, **wrong), 5)
            assert answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_granted(service: InProcessGateway, version: int) -> None:
    with service.client() as client:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answers = [client.ask(asked, version) for _ in range(2)]
    assert [answer.error_code for answer in answers] == [0, 0]
    assert all(answer.producer_id >= 0 for answer in answers)
