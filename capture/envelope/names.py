"""Names of topics, schemas and fields (debezium/01 sections 1 and 2)."""

from __future__ import annotations

from typing import Final

from capture.envelope.options import EnvelopeOptions, NameAdjustment

TOPIC_NAME_LIMIT: Final = 249
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS: Final = frozenset("0123456789")
_TOPIC: Final = _LETTERS | _DIGITS | frozenset("._-")


def _units(text: str) -> list[str]:
    """UTF-16 code units, each as a string of one."""
    raw = text.encode("utf-16-be", "surrogatepass")
    return [chr(int.from_bytes(raw[i : i + 2])) for i in range(0, len(raw), 2)]


def topic_name(options: EnvelopeOptions, schema: str, table: str) -> str:
    """The topic of a table: `<prefix>.<schema>.<table>`, sanitized."""
    return sanitize_topic(options.topic_delimiter.join((options.topic_prefix, schema, table)))


def message_topic(options: EnvelopeOptions) -> str:
    """The topic of logical decoding messages; it ignores `topic.delimiter`."""
    return f"{options.topic_prefix}.message"


def sanitize_topic(name: str) -> str:
    """Replace each UTF-16 unit that Kafka does not allow by `_`, cut, and keep off `.` and `..`."""
    clean = "".join(unit if unit in _TOPIC else "_" for unit in _units(name))[:TOPIC_NAME_LIMIT]
    return {".": "_", "..": "__"}.get(clean, clean)


def adjust(name: str, mode: NameAdjustment, *, dots: bool) -> str:
    """Apply a name adjustment mode; `dots` lets dots stand, as in schema names."""
    if mode is NameAdjustment.NONE:
        return name
    unicode = mode is NameAdjustment.AVRO_UNICODE
    out = []
    for position, unit in enumerate(_units(name)):
        if unit in _LETTERS or (unit == "_" and not unicode) or (unit == "." and dots and position):
            out.append(unit)
        elif unit in _DIGITS:
            if position:
                out.append(unit)
            else:
                out.append(f"_u{ord(unit):04x}" if unicode else f"_{unit}")
        else:
            out.append(f"_u{ord(unit):04x}" if unicode else "_")
    return "".join(out)


def schema_name(name: str, options: EnvelopeOptions) -> str:
    """A schema name after `schema.name.adjustment.mode`."""
    return adjust(name, options.schema_name_adjustment, dots=True)


def field_name(name: str, options: EnvelopeOptions) -> str:
    """A field name after `field.name.adjustment.mode`."""
    return adjust(name, options.field_name_adjustment, dots=False)
