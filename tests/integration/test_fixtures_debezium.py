"""Debezium's own scenarios end to end: the same SQL, the same configuration, the same records.

Each scenario of tests/golden/debezium that needs no option of later work runs against a real server, once in
Avro and once in JSON with schemas, and every topic, key, value, header and schema is compared in order.
What a clock, a random function or the server's WAL decides is normalised (see the fixtures' README).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import fastavro
import psycopg
import pytest

from protocol.records import Record
from tests.support.capture_process import CaptureProcess, read_topics, schemas_of
from tests.support.postgres import PostgresServer, contrib_bin_path

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "debezium"

RUN: Final = (
    "customers",
    "defaults",
    "names_avro",
    "origin",
    "partition_root",
    "pg18_pgvector_generated",
    "schema_evolution",
    "special_numbers_double",
    "special_numbers_precise",
    "toast_bytes",
    "types_adaptive",
    "types_connect_string_hex_unknown",
    "types_microseconds_base64url",
    "types_microtime_double_map_isointerval_base64",
)
# Run without these options, and compared without what they bring.
WITHOUT: Final[Mapping[str, frozenset[str]]] = {
    "events_matrix": frozenset({"provide.transaction.metadata", "heartbeat.interval.ms"}),
    "keys": frozenset({"provide.transaction.metadata"}),
}
# Not run: the options that they wait for.
WAITING: Final[Mapping[str, frozenset[str]]] = {
    "incremental_snapshot": frozenset(
        {
            "signal.data.collection",
            "notification.enabled.channels",
            "notification.sink.topic.name",
            "incremental.snapshot.chunk.size",
        }
    ),
    "masking_keys_propagation": frozenset(
        {
            "column.mask.with.5.chars",
            "column.truncate.to.4.chars",
            "column.mask.hash.SHA-256.with.salt.abc",
            "column.propagate.source.type",
        }
    ),
    "outbox_default": frozenset({"transforms", "transforms.o.type"}),
    "unwrap_delete_to_tombstone": frozenset(
        {
            "transforms",
            "transforms.u.type",
            "transforms.u.delete.tombstone.handling.mode",
            "transforms.u.route.by.field",
        }
    ),
    "unwrap_rewrite": frozenset(
        {
            "transforms",
            "transforms.u.type",
            "transforms.u.delete.tombstone.handling.mode",
            "transforms.u.add.fields",
            "transforms.u.add.headers",
            "provide.transaction.metadata",
        }
    ),
    "unwrap_tombstone": frozenset({"transforms", "transforms.u.type"}),
}
# Names that Avro cannot spell: with `none` Debezium's Avro converter fails, as ours does; JSON is compared.
JSON_ONLY: Final = frozenset({"names_none"})
NEEDS_EXTENSIONS: Final = frozenset(
    {"defaults", "toast_bytes", *(name for name in RUN if name.startswith("types_"))}
)
# Debezium's own defaults, which the scenarios were recorded with.
BASE: Final = {"publication.autocreate.mode": "all_tables", "snapshot.max.threads": "1"}
CONTEXT: Final = "__debezium.context."
LEFT_OUT_TOPICS: Final = ("inventory.transaction", "__debezium-heartbeat.inventory")


def scenario(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return loaded


def test_every_fixture_is_run_or_waits_for_an_option_by_name() -> None:
    from capture.options.properties import check

    found = {path.stem for path in GOLDEN.glob("*.json")}
    assert found == {*RUN, *WITHOUT, *WAITING, *JSON_ONLY}
    for name in sorted(found):
        config = scenario(name)["config"]
        lacking = WITHOUT.get(name, frozenset()) | WAITING.get(name, frozenset())
        assert lacking <= config.keys()
        check({key: value for key, value in config.items() if key not in lacking})
        for option in lacking:  # once it is honoured the scenario must run with it
            with pytest.raises(ValueError, match="not honoured"):
                check({option: config[option]})


@pytest.fixture(scope="module")
def contrib() -> Iterator[PostgresServer | None]:
    """The version that the fixtures were recorded on, with hstore, citext, ltree and isn."""
    programs = contrib_bin_path()
    if programs is None:
        yield None
        return
    with PostgresServer(binaries=programs) as server:
        yield server


# --- what is right here and wrong in Debezium (debezium/12), and what is random ---

# What comes out of a clock or a random function, by scenario and table.
RANDOM_COLUMNS: Final = {
    ("defaults", "t"): {"u", "dac", "tc", "tsc", "tscu", "tstzc", "tstzn", "tstz3", "clk", "nnow"},
    ("pg18_pgvector_generated", "tt"): {"id"},
    ("toast_bytes", "t"): {"nnnu"},
}


def ignored_columns(name: str, record: Mapping[str, Any]) -> set[str]:
    """The columns of a record that are not compared."""
    table = record["topic"].rpartition(".")[2]
    return RANDOM_COLUMNS.get((name, table), set()) | better_columns(name, record)


def better_columns(name: str, record: Mapping[str, Any]) -> set[str]:
    """Columns of a record where the value is right here and wrong in Debezium, by the decision's number."""
    value = record["value"]
    if not isinstance(value, dict) or not value.get("after"):
        return set()
    table, after = value["source"]["table"], value["after"]
    if name == "defaults":
        return {"nm"}  # 14: name columns are null in the stream
    if not name.startswith("types_"):
        return set()
    match table, after["id"]:
        case "t_num", _:
            return {"n5m2"}  # 10: a negative scale is misread
        case "t_str", 100 | 101:
            return {"nm"}  # 14
        case "t_time", 11:
            return {"da"}  # 11: dates of snapshot and stream differ
        case "t_time", 12:
            return {"da", "nn_da"}  # 11, and the era of a BC date is lost in snapshots
        case "t_time", 13 | 103:
            return {"ts6", "nn_ts"}  # 12: microseconds overflow
    return set()


def expected_records(name: str) -> dict[str, list[dict[str, Any]]]:
    """The fixture's records by topic, without what decided differences leave out."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for record in scenario(name)["records"]:
        if record["topic"] in LEFT_OUT_TOPICS:
            continue
        snapshot = isinstance(record["value"], dict) and record["value"].get("op") == "r"
        # 42: of a partitioned table what the publication streams is read, not root and leaves.
        if snapshot and name == "events_matrix" and record["topic"] == "inventory.app.part":
            continue
        if snapshot and name == "partition_root" and record["topic"].startswith("inventory.app.part_"):
            continue
        topics.setdefault(record["topic"], []).append(record)
    if name == "partition_root":
        topics["inventory.app.part"][1]["value"]["source"]["snapshot"] = "last"
    return topics


# --- running ---


def run_scenario(
    name: str, server: PostgresServer, data: Path, captures: Mapping[str, Mapping[str, str]]
) -> None:
    """Set up, capture in every encoding asked for, take the steps, stop."""
    fixture = scenario(name)
    dsn = server.create_database(fixture["config"]["database.dbname"])
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(fixture["setup_sql"].encode())
        running = []
        try:
            for encoding, settings in captures.items():
                config = {k: v for k, v in fixture["config"].items() if k not in WITHOUT.get(name, ())}
                capture = CaptureProcess(
                    dsn, data / encoding, name=encoding, settings={**BASE, **config, **settings}
                )
                capture.start()
                running.append(capture)
                capture.wait_for_snapshot()
            with psycopg.connect(dsn, autocommit=True) as connection:
                for step in fixture["steps"]:
                    if step.startswith("--sleep"):
                        for capture in running:
                            capture.wait_until_caught_up()
                        continue
                    try:
                        connection.execute(step.encode())
                    except psycopg.Error:
                        connection.execute(b"rollback")  # refused when it was recorded as well
            for capture in running:
                capture.wait_until_caught_up()
                assert capture.stop() == 0
        finally:
            for capture in running:
                if capture.process is not None:
                    capture.process.end()
    finally:
        server.drop_database(dsn)


AVRO: Final = {"key.converter": "avro", "value.converter": "avro"}
JSON: Final = {"key.converter": "json", "value.converter": "json"}


@pytest.mark.parametrize("name", [*RUN, *WITHOUT, *sorted(JSON_ONLY)])
def test_scenario(
    name: str, postgres: PostgresServer, contrib: PostgresServer | None, tmp_path: Path
) -> None:
    server = postgres if contrib is None or scenario(name)["postgresql"].startswith("18") else contrib
    if contrib is None and name in NEEDS_EXTENSIONS:
        pytest.skip(f"{name} needs hstore, citext, ltree or isn, which the embedded server has not")
    captures = {"json": JSON} if name in JSON_ONLY else {"avro": AVRO, "json": JSON}
    run_scenario(name, server, tmp_path, captures)
    compare_json(name, tmp_path / "json")
    if name not in JSON_ONLY:
        compare_avro(name, tmp_path / "avro")


# --- comparing ---


def compare_json(name: str, data: Path) -> None:
    """Keys, values, headers and Connect schemas, in the order of topic and of fields."""
    schemas = scenario(name)["schemas"]
    for theirs, ours in pairs(name, data):
        where = f"{name}: {theirs['topic']}@{ours.offset}"
        key, key_schema = unwrapped(ours.key)
        value, value_schema = unwrapped(ours.value)
        ignored = ignored_columns(name, theirs)
        assert text(without(key, ignored)) == text(without(theirs["key"], ignored)), where
        assert text(normalised(value, ignored)) == text(normalised(theirs["value"], ignored)), where
        assert headers(ours) == [tuple(pair) for pair in expected_headers(theirs)], where
        for mine, their_name in ((key_schema, "key_connect_schema"), (value_schema, "value_connect_schema")):
            their_schema = schemas[theirs[their_name]] if theirs[their_name] else None
            assert text(corrected(name, theirs, mine)) == text(corrected(name, theirs, their_schema)), where


def compare_avro(name: str, data: Path) -> None:
    """Schema texts as registered, and the bytes once clocks and positions are made equal."""
    schemas = scenario(name)["schemas"]
    registered = schemas_of(data)
    for theirs, ours in pairs(name, data):
        where = f"{name}: {theirs['topic']}@{ours.offset}"
        for mine, side in ((ours.key, "key"), (ours.value, "value")):
            schema_name = theirs[f"{side}_avro_schema"]
            if schema_name is None or mine is None:
                assert (mine, schema_name) == (None, None), where
                continue
            their_schema = schemas[schema_name]
            schema = registered[int.from_bytes(mine[1:5])]
            ours_corrected = corrected(name, theirs, json.loads(schema))
            assert text(ours_corrected) == text(corrected(name, theirs, their_schema)), where
            if ours_corrected == json.loads(schema):
                assert schema == json.dumps(their_schema, separators=(",", ":"), ensure_ascii=False), where
            compare_bytes(name, theirs, mine[5:], json.loads(schema), their_schema, side, where)


def compare_bytes(
    name: str, theirs: Mapping[str, Any], body: bytes, ours: Any, their_schema: Any, side: str, where: str
) -> None:
    """Byte for byte, after clocks, positions and ignored columns are made Debezium's."""
    expected_hex = theirs.get(f"{side}_avro_hex")
    if expected_hex is None:
        return
    ignored = ignored_columns(name, theirs)
    mine, expected = decode(ours, body), decode(their_schema, bytes.fromhex(expected_hex))
    if side == "key":
        assert repr(without(mine, ignored)) == repr(without(expected, ignored)), where
        return
    if "transaction" in expected:
        expected["transaction"] = None  # provide.transaction.metadata is left out
    expected["source"]["snapshot"] = theirs["value"]["source"]["snapshot"]  # as `expected_records` says
    take_over(mine, expected, ignored)
    assert repr(mine) == repr(expected), where
    if plain(ours) == plain(their_schema):
        assert encode(ours, mine) == encode(their_schema, expected), where


def take_over(mine: Any, expected: Any, ignored: set[str]) -> None:
    """Put Debezium's clocks, positions and ignored columns into our record."""
    for name in ("ts_ms", "ts_us", "ts_ns"):
        for ours, theirs in ((mine, expected), (mine["source"], expected["source"])):
            if name in theirs:
                assert isinstance(ours[name], int)
                ours[name] = theirs[name]
    source, other = mine["source"], expected["source"]
    assert shape(source["sequence"]) == shape(other["sequence"])
    for name in ("sequence", "txId", "lsn"):
        assert (source[name] is None) == (other[name] is None)
        source[name] = other[name]
    for part in ("before", "after"):
        for column in ignored:
            if mine.get(part) and column in mine[part] and column in expected[part]:
                mine[part][column] = expected[part][column]
            elif expected.get(part):
                expected[part].pop(column, None)
                mine[part].pop(column, None)


def pairs(name: str, data: Path) -> Iterator[tuple[dict[str, Any], Record]]:
    """Debezium's records beside ours, topic by topic."""
    ours = {topic: found for topic, found in read_topics(data).items() if found}
    if name == "toast_bytes":  # recorded without the snapshot
        ours = {topic: found[1:] for topic, found in ours.items()}
    theirs = expected_records(name)
    assert {t: len(records) for t, records in ours.items()} == {
        t: len(records) for t, records in theirs.items()
    }
    for topic, expected in theirs.items():
        yield from zip(expected, ours[topic], strict=True)


def unwrapped(data: bytes | None) -> tuple[Any, Any]:
    """Payload and schema of JSON with schemas."""
    if data is None:
        return None, None
    value = json.loads(data)
    assert list(value) == ["schema", "payload"]
    return value["payload"], value["schema"]


def normalised(value: Any, ignored: set[str]) -> Any:
    """A value without clocks, positions and ignored columns; their shape stays."""
    if value is None:
        return None
    value = json.loads(json.dumps(value))
    for part in (value, value["source"]):
        for name in ("ts_ms", "ts_us", "ts_ns"):
            if name in part:
                part[name] = type(part[name]).__name__
    source = value["source"]
    source["sequence"] = shape(source["sequence"])
    for name in ("txId", "lsn"):
        source[name] = None if source[name] is None else 0
    value["transaction"] = None
    for part in ("before", "after"):
        for column in ignored:
            if value.get(part):
                value[part].pop(column, None)
    return value


def shape(sequence: str) -> list[bool]:
    return [lsn is None for lsn in json.loads(sequence)]


def headers(record: Record) -> list[tuple[str, str]]:
    found = [(name, (value or b"").decode()) for name, value in record.headers]
    return [(name, "" if name == f"{CONTEXT}runId" else value) for name, value in found]


def expected_headers(theirs: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, "" if name == f"{CONTEXT}runId" else value) for name, value in theirs["headers"]]


def corrected(name: str, theirs: Mapping[str, Any], schema: Any) -> Any:
    """A schema less the column of decision 10, whose scale Debezium misreads."""
    if schema is None or not (name.startswith("types_") and theirs["topic"].endswith("t_num")):
        return schema
    copy = json.loads(json.dumps(schema))
    _drop(copy, "n5m2")
    return copy


def _drop(node: Any, column: str) -> None:
    if isinstance(node, dict):
        if "fields" in node:
            node["fields"] = [f for f in node["fields"] if column not in (f.get("name"), f.get("field"))]
        for child in node.values():
            _drop(child, column)
    elif isinstance(node, list):
        for child in node:
            _drop(child, column)


def without(key: Any, ignored: set[str]) -> Any:
    return {name: value for name, value in key.items() if name not in ignored} if key else key


def encode(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(plain(schema)), value)
    return sink.getvalue()


def decode(schema: Any, body: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(plain(schema)), None)


def plain(node: Any) -> Any:
    """A schema without logical types: raw values are compared."""
    if isinstance(node, dict):
        return {
            key: plain(value) for key, value in node.items() if key not in ("logicalType", "connect.default")
        }
    if isinstance(node, list):
        return [plain(item) for item in node]
    return node


def text(value: Any) -> str:
    """JSON in the order of its members."""
    return json.dumps(value, ensure_ascii=False)
