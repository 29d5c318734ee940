"""The traps that real clients set a broker, findings 1 to 6 of those collected, with frames and clients.

Groups, commits and the registry (7 to 10) are tested beside their own packages.
"""

import asyncio
import struct
import time
import uuid
import warnings
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import pytest

from gateway.topics import commits
from protocol.errors import ErrorCode
from protocol.header import API_VERSIONS_KEY
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import batches, check_crc, records
from protocol.schema import ZERO_UUID
from tests.support.in_process import InProcessGateway, RawClient

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a function that Python deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TOPIC = "shop.public.orders"


@pytest.fixture
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        yield service


def fetch(
    offset: int,
    *,
    topic_id: uuid.UUID = ZERO_UUID,
    wait_ms: int = 0,
    max_bytes: int = 52_428_800,
    partition_max_bytes: int = 1_048_576,
) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])],
    )


def only(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]


def values(data: PartitionData) -> list[bytes | None]:
    found = []
    view = memoryview(bytes(data.records or b""))
    for position, header in batches(view):
        batch = view[position : position + header.size_bytes]
        found += [record.value for record in records(batch)]
    return found


def confluent(service: InProcessGateway, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": service.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )


def poll(consumer: confluent_kafka.Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


# --- 1: Produce is advertised, or librdkafka never fetches, and refused so that producers give up -----------


def test_trap_01_produce_is_advertised_and_refused_with_a_sentence(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=b"any")])
        ],
    )
    with service.client() as client:
        versions = {api.api_key: api for api in client.ask(ApiVersionsRequest(), 0).api_keys}
        assert (versions[0].min_version, versions[0].max_version) == (0, 13)
        assert (
            client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4).error_code
            == 0
        )
        answer = client.ask(request, 9).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert answer.error_message is not None
        assert "read-only" in answer.error_message


def test_trap_01_produce_without_acknowledgement_closes_the_connection(service: InProcessGateway) -> None:
    with service.client() as client:
        client.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[]), 9)
        assert client.is_closed()


def test_trap_01_librdkafka_fetches_and_its_producer_gives_up(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    service.append(partition, [b"one", b"two"])
    consumer = confluent(service)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
    assert poll(consumer, 2) == [b"one", b"two"]
    consumer.close()

    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": service.bootstrap})
    producer.produce(TOPIC, b"value", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(10) == 0
    assert [error.code() for error in errors] == [ErrorCode.POLICY_VIOLATION]


def test_trap_01_kafka_python_is_told_why(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    producer = kafka.KafkaProducer(bootstrap_servers=service.bootstrap)
    with pytest.raises(kafka.errors.KafkaError, match="read-only"):
        producer.send(TOPIC, b"value").get(timeout=10)
    producer.close(timeout=5)


# --- 2: a topic is never unknown for a moment, and nothing goes back ---------------------------------------


def test_trap_02_topics_and_watermarks_survive_a_restart(service: InProcessGateway) -> None:
    partitions = service.topic(TOPIC, partitions=3)
    service.append(partitions[1], [b"one", b"two"])
    with InProcessGateway(service.data) as restarted, restarted.client() as client:
        topics = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9).topics
        assert [topic.error_code for topic in topics] == [0]
        assert [partition.partition_index for partition in topics[0].partitions] == [0, 1, 2]
        assert [partition.leader_epoch for partition in topics[0].partitions] == [0, 0, 0]
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(3)]
        latest = client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)]), 7)
        assert [partition.offset for partition in latest.topics[0].partitions] == [0, 2, 0]


def test_trap_02_a_catalog_that_does_not_answer_leaves_what_is_known(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    [partition] = service.topic(TOPIC)
    service.append(partition, [b"one"])

    def broken() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(service.gateway.reader, "catch_up", broken)
        service.call(service.gateway._watch._look)
        with service.client() as client:
            topics = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9).topics
            assert [(topic.error_code, len(topic.partitions)) for topic in topics] == [(0, 1)]
            assert values(only(client.ask(fetch(0), 11))) == [b"one"]
    service.call(service.gateway._watch._look)
    assert commits.SAFETY_INTERVAL_S <= 1


def test_trap_02_a_new_topic_is_known_at_once(service: InProcessGateway) -> None:
    service.log.catalog.create_topic("new.topic", capture="test")
    with service.client() as client:
        topics = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new.topic")]), 9).topics
        assert [(topic.error_code, len(topic.partitions)) for topic in topics] == [(0, 1)]


def test_trap_02_unknown_topics_are_an_error_and_never_created(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        asked = [MetadataRequestTopic(name="nobody"), MetadataRequestTopic(name=TOPIC)]
        response = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 9)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
        stranger = uuid.uuid4()
        by_id = client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=stranger, name=None)]), 12)
        assert [(topic.error_code, topic.topic_id) for topic in by_id.topics] == [
            (ErrorCode.UNKNOWN_TOPIC_ID, stranger)
        ]
        assert [topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics] == [TOPIC]


def test_trap_02_no_one_is_accepted_before_the_catalog_is_loaded(service: InProcessGateway) -> None:
    """The gateway binds its port early and accepts late: a client that comes in between waits."""
    service.topic(TOPIC)

    async def bound_only() -> tuple[str, int]:
        other = service.gateway._listener.__class__(
            service.gateway._listener._dispatcher, service.gateway._limits
        )
        port = await other.bind("127.0.0.1", 0)
        service.other = other  # type: ignore[attr-defined]  # kept for the next step of this test
        return "127.0.0.1", port

    address = service.run(bound_only())
    with pytest.raises(ConnectionRefusedError):
        RawClient(address)
    service.run(service.other.serve(service.gateway._context()))  # type: ignore[attr-defined]  # as above
    with RawClient(address) as client:
        assert len(client.ask(MetadataRequest(topics=None), 9).topics) == 1
    service.run(service.other.close())  # type: ignore[attr-defined]  # as above


# --- 3: topic ids are stable and never zero
# ------------------------------------------------------------------


def test_trap_03_topic_ids_are_the_same_after_a_restart(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    service.topic("__strange")
    ids = []
    for _ in range(2):
        with InProcessGateway(service.data) as restarted, restarted.client() as client:
            topics = client.ask(MetadataRequest(topics=None), 12).topics
            ids.append({topic.name: topic.topic_id for topic in topics})
            assert not any(topic.is_internal for topic in topics)
    assert ids[0] == ids[1]
    assert set(ids[0]) == {TOPIC, "__strange"}
    assert ZERO_UUID not in ids[0].values()


def test_trap_03_fetch_and_metadata_by_id(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    service.append(partition, [b"one"])
    with service.client() as client:
        by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=partition.topic_id, name=None)])
        assert [topic.name for topic in client.ask(by_id, 12).topics] == [TOPIC]
        assert values(only(client.ask(fetch(0, topic_id=partition.topic_id), 16))) == [b"one"]
        unknown = only(client.ask(fetch(0, topic_id=uuid.uuid4()), 16))
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


# --- 4: answers come in the order of the requests, and a parked fetch makes way
# -------------------------------


def test_trap_04_pipelined_requests_are_answered_in_order(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    service.append(partition, [b"one"])
    asked = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    with service.client() as client:
        frames = [
            client.frame(fetch(0), 11),
            client.frame(ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=asked)]), 7),
            client.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
            client.frame(MetadataRequest(topics=None), 9),
            client.frame(fetch(0), 4),
        ]
        client.socket.sendall(b"".join(frames))
        order = []
        for _ in frames:
            client.receive()
            order.append(client.last_correlation_id)
        assert order == [1, 2, 3, 4, 5]


def test_trap_04_a_parked_fetch_ends_early_when_the_connection_asks_something_else(
    service: InProcessGateway,
) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        started = time.monotonic()
        client.send(fetch(0, wait_ms=15_000), 11)
        service.until(lambda: len(service.gateway.parked) == 1)
        client.send(MetadataRequest(topics=None), 9)
        assert only(client.receive()).error_code == 0
        assert [topic.name for topic in client.receive().topics] == [TOPIC]
        assert time.monotonic() - started < 10
        assert service.gateway.metrics.parked_fetches == 0


def test_trap_04_in_one_piece_with_what_follows_it(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        started = time.monotonic()
        frames = client.frame(fetch(0, wait_ms=15_000), 11) + client.frame(MetadataRequest(topics=None), 9)
        client.socket.sendall(frames)
        client.receive()
        assert client.last_correlation_id == 1
        client.receive()
        assert time.monotonic() - started < 10


def test_trap_04_a_connection_that_goes_takes_its_parked_fetch_along(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    with service.client() as client:
        client.send(fetch(0, wait_ms=15_000), 11)
        service.until(lambda: len(service.gateway.parked) == 1)
    service.until(lambda: len(service.gateway.parked) == 0)
    service.append(partition, [b"one"])
    assert service.gateway.metrics.connections == 0


# --- 5: the first batch comes whole, however little was asked for
# -----------------------------------------------


def test_trap_05_the_first_batch_is_whole_above_every_limit(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    large = b"x" * 100_000
    service.append(partition, [large])
    service.append(partition, [b"small"])
    with service.client() as client:
        for limits in (
            {"partition_max_bytes": 1},
            {"max_bytes": 1},
            {"max_bytes": 1, "partition_max_bytes": 1},
        ):
            assert values(only(client.ask(fetch(0, **limits), 11))) == [large]


def test_trap_05_only_one_batch_of_a_response_may_be_too_large(service: InProcessGateway) -> None:
    first, second = service.topic(TOPIC, partitions=2)
    service.append(first, [b"x" * 50_000])
    service.append(second, [b"y" * 50_000])
    request = fetch(0, max_bytes=60_000, partition_max_bytes=1)
    request.topics[0].partitions.append(
        FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=100_000)
    )
    with service.client() as client:
        found = client.ask(request, 11).responses[0].partitions
        assert values(found[0]) == [b"x" * 50_000]
        assert values(found[1]) == []
        assert (found[1].error_code, found[1].high_watermark) == (0, 1)


def test_trap_05_clients_pass_a_batch_larger_than_they_ask_for(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    large = b"x" * 300_000
    service.append(partition, [large])
    service.append(partition, [b"after"])

    python = kafka.KafkaConsumer(
        bootstrap_servers=service.bootstrap, max_partition_fetch_bytes=1000, fetch_max_bytes=1000
    )
    python.assign([kafka.TopicPartition(TOPIC, 0)])
    python.seek_to_beginning()
    found: list[bytes] = []
    deadline = time.monotonic() + 15
    while len(found) < 2 and time.monotonic() < deadline:
        for batch in python.poll(timeout_ms=200).values():
            found += [record.value for record in batch]
    python.close()
    assert found == [large, b"after"]

    async def read() -> list[bytes | None]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=service.bootstrap, max_partition_fetch_bytes=1000, fetch_max_bytes=1000
        )
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            return [(await asyncio.wait_for(consumer.getone(), 15)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == [large, b"after"]

    librdkafka = confluent(service, **{"max.partition.fetch.bytes": 1000, "fetch.message.max.bytes": 1000})
    librdkafka.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    assert poll(librdkafka, 2) == [large, b"after"]
    librdkafka.close()


# --- 6: every batch's CRC32C is right as it arrives
# ---------------------------------------------------------------


def test_trap_06_checksums_hold_on_the_wire_and_clients_that_check_them_read(
    service: InProcessGateway,
) -> None:
    [partition] = service.topic(TOPIC)
    sent = [str(number).encode() * 100 for number in range(50)]
    for start in range(0, 50, 10):
        service.append(partition, sent[start : start + 10])
    with service.client() as client:
        data = only(client.ask(fetch(0), 12))
        view = memoryview(bytes(data.records or b""))
        positions = [position for position, _ in batches(view)]
        assert len(positions) == 5
        for position in positions:
            check_crc(view, position)

    librdkafka = confluent(service, **{"check.crcs": True})
    librdkafka.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    assert poll(librdkafka, 50) == sent
    librdkafka.close()

    python = kafka.KafkaConsumer(bootstrap_servers=service.bootstrap, check_crcs=True)
    python.assign([kafka.TopicPartition(TOPIC, 0)])
    python.seek_to_beginning()
    found: list[bytes] = []
    deadline = time.monotonic() + 15
    while len(found) < 50 and time.monotonic() < deadline:
        for batch in python.poll(timeout_ms=200).values():
            found += [record.value for record in batch]
    python.close()
    assert found == sent


# --- and what follows from the table of requests seen
# ---------------------------------------------------------------


def test_librdkafkas_malformed_request_for_all_topics(service: InProcessGateway) -> None:
    """librdkafka 2.3 to 2.16 write the null array of a flexible Metadata as four zero bytes."""
    service.topic(TOPIC)
    body = bytes.fromhex("00 00000000 01 00 00")
    header = struct.pack(">hhih", 3, 12, 7, 7) + b"rdkafka"
    frame = header + body
    with service.client() as client:
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        client._asked[7] = (MetadataResponse, 12)
        assert [topic.name for topic in client.receive().topics] == [TOPIC]
    consumer = confluent(service)
    assert list(consumer.list_topics(timeout=10).topics) == [TOPIC]
    consumer.close()


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(service: InProcessGateway) -> None:
    with service.client() as client:
        frame = struct.pack(">hhih", API_VERSIONS_KEY, 77, 5, -1) + b"\0whatever comes"
        client.socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = client.receive_frame()
        assert struct.unpack(">ihihhh", answer) == (
            5,
            ErrorCode.UNSUPPORTED_VERSION,
            1,
            API_VERSIONS_KEY,
            0,
            5,
        )
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
