"""Logical decoding messages: topic `<prefix>.message`, key and value (debezium/01 section 6.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capture.envelope.avro_schema import avro_text
from capture.envelope.connect import Schema, Value
from capture.envelope.envelope_schema import CONNECTOR, MESSAGE_KEY, message_schema
from capture.envelope.json_schema import json_schema_text
from capture.envelope.names import message_topic
from capture.envelope.options import BinaryHandling, Converter, DecimalFormat, Encoding, EnvelopeOptions
from capture.envelope.plan import Ids
from capture.envelope.text_values import binary_form
from capture.envelope.value_writer import Write, avro_writer, json_writer


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """What `source` says about where a message comes from; times in microseconds since 1970."""

    ts_us: int
    sequence: str
    tx_id: int | None
    lsn: int
    origin: str | None
    origin_lsn: int | None


@dataclass(frozen=True, slots=True, eq=False)
class MessagePlan:
    """The plan of the message topic. `content` puts a message's bytes into the binary handling mode."""

    topic: str
    key_schema: str | None
    value_schema: str | None
    write_key: Write
    write_value: Write
    content: Callable[[bytes], bytes | str]
    options: EnvelopeOptions

    def record(
        self, prefix: str, content: bytes, position: SourcePosition, now_ms: int
    ) -> tuple[bytes, bytes]:
        """Key and value of one message."""
        options = self.options
        source: tuple[Value, ...] = (
            options.source_version,
            CONNECTOR,
            options.topic_prefix,
            position.ts_us // 1000,
            None,
            options.database,
            position.sequence,
            position.ts_us,
            position.ts_us * 1000,
            "",
            "",
            position.tx_id,
            position.lsn,
            None,
            position.origin,
            position.origin_lsn,
        )
        value = ("m", now_ms, source, None, (prefix, self.content(content)))
        return self.write_key((prefix,)), self.write_value(value)


def message_plan(options: EnvelopeOptions, *, ids: Ids) -> MessagePlan:
    """Plan the message topic; `ids` as in `plan_for`."""
    topic = message_topic(options)
    value = message_schema(options.binary_handling is BinaryHandling.BYTES)
    key_text, write_key = _writer(f"{topic}-key", MESSAGE_KEY, options.key, ids)
    value_text, write_value = _writer(f"{topic}-value", value, options.value, ids)
    return MessagePlan(
        topic, key_text, value_text, write_key, write_value, binary_form(options.binary_handling), options
    )


def _writer(subject: str, schema: Schema, converter: Converter, ids: Ids) -> tuple[str | None, Write]:
    substitute = converter.replace_null_with_default
    if converter.encoding is Encoding.AVRO:
        text = avro_text(schema)
        start = b"\x00" + ids(subject, text).to_bytes(4, "big")
        avro = avro_writer(schema, substitute=substitute)
        return text, lambda value: start + avro(value)
    numeric = converter.decimal_format is DecimalFormat.NUMERIC
    json = json_writer(schema, substitute=substitute, numeric=numeric)
    if converter.encoding is Encoding.JSON:
        return None, json
    text = json_schema_text(schema, numeric=numeric)
    prefix = b'{"schema":%b,"payload":' % text.encode()
    return text, lambda value: prefix + json(value) + b"}"
