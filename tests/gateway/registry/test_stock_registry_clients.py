"""Stock registry clients against the registry of a running gateway, in their defaults."""

import io
import json
import struct
from collections.abc import Iterator

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.gateway.registry.registry_client import KEY, VALUE, VALUE_2
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"


@pytest.fixture(scope="module")
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway(http=True) as service:
        service.log.schemas.register(f"{TOPIC}-key", KEY)
        service.log.schemas.register(f"{TOPIC}-value", VALUE)
        service.log.schemas.register(f"{TOPIC}-value", VALUE_2)
        yield service


@pytest.fixture
def client(service: InProcessGateway) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": f"http://{service.gateway.registry}"}) as client:
        yield client


def wire(schema_id: int, schema: str, value: object) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(json.loads(schema)), value)
    return struct.pack(">bi", 0, schema_id) + body.getvalue()


def test_the_avro_deserializer_reads_what_was_captured(client: SchemaRegistryClient) -> None:
    schema_id = client.get_latest_version(f"{TOPIC}-value").schema_id
    context = SerializationContext(TOPIC, MessageField.VALUE)
    change = {"before": None, "after": {"id": 7}}
    for deserializer in (AvroDeserializer(client), AvroDeserializer(client, VALUE_2)):
        assert deserializer(wire(schema_id, VALUE_2, change), context) == change


def test_the_client_reads_subjects_and_versions(client: SchemaRegistryClient) -> None:
    assert client.get_subjects() == [f"{TOPIC}-key", f"{TOPIC}-value"]
    assert client.get_versions(f"{TOPIC}-value") == [1, 2]
    first = client.get_version(f"{TOPIC}-value", 1)
    assert (first.version, first.schema.schema_str, first.schema.schema_type) == (1, VALUE, "AVRO")
    assert client.get_schema(first.schema_id).schema_str == VALUE
    looked_up = client.lookup_schema(f"{TOPIC}-value", Schema(VALUE, "AVRO"))
    assert (looked_up.version, looked_up.schema_id) == (1, first.schema_id)
    assert client.register_schema(f"{TOPIC}-value", Schema(VALUE, "AVRO")) == first.schema_id
    assert client.get_compatibility() == "NONE"
    assert client.test_compatibility(f"{TOPIC}-value", Schema(VALUE, "AVRO"))


def test_the_client_understands_refusals(client: SchemaRegistryClient) -> None:
    def code_of(call: object, *arguments: object) -> int:
        with pytest.raises(SchemaRegistryError) as caught:
            call(*arguments)  # type: ignore[operator]  # a bound method
        return int(caught.value.error_code)

    assert code_of(client.get_latest_version, "none") == 40401
    assert code_of(client.get_version, f"{TOPIC}-value", 9) == 40402
    assert code_of(client.get_schema, 999) == 40403
    assert code_of(client.register_schema, f"{TOPIC}-value", Schema('"string"', "AVRO")) == 42205
    assert code_of(client.delete_subject, f"{TOPIC}-value") == 42205
    assert code_of(client.set_compatibility, f"{TOPIC}-value", "FULL") == 42205


def test_a_serializer_finds_the_id_of_a_schema_that_is_there(client: SchemaRegistryClient) -> None:
    serializer = AvroSerializer(client, VALUE, conf={"auto.register.schemas": False})
    context = SerializationContext(TOPIC, MessageField.VALUE)
    data = serializer({"before": None, "after": {"id": 1}}, context)
    assert data is not None
    assert struct.unpack(">bi", data[:5])[1] == client.get_version(f"{TOPIC}-value", 1).schema_id
    registering = AvroSerializer(client, VALUE)
    assert registering({"before": None, "after": {"id": 1}}, context) == data
