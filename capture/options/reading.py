"""How the text of a property becomes a value; each reader raises ValueError with what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

AVRO_CONVERTER: Final = "io.confluent.connect.avro.AvroConverter"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"

Read = Callable[[str], Any]

# Options of pgoutput that would change what the stream looks like.
_OURS: Final = frozenset(
    {"proto_version", "publication_names", "binary", "streaming", "two_phase", "messages"}
)


def text(value: str) -> str:
    return value


def boolean(value: str) -> bool:
    lowered = value.lower()
    if lowered not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return lowered == "true"


def whole(least: int, most: int = (1 << 63) - 1) -> Read:
    def read(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("is no whole number") from None
        if not least <= number <= most:
            raise ValueError(f"is not between {least} and {most}")
        return number

    return read


def choice(*allowed: str, later: Sequence[str] = ()) -> Read:
    def read(value: str) -> str:
        lowered = value.lower()
        if lowered in later:
            raise ValueError(f"is not honoured yet; supported: {', '.join(allowed)}")
        if lowered not in allowed:
            raise ValueError(f"is not one of {', '.join(allowed)}")
        return lowered

    return read


def pattern(expression: str, rule: str) -> Read:
    def read(value: str) -> str:
        if not re.fullmatch(expression, value):
            raise ValueError(f"is not allowed: {rule}")
        return value

    return read


def exactly(*allowed: str, reason: str) -> Read:
    def read(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"is not supported: {reason}")
        return value

    return read


def operations(value: str) -> frozenset[str]:
    names = {part.strip().lower() for part in value.split(",") if part.strip()}
    unknown = names - {"c", "u", "d", "t", "none"}
    if unknown or not names:
        raise ValueError("is not a list of c, u, d, t or none")
    if "none" in names and len(names) > 1:
        raise ValueError("joins none with other operations")
    return frozenset(names - {"none"})


def stream_parameters(value: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in filter(None, (part.strip() for part in value.split(";"))):
        name, equals, setting = part.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name.strip()):
            raise ValueError(f"is not of the form name=value;name=value at {part!r}")
        if name.strip() in _OURS:
            raise ValueError(
                f"sets {name.strip()}, which is fixed: the stream is read as text, in protocol 1"
            )
        pairs.append((name.strip(), setting.strip()))
    return tuple(pairs)


def converter(value: str) -> str:
    shorthand = {"avro": "avro", "json": "json", AVRO_CONVERTER: "avro", JSON_CONVERTER: "json"}
    known = shorthand.get(value) or shorthand.get(value.lower())
    if known is None:
        raise ValueError(f"is no converter of ours; use avro ({AVRO_CONVERTER}) or json ({JSON_CONVERTER})")
    return known
