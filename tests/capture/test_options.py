"""A capture's options: Debezium's names, defaults and checks."""

from __future__ import annotations

import pytest

from capture.envelope.options import DecimalFormat, DecimalHandling, Encoding, TimePrecision
from capture.options import CaptureOptions, OptionError

BASE = {"database.hostname": "db", "database.dbname": "shop", "topic.prefix": "shop"}


def parse(**properties: object) -> CaptureOptions:
    written = {name.replace("__", "."): value for name, value in properties.items()}
    return CaptureOptions.parse({**BASE, **written}, name="shop")


def problems(properties: dict[str, object]) -> list[str]:
    with pytest.raises(OptionError) as caught:
        CaptureOptions.parse({**BASE, **properties}, name="shop", source="connector.json")
    return list(caught.value.problems)


def test_defaults_are_debeziums_but_for_three() -> None:
    options = CaptureOptions.parse(BASE, name="shop")
    assert options.slot.name == "debezium"
    assert options.publication.name == "dbz_publication"
    assert options.publication.autocreate == "filtered"  # Debezium: all_tables, which needs a superuser
    assert options.publication.publish is None
    assert options.snapshot.mode == "initial"
    assert options.snapshot.threads == 2  # Debezium: 1
    assert options.envelope.value.encoding is Encoding.AVRO  # Debezium leaves it to the worker
    assert options.envelope.skipped_operations == {"t"}
    assert (options.max_retries, options.retry_wait_ms) == (-1, 10_000)
    assert (options.slot.max_retries, options.slot.retry_delay_ms) == (6, 10_000)


def test_the_captures_name_stands_in_for_topic_prefix() -> None:
    options = CaptureOptions.parse({"database.dbname": "My Shop"}, name="My Shop")
    assert options.envelope.topic_prefix == "My_Shop"
    assert options.connection.host is None


def test_reads_what_toml_and_json_give() -> None:
    options = CaptureOptions.parse(
        {
            **BASE,
            "database.port": 6543,
            "tombstones.on.delete": False,
            "table.include.list": ["public.a", "public.b"],
            "decimal.handling.mode": "STRING",
            "time.precision.mode": " isostring ",
        },
        name="shop",
    )
    assert options.connection.port == 6543
    assert options.envelope.tombstones_on_delete is False
    assert options.tables.accepts("public", "b")
    assert not options.tables.accepts("public", "c")
    assert options.envelope.decimal_handling is DecimalHandling.STRING
    assert options.envelope.time_precision is TimePrecision.ISOSTRING


@pytest.mark.parametrize(
    ("properties", "encoding"),
    [
        ({}, Encoding.AVRO),
        ({"value.converter": "avro", "value.converter.schemas.enable": "false"}, Encoding.AVRO),
        ({"value.converter": "io.confluent.connect.avro.AvroConverter"}, Encoding.AVRO),
        ({"value.converter": "json"}, Encoding.JSON_WITH_SCHEMA),
        (
            {
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
            },
            Encoding.JSON,
        ),
    ],
)
def test_converters_choose_the_encoding(properties: dict[str, object], encoding: Encoding) -> None:
    assert CaptureOptions.parse({**BASE, **properties}, name="s").envelope.value.encoding is encoding


def test_converters_have_settings_of_their_own() -> None:
    options = CaptureOptions.parse(
        {
            **BASE,
            "key.converter": "json",
            "key.converter.decimal.format": "NUMERIC",
            "key.converter.replace.null.with.default": "false",
            "value.converter.ignore.default.for.nullables": "true",
            "value.converter.schema.registry.url": "http://registry:8081",
        },
        name="shop",
    )
    assert options.envelope.key.decimal_format is DecimalFormat.NUMERIC
    assert options.envelope.key.replace_null_with_default is False
    assert options.envelope.value.replace_null_with_default is False
    assert options.accepted == ("value.converter.schema.registry.url",)


def test_skipped_operations_shape_the_publication_only_when_given() -> None:
    assert parse(skipped__operations="none").publication.publish == "insert, update, delete, truncate"
    assert parse(skipped__operations="c,t").publication.publish == "update, delete"
    assert parse(skipped__operations="t").envelope.skipped_operations == {"t"}


def test_topic_creation_becomes_the_topics_config() -> None:
    options = CaptureOptions.parse(
        {
            **BASE,
            "topic.creation.default.retention.ms": 86_400_000,
            "topic.creation.default.partitions": 1,
            "topic.creation.default.replication.factor": 3,
            "producer.override.compression.type": "zstd",
            "producer.override.batch.size": 65536,
        },
        name="shop",
    )
    assert options.topic_config == {"retention.ms": "86400000"}
    assert options.envelope.compression == "zstd"
    assert options.envelope.batch_bytes == 65536


def test_settings_of_kafka_connect_are_accepted_and_named() -> None:
    options = CaptureOptions.parse(
        {**BASE, "tasks.max": "1", "poll.interval.ms": 100, "database.loggerLevel": "OFF"}, name="shop"
    )
    assert options.accepted == ("tasks.max", "poll.interval.ms", "database.loggerLevel")


def test_a_deferred_property_passes_at_its_default_only() -> None:
    at_default = {
        "provide.transaction.metadata": "false",
        "heartbeat.interval.ms": 0,
        "transforms": "",
        "snapshot.isolation.mode": "SERIALIZABLE",
        "key.converter.use.schema.id": -1,
    }
    assert CaptureOptions.parse({**BASE, **at_default}, name="shop").accepted == ()
    (problem,) = problems({"provide.transaction.metadata": True})
    assert problem.endswith(
        '"provide.transaction.metadata" is not honoured yet; only its default "false" is accepted'
    )


@pytest.mark.parametrize(
    "name",
    [
        "transforms",
        "transforms.u.type",
        "predicates",
        "signal.data.collection",
        "signal.consumer.group.id",
        "column.mask.with.5.chars",
        "column.mask.hash.SHA-256.with.salt.abc",
        "column.truncate.to.4.chars",
        "column.propagate.source.type",
        "heartbeat.interval.ms",
        "heartbeat.action.query",
        "producer.override.acks",
        "topic.creation.default.cleanup.policy",
        "topic.creation.compacted.include",
        "snapshot.select.statement.overrides.public.t",
        "openlineage.integration.enabled",
        "notification.enabled.channels",
        "lsn.flush.mode",
    ],
)
def test_what_is_not_honoured_is_refused_by_name(name: str) -> None:
    (problem,) = problems({name: "1"})
    assert f'"{name}"' in problem
    assert "not honoured yet" in problem


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("tabel.include.list", "table.include.list"),
        ("slot.nam", "slot.name"),
        ("database.hostnam", "database.hostname"),
        ("snapshotmode", "snapshot.mode"),
        ("topic.prefx", "topic.prefix"),
    ],
)
def test_a_typo_is_refused_with_the_nearest_name(typo: str, meant: str) -> None:
    assert problems({typo: "x"}) == [
        f'connector.json: "{typo}" is no known property; did you mean "{meant}"?'
    ]


def test_an_unknown_name_is_refused() -> None:
    assert problems({"zzz": 1}) == ['connector.json: "zzz" is no known property']


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("database.port", "70000", "not between 1 and 65535"),
        ("database.port", "x", "no whole number"),
        ("slot.name", "My-Slot", "[a-z0-9_]"),
        ("topic.prefix", "a b", "letters, digits"),
        ("plugin.name", "decoderbufs", "only pgoutput"),
        ("plugin.name", "wal2json", "only pgoutput"),
        ("connector.class", "io.debezium.connector.mysql.MySqlConnector", "must be"),
        ("snapshot.mode", "custom", "not honoured yet"),
        ("snapshot.mode", "sometimes", "not one of"),
        ("tombstones.on.delete", "yes", "neither true nor false"),
        ("skipped.operations", "c,x", "not a list of"),
        ("skipped.operations", "c,none", "joins none"),
        ("table.include.list", "public.(", "no regular expression"),
        ("message.key.columns", "public.t", "not of the form"),
        ("slot.stream.params", "binary", "not of the form"),
        ("slot.stream.params", "origin=none;binary=true", "sets binary"),
        ("topic.creation.default.partitions", "6", "one partition"),
        ("value.converter", "org.apache.kafka.connect.storage.StringConverter", "no converter of ours"),
        ("database.user", "${file:/run/secrets:user}", "config provider"),
        ("database.sslmode", "sure", "not one of"),
    ],
)
def test_a_bad_value_is_refused_with_its_reason(name: str, value: str, words: str) -> None:
    (problem,) = problems({name: value})
    assert f'"{name}" = "{value}"' in problem
    assert words in problem


def test_a_password_is_never_repeated() -> None:
    (problem,) = problems({"database.password": "${file:/secret:topsecret}"})
    assert "topsecret" not in problem
    options = CaptureOptions.parse({**BASE, "database.password": "topsecret"}, name="shop")
    assert "topsecret" not in repr(options)


def test_everything_wrong_is_said_at_once() -> None:
    assert len(problems({"slot.name": "X", "zzz": 1, "heartbeat.interval.ms": 1})) == 3


@pytest.mark.parametrize("kind", ["schema", "table", "column"])
def test_include_and_exclude_are_exclusive(kind: str) -> None:
    (problem,) = problems({f"{kind}.include.list": "a", f"{kind}.exclude.list": "b"})
    assert "exclude one another" in problem


def test_the_database_is_required() -> None:
    with pytest.raises(OptionError, match=r"database\.dbname"):
        CaptureOptions.parse({}, name="shop")


def test_old_names_are_read() -> None:
    options = CaptureOptions.parse(
        {
            "database.dbname": "shop",
            "database.server.name": "old",
            "table.whitelist": "public.a",
            "toasted.value.placeholder": "gone",
            "sanitize.field.names": "true",
            "snapshot.mode": "never",
            "heartbeat.topics.prefix": "hb",
        },
        name="shop",
    )
    assert options.envelope.topic_prefix == "old"
    assert not options.tables.accepts("public", "b")
    assert options.envelope.unavailable_value_placeholder == "gone"
    assert options.envelope.field_name_adjustment == "avro"
    assert options.snapshot.mode == "no_data"
    assert options.accepted == ("heartbeat.topics.prefix",)


def test_two_names_of_one_property_are_refused() -> None:
    (problem,) = problems({"database.server.name": "other"})
    assert "two names" in problem
