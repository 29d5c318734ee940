"""Debezium's fixtures beside the rows that PostgreSQL sends for them (tests/golden)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from capture.envelope import Column, EnvelopeOptions, Table, TypeInfo
from capture.envelope.options import (
    BinaryHandling,
    Converter,
    DecimalHandling,
    Encoding,
    HstoreHandling,
    IntervalHandling,
    NameAdjustment,
    TimePrecision,
)

GOLDEN: Final = Path(__file__).resolve().parents[2] / "golden"


@cache
def scenario(name: str) -> dict[str, Any]:
    """One of Debezium's fixtures."""
    loaded: dict[str, Any] = json.loads((GOLDEN / "debezium" / f"{name}.json").read_text())
    return loaded


@cache
def recorded() -> dict[str, Any]:
    """The rows, by scenario."""
    loaded: dict[str, Any] = json.loads((GOLDEN / "debezium_rows.json").read_text())
    return loaded


def options(config: dict[str, str], encoding: Encoding = Encoding.AVRO) -> EnvelopeOptions:
    """The part of a fixture's configuration that concerns the envelope."""
    skipped = config.get("skipped.operations", "t")
    return EnvelopeOptions(
        topic_prefix=config["topic.prefix"],
        database=config["database.dbname"],
        key=Converter(encoding=encoding),
        value=Converter(encoding=encoding),
        time_precision=TimePrecision(config.get("time.precision.mode", "adaptive")),
        decimal_handling=DecimalHandling(config.get("decimal.handling.mode", "precise")),
        binary_handling=BinaryHandling(config.get("binary.handling.mode", "bytes")),
        interval_handling=IntervalHandling(config.get("interval.handling.mode", "numeric")),
        hstore_handling=HstoreHandling(config.get("hstore.handling.mode", "json")),
        include_unknown_datatypes=config.get("include.unknown.datatypes") == "true",
        schema_name_adjustment=NameAdjustment(config.get("schema.name.adjustment.mode", "none")),
        field_name_adjustment=NameAdjustment(config.get("field.name.adjustment.mode", "none")),
        skipped_operations=frozenset() if skipped == "none" else frozenset(skipped.split(",")),
    )


def type_info(data: dict[str, Any]) -> TypeInfo:
    """A recorded type."""
    return TypeInfo(
        data["oid"],
        data["name"],
        data.get("kind", "b"),
        data.get("namespace", ""),
        element=type_info(data["element"]) if data.get("element") else None,
        base=type_info(data["base"]) if data.get("base") else None,
        base_typmod=data.get("base_typmod", 0),
        enum_labels=tuple(data.get("enum_labels", ())),
    )


def table(data: dict[str, Any]) -> Table:
    """A recorded table."""
    columns = tuple(
        Column(
            column["name"],
            type_info(column["type"]),
            column["typmod"],
            column["nullable"],
            column["default"],
            column["generated"],
        )
        for column in data["columns"]
    )
    return Table(data["schema"], data["name"], columns, tuple(data["key"]), data["replica_identity"])


def without_generated(data: dict[str, Any]) -> tuple[Table, list[int]]:
    """The table as the stream has it before generated columns were published, and the positions left."""
    whole = table(data)
    kept = [i for i, column in enumerate(whole.columns) if not column.generated]
    return replace(whole, columns=tuple(whole.columns[i] for i in kept)), kept


def text(cell: list[str | None]) -> bytes | None:
    """A recorded cell as the stream has it."""
    return None if cell[0] is None else cell[0].encode()


def binary(cell: list[str | None]) -> bytes | None:
    """A recorded cell in send format."""
    return None if cell[1] is None else base64.b64decode(cell[1])
