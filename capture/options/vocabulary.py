"""Debezium's vocabulary: every property by name, with what becomes of it here.

Honoured ones are read and checked; accepted ones have no meaning without Kafka Connect and a JVM; of the
deferred ones, which later work honours, only Debezium's own default is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from capture.options.filters import KeyRules, NameList
from capture.options.reading import (
    Read,
    boolean,
    choice,
    converter,
    exactly,
    operations,
    pattern,
    stream_parameters,
    text,
    whole,
)

CONNECTOR: Final = "io.debezium.connector.postgresql.PostgresConnector"


@dataclass(frozen=True, slots=True)
class Property:
    """A honoured property: its default as text (None: not set) and what reads a value."""

    default: str | None
    read: Read


_ADJUSTMENT = choice("none", "avro", "avro_unicode")
_SSL_MODES = choice("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

HONOURED: Final[Mapping[str, Property]] = {
    # Connection
    "connector.class": Property(
        CONNECTOR, exactly(CONNECTOR, "PostgresConnector", "PostgreSQL", reason=f"it must be {CONNECTOR}")
    ),
    "name": Property(None, text),
    "topic.prefix": Property(
        None, pattern(r"[A-Za-z0-9._-]{1,200}", "it may hold letters, digits, '.', '_' and '-'")
    ),
    "database.hostname": Property(None, text),
    "database.port": Property("5432", whole(1, 65535)),
    "database.user": Property(None, text),
    "database.password": Property(None, text),
    "database.dbname": Property(None, text),
    "database.sslmode": Property("prefer", _SSL_MODES),
    "database.sslcert": Property(None, text),
    "database.sslkey": Property(None, text),
    "database.sslpassword": Property(None, text),
    "database.sslrootcert": Property(None, text),
    "database.tcpKeepAlive": Property("true", boolean),
    # Slot and publication
    "plugin.name": Property(
        "pgoutput", exactly("pgoutput", reason="only pgoutput, which every PostgreSQL has, is read")
    ),
    "slot.name": Property("debezium", pattern(r"[a-z0-9_]{1,63}", "[a-z0-9_], at most 63 characters")),
    "slot.drop.on.stop": Property("false", boolean),
    "slot.failover": Property("false", boolean),
    "slot.stream.params": Property("", stream_parameters),
    "slot.max.retries": Property("6", whole(0)),
    "slot.retry.delay.ms": Property("10000", whole(0)),
    "publication.name": Property("dbz_publication", pattern(r".{1,63}", "at most 63 characters")),
    # Debezium's default is all_tables, which only a superuser can create.
    "publication.autocreate.mode": Property(
        "filtered", choice("all_tables", "disabled", "filtered", "no_tables")
    ),
    "publish.via.partition.root": Property("false", boolean),
    "status.update.interval.ms": Property("10000", whole(1)),
    # What is captured
    "schema.include.list": Property("", NameList.parse),
    "schema.exclude.list": Property("", NameList.parse),
    "table.include.list": Property("", NameList.parse),
    "table.exclude.list": Property("", NameList.parse),
    "column.include.list": Property("", NameList.parse),
    "column.exclude.list": Property("", NameList.parse),
    "skipped.operations": Property("t", operations),
    "message.key.columns": Property("", KeyRules.parse),
    # The shape of events
    "decimal.handling.mode": Property("precise", choice("precise", "double", "string")),
    "time.precision.mode": Property(
        "adaptive",
        choice(
            "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
        ),
    ),
    "interval.handling.mode": Property("numeric", choice("numeric", "string")),
    "hstore.handling.mode": Property("json", choice("json", "map")),
    "binary.handling.mode": Property("bytes", choice("bytes", "base64", "base64-url-safe", "hex")),
    "money.fraction.digits": Property("2", whole(0, 18)),
    "include.unknown.datatypes": Property("false", boolean),
    "unavailable.value.placeholder": Property("__debezium_unavailable_value", text),
    "schema.name.adjustment.mode": Property("none", _ADJUSTMENT),
    "field.name.adjustment.mode": Property("none", _ADJUSTMENT),
    "tombstones.on.delete": Property("true", boolean),
    "extended.headers.enabled": Property("true", boolean),
    # Topics
    "topic.delimiter": Property(".", pattern(r"[A-Za-z0-9._-]+", "letters, digits, '.', '_' and '-'")),
    "topic.creation.default.partitions": Property(
        "1", exactly("1", "-1", reason="a topic has one partition for now")
    ),
    "topic.creation.default.retention.ms": Property(None, whole(-1)),
    "topic.creation.default.retention.bytes": Property(None, whole(-1)),
    "topic.creation.default.segment.bytes": Property(None, whole(1024, (1 << 31) - 1)),
    "topic.creation.default.segment.ms": Property(None, whole(1)),
    "producer.override.compression.type": Property("none", choice("none", "gzip", "snappy", "lz4", "zstd")),
    "producer.override.batch.size": Property(None, whole(1, (1 << 31) - 1)),
    # Snapshot
    "snapshot.mode": Property(
        "initial",
        choice(
            "initial",
            "initial_only",
            "no_data",
            "when_needed",
            "always",
            later=("configuration_based", "custom"),
        ),
    ),
    # Debezium's default is 1.
    "snapshot.max.threads": Property("2", whole(1, 64)),
    "snapshot.include.collection.list": Property("", NameList.parse),
    # Failures
    "errors.max.retries": Property("-1", whole(-1)),
    "retriable.restart.connector.wait.ms": Property("10000", whole(0)),
    # Converters
    "key.converter": Property("avro", converter),
    "value.converter": Property("avro", converter),
    **{
        f"{side}.converter.{name}": Property(default, read)
        for side in ("key", "value")
        for name, default, read in (
            ("schemas.enable", "true", boolean),
            ("decimal.format", "base64", choice("base64", "numeric")),
            ("replace.null.with.default", "true", boolean),
            ("ignore.default.for.nullables", "false", boolean),
        )
    },
}

# Category A of the reference: settings of a JVM, of Kafka Connect or of a producer that is not there.
ACCEPTED: Final = frozenset(
    {
        "tasks.max",
        "connection.validation.timeout.ms",
        "internal.create.slot.command.timeout",
        "schema.refresh.mode",
        "include.schema.comments",
        "topic.cache.size",
        "snapshot.fetch.size",
        "snapshot.max.threads.multiplier",
        "legacy.snapshot.max.threads",
        "snapshot.tables.order.by.row.count",
        "internal.snapshot.scan.all.columns.force",
        "incremental.snapshot.allow.schema.changes",
        "max.batch.size",
        "max.queue.size",
        "poll.interval.ms",
        "query.fetch.size",
        "executor.shutdown.timeout.ms",
        "statistics.metrics.enabled",
        "internal.advanced.metrics.enable",
        "memory.management.schemas.class",
        "memory.management.tables.class",
        "exactly.once.support",
        "topic.creation.default.replication.factor",
    }
)
# The registry is built in, so how to reach one has no meaning.
ACCEPTED_PATTERN: Final = re.compile(
    r"(key|value)\.converter\.(schema\.registry\..+|basic\.auth\..+|bearer\.auth\..+|proxy\..+|http\..+"
    r"|schemas\.cache\..+)"
)
DRIVER_PROPERTY: Final = re.compile(r"database\.[A-Za-z]+")

# Known, but honoured by later work: only Debezium's default (None: not set) is accepted.
DEFERRED: Final[Mapping[str, str | None]] = {
    "database.query.timeout.ms": "600000",
    "database.initial.statements": None,
    "database.sslfactory": None,
    "replica.identity.autoset.values": None,
    "xmin.fetch.interval.ms": "0",
    "lsn.flush.mode": "connector",
    "flush.lsn.source": "true",
    "lsn.flush.timeout.ms": "30000",
    "lsn.flush.timeout.action": "fail",
    "offset.mismatch.strategy": "no_validation",
    "internal.log.position.check.enable": "true",
    "read.only": "false",
    "table.ignore.builtin": "true",
    "skip.messages.without.change": "false",
    "message.prefix.include.list": None,
    "message.prefix.exclude.list": None,
    "guardrail.collections.max": "0",
    "guardrail.collections.limit.action": "warn",
    "provide.transaction.metadata": "false",
    "transaction.metadata.factory": "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",
    "sourceinfo.struct.maker": "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
    "converters": None,
    "post.processors": None,
    "column.propagate.source.type": None,
    "datatype.propagate.source.type": None,
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
    "topic.transaction": "transaction",
    "topic.heartbeat.prefix": "__debezium-heartbeat",
    "topic.heartbeat.name": None,
    "topic.creation.groups": None,
    "topic.creation.default.cleanup.policy": "delete",
    "snapshot.mode.custom.name": None,
    "snapshot.mode.configuration.based.snapshot.data": "false",
    "snapshot.mode.configuration.based.snapshot.schema": "false",
    "snapshot.mode.configuration.based.start.stream": "false",
    "snapshot.mode.configuration.based.snapshot.on.schema.error": "false",
    "snapshot.mode.configuration.based.snapshot.on.data.error": "false",
    "snapshot.isolation.mode": "serializable",
    "snapshot.locking.mode": "none",
    "snapshot.query.mode": "select_all",
    "snapshot.lock.timeout.ms": "10000",
    "snapshot.select.statement.overrides": None,
    "snapshot.delay.ms": "0",
    "streaming.delay.ms": "0",
    "incremental.snapshot.chunk.size": "1024",
    "incremental.snapshot.watermarking.strategy": "insert_insert",
    "signal.data.collection": None,
    "signal.enabled.channels": "source",
    "signal.poll.interval.ms": "5000",
    "signal.kafka.topic": None,
    "signal.kafka.groupId": "kafka-signal",
    "signal.kafka.bootstrap.servers": None,
    "signal.file": "file-signals.txt",
    "notification.enabled.channels": None,
    "notification.sink.topic.name": None,
    "heartbeat.interval.ms": "0",
    "heartbeat.action.query": None,
    "max.queue.size.in.bytes": "0",
    "event.processing.failure.handling.mode": "fail",
    "event.converting.failure.handling.mode": "warn",
    "custom.metric.tags": None,
    "custom.sanitize.pattern": None,
    "transforms": None,
    "predicates": None,
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "errors.tolerance": "none",
    "errors.retry.timeout": "0",
    "errors.log.enable": "false",
    "errors.log.include.messages": "false",
    "offsets.storage.topic": None,
    "transaction.boundary": "poll",
    **{
        f"{side}.converter.{name}": default
        for side in ("key", "value")
        for name, default in (
            ("auto.register.schemas", "true"),
            ("use.latest.version", "false"),
            ("normalize.schemas", "false"),
            ("latest.compatibility.strict", "true"),
            ("id.compatibility.strict", "true"),
            ("use.schema.id", "-1"),
            (f"{side}.subject.name.strategy", "io.confluent.kafka.serializers.subject.TopicNameStrategy"),
            ("connect.meta.data", "true"),
            ("enhanced.avro.schema.support", "false"),
            ("scrub.invalid.names", "false"),
            ("discard.type.doc.default", "false"),
            ("allow.optional.map.keys", "false"),
            ("generalized.sum.type.support", "false"),
            ("flatten.singleton.unions", "true"),
            ("schema.content", None),
        )
    },
}
DEFERRED_PATTERN: Final = re.compile(
    r"column\.(mask|truncate)\..+|transforms\..+|predicates\..+|signal\.consumer\..+|producer\.override\..+"
    r"|topic\.creation\..+|snapshot\.select\.statement\.overrides\..+|openlineage\.integration\..+"
    r"|topic\.(regex|replacement|key)\b.*|unwrap\..+"
)

# Names of older versions (the reference, 07 section 9).
RENAMED: Final[Mapping[str, str]] = {
    "database.server.name": "topic.prefix",
    "toasted.value.placeholder": "unavailable.value.placeholder",
    "transaction.topic": "topic.transaction",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "slot.drop_on_stop": "slot.drop.on.stop",
}
# Still set in old configurations and without effect in Debezium, too.
WITHOUT_EFFECT: Final = frozenset({"heartbeat.topics.prefix"})
