"""Makes keys and values readable: Avro by the log's own schemas, JSON as it is, other bytes in base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from capture.log import SchemaStore

_MAGIC: Final = 0
_HEADER_BYTES: Final = 5


class Decoder:
    """Decodes bytes written in Confluent's wire format or as JSON into what `json.dumps` takes."""

    def __init__(self, schemas: SchemaStore) -> None:
        self._schemas = schemas
        self._readers: dict[int, Callable[[bytes], object] | None] = {}

    def decode(self, data: bytes | None) -> object:
        """The value; bytes that are neither Avro of a known schema nor JSON become {"base64": …}."""
        if data is None:
            return None
        if len(data) >= _HEADER_BYTES and data[0] == _MAGIC:
            read = self._reader(int.from_bytes(data[1:_HEADER_BYTES], "big"))
            if read is not None:
                return plain(read(data[_HEADER_BYTES:]))
        try:
            return json.loads(data)
        except ValueError:
            return {"base64": base64.b64encode(data).decode()}

    def _reader(self, schema_id: int) -> Callable[[bytes], object] | None:
        """What decodes one schema's bytes; None for an id that the log does not know."""
        if schema_id not in self._readers:
            self._readers[schema_id] = self._made(schema_id)
        return self._readers[schema_id]

    def _made(self, schema_id: int) -> Callable[[bytes], object] | None:
        import fastavro

        stored = self._schemas.by_id(schema_id)
        if stored is None:
            return None
        schema = fastavro.parse_schema(json.loads(stored.schema))
        return lambda data: fastavro.schemaless_reader(BytesIO(data), schema, None)


def plain(value: Any) -> object:
    """A decoded Avro value in JSON's types: decimals as text, times in ISO 8601, bytes in base64."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value
