"""What a capture is told to do: Debezium's properties as frozen, typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from capture.envelope.names import sanitize_topic
from capture.envelope.options import (
    BinaryHandling,
    Converter,
    DecimalFormat,
    DecimalHandling,
    Encoding,
    EnvelopeOptions,
    HstoreHandling,
    IntervalHandling,
    NameAdjustment,
    TimePrecision,
)
from capture.options.filters import KeyRules, NameFilter, NameList, TableFilter
from capture.options.properties import Checked, OptionError, check

_EXCLUSIVE: Final = ("schema", "table", "column")
# Topic settings that the log honours, by the property that carries each.
_TOPIC_SETTINGS: Final = ("retention.ms", "retention.bytes", "segment.bytes", "segment.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How to reach the database, as libpq's connection parameters; what is None is left to libpq."""

    dbname: str
    host: str | None = None
    port: int = 5432
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sslmode: str = "prefer"
    sslcert: str | None = None
    sslkey: str | None = None
    sslpassword: str | None = field(default=None, repr=False)
    sslrootcert: str | None = None
    keepalives: bool = True

    @property
    def address(self) -> str:
        """Where the database is, for people; never with a password."""
        return f"{self.host or 'the local socket'}:{self.port}/{self.dbname}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """The replication slot and its stream. `stream_parameters` go to START_REPLICATION as they are."""

    name: str
    drop_on_stop: bool
    failover: bool
    stream_parameters: tuple[tuple[str, str], ...]
    max_retries: int
    retry_delay_ms: int
    status_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationOptions:
    """The publication; `publish` is None unless skipped.operations was given, as in Debezium."""

    name: str
    autocreate: str
    via_partition_root: bool
    publish: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """When and how the tables' rows are read. An empty `collections` stands for all captured tables."""

    mode: str
    threads: int
    collections: NameList


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """One capture. `accepted` names the properties that were given but have no effect here."""

    name: str
    connection: ConnectionOptions
    slot: SlotOptions
    publication: PublicationOptions
    snapshot: SnapshotOptions
    tables: TableFilter
    columns: NameFilter
    keys: KeyRules
    envelope: EnvelopeOptions
    topic_config: Mapping[str, str]
    max_retries: int
    retry_wait_ms: int
    accepted: tuple[str, ...] = ()

    @classmethod
    def parse(cls, properties: Mapping[str, object], *, name: str, source: str = "") -> CaptureOptions:
        """Read Debezium's properties; raise OptionError with all that is wrong, each named with `source`.

        `name` is the capture's; it stands in for a missing topic.prefix.
        """
        checked = check(properties, source)
        problems = list(_contradictions(checked))
        if problems:
            raise OptionError([f"{source}: {problem}" if source else problem for problem in problems])
        values = checked.values
        return cls(
            name=name,
            connection=_connection(values),
            slot=_slot(values),
            publication=_publication(checked),
            snapshot=SnapshotOptions(
                mode=values["snapshot.mode"],
                threads=values["snapshot.max.threads"],
                collections=values["snapshot.include.collection.list"],
            ),
            tables=TableFilter(_filter(values, "schema"), _filter(values, "table")),
            columns=_filter(values, "column"),
            keys=values["message.key.columns"],
            envelope=_envelope(values, values["topic.prefix"] or sanitize_topic(name)),
            topic_config=_topic_config(values),
            max_retries=values["errors.max.retries"],
            retry_wait_ms=values["retriable.restart.connector.wait.ms"],
            accepted=checked.accepted,
        )


def _contradictions(checked: Checked) -> list[str]:
    values = checked.values
    found = [
        f'"{kind}.include.list" and "{kind}.exclude.list" exclude one another; set one of them'
        for kind in _EXCLUSIVE
        if values[f"{kind}.include.list"] and values[f"{kind}.exclude.list"]
    ]
    if not values["database.dbname"]:
        found.append('"database.dbname" is required')
    return found


def _connection(values: Mapping[str, Any]) -> ConnectionOptions:
    return ConnectionOptions(
        dbname=values["database.dbname"],
        host=values["database.hostname"],
        port=values["database.port"],
        user=values["database.user"],
        password=values["database.password"],
        sslmode=values["database.sslmode"],
        sslcert=values["database.sslcert"],
        sslkey=values["database.sslkey"],
        sslpassword=values["database.sslpassword"],
        sslrootcert=values["database.sslrootcert"],
        keepalives=values["database.tcpKeepAlive"],
    )


def _slot(values: Mapping[str, Any]) -> SlotOptions:
    return SlotOptions(
        name=values["slot.name"],
        drop_on_stop=values["slot.drop.on.stop"],
        failover=values["slot.failover"],
        stream_parameters=values["slot.stream.params"],
        max_retries=values["slot.max.retries"],
        retry_delay_ms=values["slot.retry.delay.ms"],
        status_interval_ms=values["status.update.interval.ms"],
    )


def _publication(checked: Checked) -> PublicationOptions:
    values = checked.values
    publish = None
    if "skipped.operations" in checked.given:
        operations = {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}
        skipped = values["skipped.operations"]
        publish = ", ".join(word for letter, word in operations.items() if letter not in skipped)
    return PublicationOptions(
        name=values["publication.name"],
        autocreate=values["publication.autocreate.mode"],
        via_partition_root=values["publish.via.partition.root"],
        publish=publish,
    )


def _filter(values: Mapping[str, Any], kind: str) -> NameFilter:
    return NameFilter(values[f"{kind}.include.list"], values[f"{kind}.exclude.list"])


def _envelope(values: Mapping[str, Any], prefix: str) -> EnvelopeOptions:
    defaults = EnvelopeOptions(topic_prefix=prefix, database=values["database.dbname"])
    return EnvelopeOptions(
        topic_prefix=prefix,
        database=values["database.dbname"],
        topic_delimiter=values["topic.delimiter"],
        key=_converter(values, "key"),
        value=_converter(values, "value"),
        time_precision=TimePrecision(values["time.precision.mode"]),
        decimal_handling=DecimalHandling(values["decimal.handling.mode"]),
        binary_handling=BinaryHandling(values["binary.handling.mode"]),
        interval_handling=IntervalHandling(values["interval.handling.mode"]),
        hstore_handling=HstoreHandling(values["hstore.handling.mode"]),
        money_fraction_digits=values["money.fraction.digits"],
        include_unknown_datatypes=values["include.unknown.datatypes"],
        unavailable_value_placeholder=values["unavailable.value.placeholder"],
        schema_name_adjustment=NameAdjustment(values["schema.name.adjustment.mode"]),
        field_name_adjustment=NameAdjustment(values["field.name.adjustment.mode"]),
        tombstones_on_delete=values["tombstones.on.delete"],
        skipped_operations=values["skipped.operations"],
        extended_headers=values["extended.headers.enabled"],
        compression=values["producer.override.compression.type"],
        batch_bytes=values["producer.override.batch.size"] or defaults.batch_bytes,
    )


def _converter(values: Mapping[str, Any], side: str) -> Converter:
    def setting(name: str) -> Any:
        return values[f"{side}.converter.{name}"]

    if values[f"{side}.converter"] == "avro":
        return Converter(replace_null_with_default=not setting("ignore.default.for.nullables"))
    return Converter(
        encoding=Encoding.JSON_WITH_SCHEMA if setting("schemas.enable") else Encoding.JSON,
        replace_null_with_default=setting("replace.null.with.default"),
        decimal_format=DecimalFormat(setting("decimal.format").upper()),
    )


def _topic_config(values: Mapping[str, Any]) -> dict[str, str]:
    settings = {name: values[f"topic.creation.default.{name}"] for name in _TOPIC_SETTINGS}
    return {name: str(value) for name, value in settings.items() if value is not None}
