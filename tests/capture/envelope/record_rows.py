"""Records what PostgreSQL itself sends for the rows of Debezium's fixtures.

`python tests/capture/envelope/record_rows.py` writes tests/golden/debezium_rows.json: per scenario the tables
with their types and defaults, and each row in text and in send format. The embedded server lacks some
extensions; domains over text stand in for their types, and their output forms are written by hand below.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from capture.envelope.table import TypeInfo  # noqa: E402
from capture.postgres.type_catalog import TypeCatalog  # noqa: E402
from tests.support.postgres import PostgresServer  # noqa: E402

SCENARIOS = (
    "customers",
    "defaults",
    "keys",
    "names_avro",
    "names_none",
    "pg18_pgvector_generated",
    "special_numbers_precise",
    "types_adaptive",
)
STOOD_IN = {"hstore": "hstore", "citext": "citext", "ltree": "ltree", "isbn": "isbn", "xml_": "xml"}
#: (type, what the domain prints) -> what the type prints.
OUTPUT = {
    ("hstore", 'a=>1, b=>NULL, "c d"=>"x\\"y"'): '"a"=>"1", "b"=>NULL, "c d"=>"x\\"y"',
    ("hstore", "k=>v"): '"k"=>"v"',
    ("hstore", "a=>1"): '"a"=>"1"',
    ("hstore", ""): "",
    ("_hstore", "{a=>1}"): '{"\\"a\\"=>\\"1\\""}',
    ("isbn", "978-0-393-04002-9"): "0-393-04002-X",
}
SETTINGS = (
    "set datestyle = ISO; set intervalstyle = postgres; set extra_float_digits = 1; set timezone = UTC; "
    "set bytea_output = hex"
)
TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident::text,
       (SELECT ARRAY(SELECT a.attname FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
                     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum ORDER BY k.place)
        FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indexprs IS NULL
        ORDER BY i.indisprimary DESC LIMIT 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname !~ '^(pg_|information)' ORDER BY 2, 3
"""
COLUMNS = """
SELECT a.attname, a.atttypid::int8, a.atttypmod, NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
       a.attgenerated::text
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def native(info: TypeInfo) -> TypeInfo:
    """A stand-in domain as the type it stands for."""
    if info.name in STOOD_IN:
        return TypeInfo(info.oid, STOOD_IN[info.name], namespace=info.namespace)
    return replace(
        info,
        element=native(info.element) if info.element else None,
        base=native(info.base) if info.base else None,
    )


def cell(kind: str, text: bytes | None, binary: bytes | None) -> list[str | None]:
    """[text, send format in base64, or null]."""
    if text is None or binary is None:
        return [None, None]
    rendered = text.decode()
    if kind.lstrip("_") in STOOD_IN:
        rendered = OUTPUT.get((kind, rendered), rendered)
    return [rendered, base64.b64encode(binary).decode()]


def rows(connection: psycopg.Connection[Any], name: str, kinds: list[str]) -> list[list[list[str | None]]]:
    """All rows of a table, each cell in both formats."""
    query = f"SELECT * FROM {name}".encode()
    text = connection.pgconn.exec_params(query, [])
    binary = connection.pgconn.exec_params(query, [], result_format=1)
    assert text.status == binary.status == pq.ExecStatus.TUPLES_OK, (text.error_message, binary.error_message)
    return [
        [cell(kind, text.get_value(row, i), binary.get_value(row, i)) for i, kind in enumerate(kinds)]
        for row in range(text.ntuples)
    ]


def record(connection: psycopg.Connection[Any], scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a scenario's statements and describe its tables."""
    connection.execute(SETTINGS)
    for name in STOOD_IN:
        connection.execute(f"create domain {name} as text")
    steps = [step for step in scenario["steps"] if step.startswith(("insert", "create"))]
    for statement in (re.sub("create extension (?!vector)[^;]*;", "", scenario["setup_sql"]), *steps):
        connection.execute(re.sub(r"\bxml\b", "xml_", statement))
    catalog = TypeCatalog()
    out = []
    for oid, schema, name, identity, key in connection.execute(TABLES).fetchall():
        columns = connection.execute(COLUMNS, [oid]).fetchall()
        catalog.read(connection, [column[1] for column in columns])
        infos = [native(catalog.get(column[1])) for column in columns]
        described = [
            {
                "name": column[0],
                "type": {k: v for k, v in asdict(info).items() if v},
                "typmod": column[2],
                "nullable": column[3],
                "default": column[4],
                "generated": column[5],
            }
            for column, info in zip(columns, infos, strict=True)
        ]
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
        table = {
            "schema": schema,
            "name": name,
            "replica_identity": identity,
            "key": key or [],
            "columns": described,
        }
        out.append({**table, "rows": rows(connection, quoted, [info.name for info in infos])})
    return out


def main() -> None:
    """Record all scenarios."""
    golden = ROOT / "tests/golden"
    recorded = {}
    with PostgresServer() as server:
        for name in SCENARIOS:
            scenario = json.loads((golden / "debezium" / f"{name}.json").read_text())
            with psycopg.connect(server.create_database(), autocommit=True) as connection:
                recorded[name] = record(connection, scenario)
    text = json.dumps(recorded, ensure_ascii=False, indent=1)
    (golden / "debezium_rows.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
