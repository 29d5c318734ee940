"""Whether two schema texts say the same, however they are written."""

import hashlib
import json
from typing import Any, Final

_NAMED: Final = ("record", "error", "enum", "fixed")
_PARTS: Final = {"array": "items", "map": "values"}
_MAX_DEPTH: Final = 200


def schema_digest(schema: str, schema_type: str) -> bytes:
    """Equal for texts that declare the same schema; blanks and the order of attributes do not count.

    In Avro neither does how a name got its namespace, nor `{"type": "string"}` for `"string"`. Raises
    ValueError for what is no schema of this type.
    """
    if schema_type == "PROTOBUF":
        return _digest(schema_type, " ".join(schema.split()))
    try:
        parsed = json.loads(schema)
    except RecursionError as error:
        raise ValueError("the schema is nested too deep") from error
    if schema_type == "AVRO":
        parsed = _canonical(parsed, "", 0)
    return _digest(schema_type, json.dumps(parsed, sort_keys=True, separators=(",", ":")))


def _digest(schema_type: str, text: str) -> bytes:
    return hashlib.sha256(f"{schema_type}\n{text}".encode()).digest()


def _canonical(schema: Any, namespace: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ValueError("the schema is nested too deep")
    if isinstance(schema, str):
        if not schema or schema in _NAMED or schema in _PARTS:
            raise ValueError(f"{schema!r} alone is no schema")
        return schema
    if isinstance(schema, list):
        return [_canonical(branch, namespace, depth + 1) for branch in schema]
    if not isinstance(schema, dict) or "type" not in schema:
        raise ValueError("an Avro schema is a name, a list, or an object with a type")
    if len(schema) == 1:
        return _canonical(schema["type"], namespace, depth + 1)
    kind = schema["type"]
    made = dict(schema)
    if not isinstance(kind, str):
        made["type"] = _canonical(kind, namespace, depth + 1)
    elif kind in _NAMED:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"a {kind} needs a name")
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            namespace = str(schema.get("namespace", namespace) or "")
            name = f"{namespace}.{name}" if namespace else name
        made.pop("namespace", None)
        made["name"] = name
    elif kind in ("array", "map"):
        part = _PARTS[kind]
        if part not in schema:
            raise ValueError(f"{kind} needs {part}")
        made[part] = _canonical(schema[part], namespace, depth + 1)
    else:
        made["type"] = _canonical(kind, namespace, depth + 1)
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
            raise ValueError(f"{kind} {made['name']} needs a list of fields")
        made["fields"] = [_field(field, namespace, depth) for field in fields]
    return made


def _field(field: dict[str, Any], namespace: str, depth: int) -> dict[str, Any]:
    if not isinstance(field.get("name"), str) or "type" not in field:
        raise ValueError("a field needs a name and a type")
    return {**field, "type": _canonical(field["type"], namespace, depth + 1)}
